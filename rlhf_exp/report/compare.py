"""The report over several runs: one row per run, one row per setting over its seeds, and their curves.

describe_runs([load_run(path) for path in paths])  ->  blocks
tabulate_study(runs)  ->  the table over seeds that the terminal shows

A setting is the config without the seed (groups.py).
"""

import os
from operator import itemgetter
from pathlib import Path

import numpy as np
from scipy import stats

from rlhf_exp.report import columns, pairwise
from rlhf_exp.report.baselines import compare_baselines
from rlhf_exp.report.columns import Column, fill, join_notes, list_columns, mean_over_seeds
from rlhf_exp.report.curves import plot_runs
from rlhf_exp.report.groups import Groups, UnknownSetting, find_shared, gather, group_runs, sort_runs
from rlhf_exp.report.learning import describe_learning
from rlhf_exp.report.page import NOTES, Block, Callout, Figures, Heading, Table, Text
from rlhf_exp.report.plots import plot_accuracy
from rlhf_exp.report.single import compare_samples
from rlhf_exp.report.summary import status_sentence
from rlhf_exp.runs.figures import duration, percent, write_name
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.settings import SEEDS
from rlhf_exp.stats import CONFIDENCE, SHARES, Interval, as_interval, crossed_interval, mean_interval


def describe_runs(runs: list[Run], named: str | None = None, labels: dict[Path, str] | None = None) -> list[Block]:
    """Blocks for runs, the settings sorted by result. These are compared with the one that is `named`, or with the best.

    Args:
        labels: the setting of each run, by its folder; by default what the runs' configs say.

    Raises:
        UnknownSetting: no setting is called so.
    """
    runs = sort_runs(runs)
    groups, names = gather(runs, labels) if labels else group_runs(runs), _names(runs)
    shared = ", ".join(f"{name}={value}" for name, value in find_shared(runs).items() if value)
    blocks: list[Block] = [Heading(f"{len(runs)} runs compared", 1), Text(f"Shared by all: {shared or 'nothing'}.")]
    if measured := _measured(groups):
        if named and named not in measured:
            raise UnknownSetting(f"no setting is called {named!r}; these are: {', '.join(map(repr, measured))}")
        blocks += _describe_settings(measured, named)
    blocks += describe_noise(runs)
    blocks += [Heading("Every run"), _runs_table(groups, names)]
    blocks.append(Text("In brackets: 95% intervals over the held-out rows."))
    for run in runs:
        if sentence := status_sentence(run):
            blocks.append(Callout("error" if run.status == "failed" else "warning", f"{names[run.path]}.", sentence))
    blocks += describe_learning(measured)
    if plots := plot_runs(groups):
        blocks += [Heading("Training curves"), Figures(plots)]
    return blocks + compare_samples(measured)


def tabulate_study(runs: list[Run]) -> list[Block]:
    """A row per setting, with its seeds and the main figures over them, and what the tests say."""
    measured = _measured(group_runs(sort_runs(runs)))
    alone = describe_noise(runs)
    if not measured:
        return alone or [Text("No run was measured.")]
    remarks = [block for block in _describe_settings(measured) if isinstance(block, Callout)]
    table = _table(measured, list_columns(_flatten(measured), columns.SHORT))
    return [table, Text(NOTES["study"]), *(Text(f"{remark.title} {remark.text}") for remark in remarks), *alone]


def describe_noise(runs: list[Run]) -> list[Block]:
    """The noise floor: how far passes of one model (algo=none over eval.seed) lie apart, with their mean and their
    standard deviation. A pass samples every held-out row anew. Passes over the same rows differ by sampling alone,
    others also by their rows. Empty if no model was measured alone."""
    blocks: list[Block] = []
    alone = [run for run in runs if not run.trains and "accuracy" in run.evaluation.get("baseline", {})]
    for label, group in group_runs(alone, (*SEEDS, "eval.seed")).items():
        group = sorted({_seed(run): run for run in group}.values(), key=_seed)
        rows = [[str(_seed(run)), percent(run.evaluation["baseline"]["accuracy"])] for run in group]
        if len(group) > 1:
            mean, deviation = measure_passes(group)
            rows += [["mean", percent(mean)], ["standard deviation", percent(deviation)]]
        blocks += [Heading(f"Measured alone: {label}"), Table(["eval.seed", "accuracy"], rows)]
    return [*blocks, Text(NOTES["passes"])] if blocks else []


def measure_passes(group: list[Run]) -> tuple[Interval, Interval]:
    """The mean and the standard deviation of at least two passes of one model."""
    accuracies = np.array([run.evaluation["baseline"]["accuracy"]["value"] for run in group])
    df, deviation = len(group) - 1, accuracies.std(ddof=1)
    ends = (deviation * np.sqrt(df / stats.chi2.ppf((1 + sign * CONFIDENCE) / 2, df)) for sign in (1, -1))
    figures = columns.align(group, columns.CORRECT_BEFORE)
    mean = mean_interval(accuracies)
    if figures is not None and all(figures.shape[1] == run.evaluation["baseline"]["n"] for run in group):
        mean = crossed_interval(figures, SHARES)
    return mean, as_interval(deviation, *ends)


def _describe_settings(measured: Groups, named: str | None = None) -> list[Block]:
    """Figures over seeds, tests, aggregates and costs."""
    runs = _flatten(measured)
    shown = list_columns(runs, columns.MEASURED)
    blocks: list[Block] = [Heading("Results over seeds"), _table(measured, shown)]
    blocks.append(Text(f"{NOTES['seeds']} {join_notes(shown)}"))
    sides = columns.BASELINE, columns.TRAINED
    dots = [(label, *(mean_over_seeds(group, side) for side in sides)) for label, group in measured.items()]
    if dots := [row for row in dots if any(row[1:])]:
        blocks.append(Figures([plot_accuracy(dots)]))
    blocks += compare_baselines(measured)
    if text := pairwise.describe_collapsed(measured, columns.TRAINED):
        blocks.append(Callout("warning", "Collapsed seeds.", text))
    tested = {"held-out accuracy": columns.TRAINED}
    if len({str({**run.config.get("reward", {}), "random": None}) for run in runs}) == 1:
        tested["reward"] = columns.REWARD
    blocks += pairwise.describe_differences(measured, tested, named)
    blocks += pairwise.describe_aggregates(measured, columns.TRAINED)
    for heading, figures in columns.PARTS.items():
        if shown := list_columns(runs, figures):
            blocks += [Heading(heading), _table(measured, shown), Text(join_notes(shown))]
    return blocks


def _flatten(groups: Groups) -> list[Run]:
    return [run for group in groups.values() for run in group]


def _measured(groups: Groups) -> Groups:
    """The runs whose trained model was measured; for each seed the latest one."""
    kept: Groups = {}
    for label, group in groups.items():
        measured = [run for run in group if "trained" in run.evaluation]
        measured.sort(key=lambda run: str(run.info.get("started")))
        of_seed = {(run.info.get("seed"), str(run.config.get("reward", {}).get("random"))): run for run in measured}
        kept |= {label: list(of_seed.values())} if of_seed else {}
    return kept


def _table(measured: Groups, shown: list[Column]) -> Table:
    """A row for each setting: its seeds, and the means over them."""
    means = [column._replace(read=lambda row, c=column: mean_over_seeds(row[1], c)) for column in shown]
    return fill([Column("setting", itemgetter(0)), Column("seeds", lambda row: len(row[1])), *means], measured.items())


def _names(runs: list[Run]) -> dict[Path, str]:
    """Each run's folder, without the part that all paths share."""
    common = os.path.commonpath([run.path.absolute().parent for run in runs])
    return {run.path: run.path.absolute().relative_to(common).as_posix() for run in runs}


def _runs_table(groups: Groups, names: dict[Path, str]) -> Table:
    labels = {run.path: label for label, group in groups.items() for run in group}
    runs = _flatten(groups)
    own = [Column(key, lambda run, key=key: write_name(run.info.get(key)) or None) for key in ("name", "tags")]
    shown = [
        Column("run", lambda run: names[run.path]),
        *list_columns(runs, own),
        Column("setting", lambda run: labels[run.path]),
        Column("seed", lambda run: run.info.get("seed")),
        *list_columns(runs, columns.MEASURED),
        Column("training", lambda run: run.info.get("seconds", {}).get("train"), duration),
        Column("health", lambda run: run.diagnosis.get("health") if run.status == "finished" else run.status),
    ]
    return fill(shown, runs)


def _seed(run: Run) -> int:
    return int(run.config.get("eval", {}).get("seed", 0))
