"""PPO for short completions: the tables of docs/studies/brevity.md.

    make study-brevity_learning_rate
    python bench/studies/brevity.py outputs/brevity_learning_rate

A row per arm: the mean over seeds, with the lowest and the highest. Start and end are medians of the first and the last
tenth of the rollouts.
"""

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median

from rlhf_exp.runs.load import Run, find_runs, load_run

Measure = Callable[[Run], float]


def last(name: str) -> Measure:
    return lambda run: median(values(run, name)[-len(values(run, name)) // 10 :])


def values(run: Run, name: str) -> list[float]:
    return [row[name] for row in run.metrics if row.get(name) is not None]


def share(name: str, of: Callable[[float], bool]) -> Measure:
    return lambda run: fmean(of(value) for value in values(run, name))


def held_out(side: str, *path: str) -> Measure:
    def read(run: Run) -> float:
        found = run.evaluation[side]
        for name in path:
            found = found[name]
        return float(found["value"] if isinstance(found, dict) else found)

    return read


MEASURES: dict[str, tuple[Measure, str]] = {
    "held-out reward, start": (held_out("baseline", "reward", "mean"), ".3f"),
    "held-out reward, end": (held_out("trained", "reward", "mean"), ".3f"),
    "held-out KL, exact, nats": (held_out("trained", "kl", "mean"), ".2f"),
    "largest exact KL of a rollout, nats": (lambda run: max(values(run, "ppo/kl_exact")), ".1f"),
    "rollouts above the KL target of 0.1": (share("ppo/kl_exact", lambda kl: kl > 0.1), ".0%"),
    "rollouts with a sampled KL below 0": (share("ppo/kl", lambda kl: kl < 0), ".0%"),
    "lowest sampled KL, nats": (lambda run: min(values(run, "ppo/kl")), ".2f"),
    "KL coefficient, end (start 1)": (last("ppo/kl_coef"), ".2f"),
    "value loss, median": (lambda run: median(values(run, "ppo/value_loss")), ".3g"),
    "value loss, largest": (lambda run: max(values(run, "ppo/value_loss")), ".3g"),
    "explained variance, end": (last("ppo/explained_variance"), ".2f"),
    "value error, end": (last("ppo/value_error"), ".3g"),
    "clip fraction, largest": (lambda run: max(values(run, "ppo/clip_fraction")), ".3f"),
    "approximate KL of an update, median": (lambda run: median(values(run, "ppo/approx_kl")), ".2g"),
    "entropy of own samples, start": (lambda run: median(values(run, "entropy")[:15]), ".3f"),
    "entropy of own samples, end": (last("entropy"), ".3f"),
    "entropy on the probe, end": (last("probe/entropy"), ".3f"),
    "tokens, end": (last("completions/mean_length"), ".1f"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    arms: dict[str, list[Run]] = {}
    for run in map(load_run, find_runs(parser.parse_args().folder)):
        if run.status == "finished":
            arms.setdefault(run.path.name.split("_tiny")[0], []).append(run)
    print(f"| | {' | '.join(f'{arm}, n = {len(runs)}' for arm, runs in arms.items())} |")
    print("|---" * (len(arms) + 1) + "|")
    for name, (measure, spec) in MEASURES.items():
        print(f"| {name} | {' | '.join(_write(list(map(measure, runs)), spec) for runs in arms.values())} |")
    print()
    for arm, runs in arms.items():
        found = Counter(one["name"] for run in runs for one in run.diagnosis["findings"])
        print(f"{arm}: {', '.join(f'{name} {n}' for name, n in found.most_common()) or 'no finding'}")
        said = Counter((one["name"], one["cause"], one["remedy"]) for run in runs for one in run.diagnosis["findings"])
        for (name, cause, remedy), n in said.most_common():
            print(f"  {n} {name}: {cause}; {remedy}")


def _write(found: list[float], spec: str) -> str:
    return f"{fmean(found):{spec}} ({min(found):{spec}} to {max(found):{spec}})"


if __name__ == "__main__":
    main()
