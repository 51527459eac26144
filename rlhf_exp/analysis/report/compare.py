"""The report over several runs: one row per run, one row per setting over its seeds, and their curves.

describe_runs([load_run(path) for path in paths])  ->  blocks
tabulate_study(runs)  ->  the table over seeds that the terminal shows

A setting is the config without the seed (groups.py).
"""

import math
import os
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

from rlhf_exp.analysis.report import answer, columns
from rlhf_exp.analysis.report.baselines import compare_baselines
from rlhf_exp.analysis.report.columns import Column, fill, join_notes, list_columns, mean_over_seeds
from rlhf_exp.analysis.report.curves import HEADING, plot_runs, show_curves
from rlhf_exp.analysis.report.grid import describe_grid, list_differences
from rlhf_exp.analysis.report.groups import (
    Groups,
    UnknownSetting,
    find_shared,
    find_varied,
    gather,
    keep_measured,
    sort_runs,
)
from rlhf_exp.analysis.report.learning import describe_learning
from rlhf_exp.analysis.report.noise import describe_noise
from rlhf_exp.analysis.report.page import NOTES, Block, Callout, Figures, Heading, Table, Text, footnote
from rlhf_exp.analysis.report.plots import plot_accuracy
from rlhf_exp.analysis.report.samples import compare_samples
from rlhf_exp.analysis.report.summary import describe_status
from rlhf_exp.runs.figures import duration, write_name
from rlhf_exp.runs.load import Run


def describe_runs(runs: list[Run], named: str | None = None, labels: dict[Path, str] | None = None) -> list[Block]:
    """Blocks for runs, the settings sorted by result, and compared with the one that is `named`, or with the best.

    Args:
        labels: the setting of each run, by its folder; by default what the runs' configs say.

    Raises:
        UnknownSetting: no setting is called so.
    """
    runs = sort_runs(runs)
    groups, names = _rank(gather(runs, labels)), _names(runs)
    shared = ", ".join(f"{name}={value}" for name, value in find_shared(runs).items() if value)
    blocks: list[Block] = [Heading(f"{len(runs)} runs compared", 1), Text(f"Shared by all: {shared or 'nothing'}.")]
    if measured := keep_measured(groups):
        if named and named not in measured:
            raise UnknownSetting(f"no setting is called {named!r}; these are: {', '.join(map(repr, measured))}")
        tests = answer.compare_figures(measured, named)
        about = answer.find_about(measured, tests)
        blocks += answer.describe_answer(groups, measured, tests, about) + _describe_results(measured, tests, about)
    for run in runs:
        blocks += describe_status(run, f"{names[run.path]}.")
    if plots := plot_runs(groups):
        blocks += [HEADING, show_curves(groups, plots)]
    blocks += describe_learning(measured) + compare_samples(measured)
    blocks += _describe_tests(measured, tests, about) if measured else []
    blocks += [*describe_noise(runs), Heading("Every run", folded=True), _runs_table(groups, names)]
    return [*blocks, Text("In brackets: 95% intervals over the held-out rows.")]


def tabulate_study(runs: list[Run], labels: dict[Path, str] | None = None, named: str | None = None) -> list[Block]:
    """A row per setting, with its seeds and the main figures over them, and what the tests say; `labels` and `named` as
    in `describe_runs`."""
    runs = sort_runs(runs)
    measured = keep_measured(_rank(gather(runs, labels)))
    alone = describe_noise(runs)
    if not measured:
        return alone or [Text("No run was measured.")]
    tests = answer.compare_figures(measured, named)
    about = answer.find_about(measured, tests)
    table = _table(measured, _choose(columns.SHORT, about, measured))
    remarks = answer.summarise_tests(measured, tests, about)
    remarks += [Text(text)] if (text := answer.describe_collapsed(measured)) else []
    return [table, footnote(NOTES["study"]), *remarks, *alone]


def _describe_results(measured: Groups, tests: dict[str, answer.Tests], about: list[str]) -> list[Block]:
    """Figures over seeds, and over two swept keys."""
    shown = _choose(columns.MEASURED, about, measured)
    table = _table(measured, shown, tests)
    marked = f"{NOTES['marked']} " if table.marked else ""
    blocks: list[Block] = [Heading("Results over seeds"), table]
    blocks.append(footnote(f"{marked}{NOTES['seeds']} {join_notes(shown)}"))
    sides = columns.BASELINE, columns.TRAINED
    dots = [(label, *(mean_over_seeds(group, side) for side in sides)) for label, group in measured.items()]
    if dots := [row for row in dots if any(row[1:])]:
        blocks.append(Figures([plot_accuracy(dots)]))
    if text := answer.describe_collapsed(measured):
        blocks.append(Callout("warning", "Collapsed seeds.", text))
    return blocks + describe_grid(measured) + list_differences(measured)


def _describe_tests(measured: Groups, tests: dict[str, answer.Tests], about: list[str]) -> list[Block]:
    """Sampling baselines, tests and costs."""
    runs = _flatten(measured)
    blocks = compare_baselines(measured) + answer.tabulate_tests(tests, [*list(tests)[:1], "reward", *about])
    for heading, figures in columns.PARTS.items():
        if shown := list_columns(runs, figures):
            blocks += [Heading(heading, folded=True), _table(measured, shown), footnote(join_notes(shown))]
    return blocks


def _choose(usual: Sequence[Column], about: list[str], measured: Groups) -> list[Column]:
    """The usual columns, and after the accuracies those that the settings' differences are about."""
    further = [columns.TESTED[name] for name in about if columns.TESTED[name] not in usual]
    further += [columns.USED] if "max_tokens" in find_varied(measured) else []
    accuracies = columns.DIFFERENCE, columns.TRAINED, columns.BASELINE
    place = 1 + max(usual.index(column) for column in accuracies if column in usual)
    return list_columns(_flatten(measured), [*usual[:place], *further, *usual[place:]])


def _flatten(groups: Groups) -> list[Run]:
    return [run for group in groups.values() for run in group]


def _rank(groups: Groups) -> Groups:
    """The best first, by accuracy, and then those that have only a reward; at the end those that were not measured."""
    measured = keep_measured(groups)

    def place(label: str) -> tuple:
        means = [mean_over_seeds(measured.get(label, []), column) for column in columns.RANKING]
        values = [mean["value"] if mean else None for mean in means]
        return label not in measured, *(math.inf if value is None else -value for value in values)

    return {label: groups[label] for label in sorted(groups, key=place)}


def _table(measured: Groups, shown: list[Column], tests: dict[str, answer.Tests] | None = None) -> Table:
    """A row for each setting: its seeds, and the means over them. The first is marked if the tests of the first figure
    find it better than every other."""
    means = [column._replace(read=lambda row, c=column: mean_over_seeds(row[1], c)) for column in shown]
    table = fill([Column("setting", itemgetter(0)), Column("seeds", lambda row: len(row[1])), *means], measured.items())
    pairs = next(iter(tests.values())).pairs if tests else []
    best = [pair for pair in pairs if pair.verdict and next(iter(measured)) in pair[:2]]
    return table._replace(marked=(0,) if best and len(best) == len(measured) - 1 else ())


def _names(runs: list[Run]) -> dict[Path, str]:
    """Each run's folder, without the part that all paths share."""
    common = os.path.commonpath([run.path.absolute().parent for run in runs])
    return {run.path: run.path.absolute().relative_to(common).as_posix() for run in runs}


def _runs_table(groups: Groups, names: dict[Path, str]) -> Table:
    labels = {run.path: label for label, group in groups.items() for run in group}
    runs = _flatten(groups)
    own = [Column(key, lambda run, key=key: write_name(getattr(run.info, key)) or None) for key in ("name", "tags")]
    shown = [
        Column("run", lambda run: names[run.path]),
        *list_columns(runs, own),
        Column("setting", lambda run: labels[run.path]),
        Column("seed", lambda run: run.info.seed),
        *list_columns(runs, columns.MEASURED),
        Column("training", lambda run: run.info.seconds.get("train"), duration),
        Column("health", lambda run: run.diagnosis.health if run.status == "finished" else run.status),
    ]
    return fill(shown, runs)
