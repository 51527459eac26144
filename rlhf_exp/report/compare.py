"""The report over several runs: one row a run, one row a setting over its seeds, curves over each other.

describe_runs([load_run(path) for path in paths], out)  ->  blocks; the plots lie in out/plots
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rlhf_exp.report import curves, plots
from rlhf_exp.report.load import Run
from rlhf_exp.report.page import Block, Callout, Figures, Heading, Table, Text
from rlhf_exp.report.tables import duration, number, percent, points, write_name
from rlhf_exp.report.verdict import accuracy_name, status_sentence
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
    "Means over seeds with 95% t intervals; one seed has none. A seed that was run twice counts once, the later one."
)


class Column(NamedTuple):
    """One figure of evaluation.json, how it is written, and what it is."""

    name: str
    key: tuple[str, ...]
    write: Callable[[Interval | None], str]
    note: str


ACCURACIES = (
    Column("baseline", ("baseline", "accuracy"), percent, ""),
    Column("trained", ("trained", "accuracy"), percent, ""),
)
COLUMNS = (
    *ACCURACIES,
    Column("difference", ("paired", "difference"), points,
           "Baseline and trained are held-out accuracies, the difference is in percentage points."),
    Column("implicit", ("trained", "preference", "accuracy"), percent,
           "Implicit: share of held-out pairs whose chosen answer the policy's implicit reward puts first."),
    Column("win rate", ("paired", "win_rate"), percent,
           "Win rate: how often the trained model's reward is above the start model's on the same row."),
    Column("reward", ("trained", "reward", "mean"), lambda interval: number(interval, ".3f"),
           "Rewards are of the trained model, and comparable only under the same reward."),
    Column("tokens", ("trained", "mean_tokens"), lambda interval: number(interval, ".1f"),
           "Tokens are of the trained model's completions."),
    Column("KL", ("trained", "kl", "mean"), lambda interval: number(interval, ".2f"),
           "KL is the trained model's to its start, in nats per completion."),
)  # fmt: skip


def describe_runs(runs: list[Run], out: Path) -> list[Block]:
    """Blocks for runs given in the order in which they shall stand."""
    groups = group_runs(runs)
    names = _names(runs)
    measured = {label: kept for label, group in groups.items() if (kept := _one_run_a_seed(group))}
    blocks: list[Block] = [Heading(f"{len(runs)} runs compared", 1), Text(_shared_settings(runs))]
    columns = list_columns(runs)
    if measured:
        rows = [
            [label, str(len(group)), *(column.write(_mean(group, column)) for column in columns)]
            for label, group in measured.items()
        ]
        notes = " ".join(column.note for column in columns if column.note)
        head = ["setting", "seeds", *(column.name for column in columns)]
        blocks += [Heading("Over seeds"), Table(head, rows), Text(f"{SEEDS_NOTE} {notes}")]
        dots = [(label, *(_mean(group, column) for column in ACCURACIES)) for label, group in measured.items()]
        if dots := [row for row in dots if row[1] or row[2]]:
            blocks.append(Figures([plots.draw_accuracy(dots, out, _accuracy_names(runs))]))
    blocks += [Heading("Every run"), _runs_table(groups, names, columns)]
    blocks.append(Text("In brackets: 95% intervals over the held-out rows."))
    blocks += [
        Callout("error" if run.status == "failed" else "warning", f"{names[run.path]}.", sentence)
        for run in runs
        if (sentence := status_sentence(run))
    ]
    if drawn := curves.draw_runs(groups, out):
        blocks += [Heading("Training"), Figures(drawn)]
    return blocks


def list_columns(runs: list[Run]) -> list[Column]:
    """The figures that some of these runs have."""
    return [column for column in COLUMNS if any(_read(run, column) for run in runs)]


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
    return kept | {name: write_name(run.info.get(name)) for name in IDENTITY}


def _flatten(config: dict, prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in config.items():
        flat |= _flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": str(value)}
    return flat


def _label(setting: dict[str, str], names: list[str]) -> str:
    parts = [f"{name.removeprefix('algo.args.')}={setting[name]}" for name in names if setting.get(name)]
    return " ".join(parts) or "all runs"


def _shared_settings(runs: list[Run]) -> str:
    values = {name: {write_name(run.info.get(name)) for run in runs} for name in (*IDENTITY, "seed")}
    found = {name: names.pop() for name, names in values.items() if len(names) == 1}
    shared = ", ".join(f"{name}={value}" for name, value in found.items() if value)
    return f"Shared by all: {shared}." if shared else "No main setting is shared by all."


def _one_run_a_seed(group: list[Run]) -> list[Run]:
    measured = [run for run in group if "trained" in run.evaluation]
    measured.sort(key=lambda run: str(run.info.get("started")))
    return list({run.info.get("seed"): run for run in measured}.values())


def _read(run: Run, column: Column) -> Interval | None:
    """None where the run did not measure it. A reward model's own mean reward has no zero to compare from."""
    found: Any = run.evaluation if "trained" in run.evaluation else {}
    if column.name == "reward" and run.info.get("algo") == "reward_model":
        return None
    for name in column.key:
        found = found.get(name, {})
    return found or None


def _mean(group: list[Run], column: Column) -> Interval | None:
    values = [figure["value"] for run in group if (figure := _read(run, column))]
    return mean_interval(values) if values else None


def _accuracy_names(runs: list[Run]) -> str:
    names = {accuracy_name(run) for run in runs}
    return names.pop() if len(names) == 1 else "Held-out accuracy"


def _names(runs: list[Run]) -> dict[Path, str]:
    """Each run's folder, from where the paths part."""
    common = os.path.commonpath([run.path.absolute().parent for run in runs])
    return {run.path: run.path.absolute().relative_to(common).as_posix() for run in runs}


def _runs_table(groups: dict[str, list[Run]], names: dict[Path, str], columns: list[Column]) -> Table:
    rows = []
    for label, group in groups.items():
        for run in group:
            figures = [column.write(_read(run, column)) for column in columns]
            health = run.diagnosis.get("health", "-") if run.status == "finished" else run.status
            train = duration(run.info.get("seconds", {}).get("train"))
            rows.append([names[run.path], label, str(run.info.get("seed")), *figures, train, health])
    return Table(["run", "setting", "seed", *(column.name for column in columns), "training", "health"], rows)
