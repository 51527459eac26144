"""The report over several runs: one row a run, one row a setting over its seeds, curves over each other.

describe_runs([load_run(path) for path in paths], out)  ->  blocks; the plots lie in out/plots
"""

import os
from collections.abc import Callable
from pathlib import Path

from rlhf_exp.report import plots
from rlhf_exp.report.load import Run
from rlhf_exp.report.page import Block, Callout, Figures, Heading, Table, Text
from rlhf_exp.report.tables import duration, number, percent, points, status_sentence
from rlhf_exp.stats import Interval, mean_interval

IDENTITY = ("algo", "task", "model", "loss_type", "max_tokens")
# What may differ between the runs of one setting.
NOT_SETTINGS = (
    "seed",
    "output_dir",
    "resume",
    "dry_run",
    "algo.args.seed",
    "algo.args.output_dir",
    "algo.args.report_to",
    "algo.args.disable_tqdm",
    "eval.cache_dir",
)
SEEDS_NOTE = (
    "Means over seeds with 95% t intervals; one seed has none. Baseline and trained are held-out accuracies, "
    "the difference is in percentage points, tokens and KL (nats per completion) are of the trained model. "
    "A seed that was run twice counts once, the later one."
)
FIGURES: dict[str, Callable[[dict], Interval]] = {
    "baseline": lambda evaluation: evaluation["baseline"]["accuracy"],
    "trained": lambda evaluation: evaluation["trained"]["accuracy"],
    "difference": lambda evaluation: evaluation["paired"]["difference"],
    "tokens": lambda evaluation: evaluation["trained"]["mean_tokens"],
    "KL": lambda evaluation: evaluation["trained"]["kl"]["mean"],
}
FORMATS: dict[str, Callable[[Interval | None], str]] = {
    "baseline": percent,
    "trained": percent,
    "difference": points,
    "tokens": lambda interval: number(interval, ".1f"),
    "KL": lambda interval: number(interval, ".2f"),
}


def describe_runs(runs: list[Run], out: Path) -> list[Block]:
    """Blocks for runs given in the order in which they shall stand."""
    groups = group_runs(runs)
    names = _names(runs)
    measured = {label: kept for label, group in groups.items() if (kept := _one_run_a_seed(group))}
    over_seeds = {label: _means(group) for label, group in measured.items()}
    blocks: list[Block] = [Heading(f"{len(runs)} runs compared", 1), Text(_shared_settings(runs))]
    if over_seeds:
        rows = [
            [label, str(len(measured[label])), *(FORMATS[name](mean[name]) for name in FIGURES)]
            for label, mean in over_seeds.items()
        ]
        dots = [(label, mean["baseline"], mean["trained"]) for label, mean in over_seeds.items()]
        blocks += [Heading("Over seeds"), Table(["setting", "seeds", *FIGURES], rows), Text(SEEDS_NOTE)]
        blocks.append(Figures([plots.draw_accuracy(dots, out)]))
    blocks += [Heading("Every run"), _runs_table(groups, names)]
    blocks.append(Text("In brackets: 95% intervals over the held-out rows."))
    blocks += [
        Callout("error" if run.status == "failed" else "warning", f"{names[run.path]}.", sentence)
        for run in runs
        if (sentence := status_sentence(run))
    ]
    if curves := plots.draw_runs(groups, out):
        blocks += [Heading("Training"), Figures(curves)]
    return blocks


def group_runs(runs: list[Run]) -> dict[str, list[Run]]:
    """Runs by setting, which is everything but the seed; the label names what differs between settings."""
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(sorted(_settings(run).items())), []).append(run)
    settings = [dict(key) for key in groups]
    names = dict.fromkeys(name for setting in settings for name in setting)
    differing = [name for name in names if len({setting.get(name) for setting in settings}) > 1]
    identity = [name for name in IDENTITY if name in differing]
    labels = [_label(setting, identity) for setting in settings]
    if len(set(labels)) < len(labels):
        further = [name for name in differing if name not in IDENTITY]
        labels = [_label(setting, identity + further) for setting in settings]
    return dict(zip(labels, groups.values(), strict=True))


def _settings(run: Run) -> dict[str, str]:
    flat = _flatten(run.config)
    kept = {name: flat[name] for name in flat if name not in NOT_SETTINGS and not name.startswith("logging.")}
    return kept | {name: str(run.info.get(name)) for name in IDENTITY}


def _flatten(config: dict, prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in config.items():
        flat |= _flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": str(value)}
    return flat


def _label(setting: dict[str, str], names: list[str]) -> str:
    parts = [f"{name.removeprefix('algo.args.')}={setting[name]}" for name in names if name in setting]
    return " ".join(parts) or "all runs"


def _shared_settings(runs: list[Run]) -> str:
    values = {name: {str(run.info.get(name)) for run in runs} for name in (*IDENTITY, "seed")}
    shared = ", ".join(f"{name}={found.pop()}" for name, found in values.items() if len(found) == 1)
    return f"Shared by all: {shared}." if shared else "No main setting is shared by all."


def _one_run_a_seed(group: list[Run]) -> list[Run]:
    measured = [run for run in group if "paired" in run.evaluation]
    measured.sort(key=lambda run: str(run.info.get("started")))
    return list({run.info.get("seed"): run for run in measured}.values())


def _means(group: list[Run]) -> dict[str, Interval]:
    return {name: mean_interval([read(run.evaluation)["value"] for run in group]) for name, read in FIGURES.items()}


def _names(runs: list[Run]) -> dict[Path, str]:
    """Each run's folder, from where the paths part."""
    common = os.path.commonpath([run.path.absolute().parent for run in runs])
    return {run.path: run.path.absolute().relative_to(common).as_posix() for run in runs}


def _runs_table(groups: dict[str, list[Run]], names: dict[Path, str]) -> Table:
    rows = []
    for label, group in groups.items():
        for run in group:
            evaluation = run.evaluation if "paired" in run.evaluation else None
            figures = [FORMATS[name](evaluation and read(evaluation)) for name, read in FIGURES.items()]
            health = run.diagnosis.get("health", "-") if run.status == "finished" else run.status
            train = duration(run.info.get("seconds", {}).get("train"))
            rows.append([names[run.path], label, str(run.info.get("seed")), *figures, train, health])
    return Table(["run", "setting", "seed", *FIGURES, "training", "health"], rows)
