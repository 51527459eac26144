"""What kept Countdown's policy from falling to wrong answers: the tables of docs/studies/countdown_remedies.md.

    make study-countdown_remedies                                # the runs
    python bench/studies/countdown_remedies.py outputs/countdown_remedies

The first table has a row per arm, over its seeds, on test rows; the second the dates of the fall, a row per run.
Differences are those of a comparison's report, between the arm and `none`, adjusted by Holm over the arms; 80% power is
the difference that a repetition would find significant in 80%.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

from rlhf_exp.report.columns import DIFFERENCE, KL, TRAINED, mean_over_seeds
from rlhf_exp.report.groups import Groups
from rlhf_exp.report.pairwise import run_tests
from rlhf_exp.runs.load import SIDES, Run, find_runs, load_run
from rlhf_exp.stats import LEVEL, mean_interval

BASE = "none"
OUTCOMES = ("correct", "partial", "failed")


class Fall(NamedTuple):
    """Steps of one run's fall on validation rows; None if it did not come to that.

    Attributes:
        began: the first measurement from which on accuracy stays below that at the start.
        clear: the first of them that is below it by an exact paired test at 5%.
    """

    began: int | None
    clear: int | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    arms = group_by_arm(list(map(load_run, find_runs(parser.parse_args().folder))))
    dates = [f"{arm}: {date_over_rows(runs)}" for arm, runs in arms.items()]
    print(
        "\n".join(
            [
                *tabulate_arms(arms),
                "",
                *tabulate_falls(arms),
                "",
                "All seeds of an arm together are clearly below the start from step:",
                *dates,
            ]
        )
    )


def group_by_arm(runs: list[Run]) -> Groups:
    """The finished runs by the value of `remedy`, in the order of the sweep."""
    arms: Groups = {}
    for run in runs:
        if run.status == "finished":
            arms.setdefault(run.path.name.split("remedy-")[1], []).append(run)
    return dict(sorted(arms.items(), key=lambda arm: arm[0] != BASE))


def tabulate_arms(arms: Groups) -> list[str]:
    column = TRAINED._replace(start=None)  # without the tests against the start model
    contrasts = {one.second: one for one in run_tests(arms, column, BASE).contrasts}
    names = ("remedy", "accuracy", "against the start", "against none", "p, Holm", "80% power", *OUTCOMES)
    lines = _head(*names, "reward, start to end", "KL, nats", "steps", "findings (runs)")
    for arm, runs in arms.items():
        cells = [arm, *(one.write(mean_over_seeds(runs, one)) for one in (TRAINED, DIFFERENCE))]
        if contrast := contrasts.get(arm):  # of `none` minus the arm
            value, low, high = (-100 * (contrast.interval[part] or 0.0) for part in ("value", "high", "low"))
            p = "<0.001" if contrast.adjusted < 0.001 else f"{contrast.adjusted:.3f}"
            cells += [f"{value:+.1f} [{low:+.1f}, {high:+.1f}]", p, f"{100 * contrast.detectable:.1f}"]
        else:
            cells += ["-"] * 3
        counts = [run.evaluation["trained"]["counts"] for run in runs]
        total = sum(sum(count.values()) for count in counts)
        cells += [f"{100 * sum(count.get(name, 0) for count in counts) / total:.0f}%" for name in OUTCOMES]
        rewards = [[run.evaluation[side]["reward"]["mean"]["value"] for run in runs] for side in SIDES]
        cells += [" to ".join(f"{np.mean(of_side):.3f}" for of_side in rewards), KL.write(mean_over_seeds(runs, KL))]
        cells += [f"{np.mean([run.info['steps'] for run in runs]):.0f}", _list_findings(runs)]
        lines.append(_row(*cells))
    return lines


def tabulate_falls(arms: Groups) -> list[str]:
    lines = _head("remedy", "seed", "validation accuracy, %", "falls from step", "clearly below from", "alarms (step)",
                  "findings (steps)")  # fmt: skip
    for arm, runs in arms.items():
        for run in runs:
            _, accuracies = run.series("validation/accuracy")
            fall = date_fall(run.validation)
            found = [f"{one['name']} ({_span(one['steps'])})" for one in run.diagnosis["findings"]]
            curve = " ".join(f"{100 * value:.0f}" for value in accuracies)
            alarms = ", ".join(f"{one['name']} ({one['step']})" for one in read_alarms(run))
            dates = ["-" if step is None else str(step) for step in fall]
            lines.append(_row(arm, str(run.info["seed"]), curve, *dates, alarms or "-", ", ".join(found) or "-"))
    return lines


def date_fall(validation: list[dict]) -> Fall:
    """When accuracy on validation rows fell, from the rows of validation.jsonl.

    >>> start, later = [1] * 8 + [0] * 2, [0] * 10
    >>> date_fall([{"step": 0, "accuracy": start}, {"step": 4, "accuracy": start}, {"step": 8, "accuracy": later}])
    Fall(began=8, clear=8)
    """
    start = np.array(validation[0]["accuracy"])
    last = max(i for i, row in enumerate(validation) if np.mean(row["accuracy"]) >= start.mean())
    fallen = validation[last + 1 :]
    clear = [row["step"] for row in fallen if _is_below(start, np.array(row["accuracy"]))]
    return Fall(fallen[0]["step"] if fallen else None, clear[0] if clear else None)


def date_over_rows(runs: list[Run]) -> int | None:
    """The first step from which the mean accuracy of these runs stays below that of the start by its 95% interval over
    rows; None if it does not come to that by the last step that all have measured."""
    steps = min((run.series("validation/accuracy")[0] for run in runs), key=len)
    accuracy = np.mean([[row["accuracy"] for row in run.validation[: len(steps)]] for run in runs], axis=0)
    intervals = [mean_interval(row - accuracy[0]) for row in accuracy[1:]]
    last = max((i for i, one in enumerate(intervals) if one["high"] is None or one["high"] >= 0), default=-1)
    return steps[1:][last + 1] if last + 2 < len(steps) else None


def _is_below(before: np.ndarray, after: np.ndarray) -> bool:
    lost, won = int((after < before).sum()), int((after > before).sum())
    return lost > won and binomtest(lost, lost + won).pvalue < LEVEL


def read_alarms(run: Run) -> list[dict]:
    path = run.path / "alarms.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _list_findings(runs: list[Run]) -> str:
    counted = Counter(name for run in runs for name in sorted({one["name"] for one in run.diagnosis["findings"]}))
    return ", ".join(f"{name} {count}" for name, count in counted.most_common()) or "-"


def _span(steps: list[int] | None) -> str:
    return "end" if steps is None else f"{steps[0]} to {steps[1]}"


def _head(*names: str) -> list[str]:
    return [_row(*names), "|" + "---|" * len(names)]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
