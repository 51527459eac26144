"""The report over several runs: one row per run, one row per setting over its seeds, and their curves.

found = Comparison([load_run(path) for path in paths])
describe_runs(found)   ->  blocks
tabulate_study(found)  ->  the table over seeds that the terminal shows

A setting is the config without the seed (groups.py).
"""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path

from rlhf_exp.analysis.report import answer, columns
from rlhf_exp.analysis.report.baselines import compare_baselines
from rlhf_exp.analysis.report.columns import Column, at, fill, join_notes, list_columns, mean_over_seeds
from rlhf_exp.analysis.report.curves import HEADING, plot_runs, show_curves
from rlhf_exp.analysis.report.grid import describe_grid, list_differences
from rlhf_exp.analysis.report.groups import (
    MANY,
    Groups,
    find_setting,
    find_shared,
    find_varied,
    gather,
    join_groups,
    judge_groups,
    keep_measured,
    list_ranked,
    sort_runs,
)
from rlhf_exp.analysis.report.learning import describe_learning
from rlhf_exp.analysis.report.page import NOTES, Block, Code, Figures, Heading, Table, Text, footnote
from rlhf_exp.analysis.report.plots import Plot, plot_frontier, plot_gains, plot_readings
from rlhf_exp.analysis.report.samples import compare_samples
from rlhf_exp.analysis.report.summary import describe_status
from rlhf_exp.analysis.stats import Interval
from rlhf_exp.runs.figures import duration, write_name
from rlhf_exp.runs.load import Run


@dataclass
class Comparison:
    """Several runs by setting, compared with the setting that is `named`, or with the best. What is computed is
    computed once, for the page, the terminal and a study.

    Attributes:
        labels: the setting of each run, by its folder; by default what the runs' configs say.
        judged: what is compared: the measured runs, or their measurements on the evaluation set `judge`.
    """

    runs: list[Run]
    named: str | None = None
    labels: dict[Path, str] | None = None

    def __post_init__(self) -> None:
        self.runs = sort_runs(self.runs)
        groups = gather(self.runs, self.labels)
        self.judge, judged = judge_groups(keep_measured(groups))
        self.judged = _rank(judged)
        self.groups = {label: groups[label] for label in {**self.judged, **groups}}
        self.measured = keep_measured(self.groups)

    @cached_property
    def tests(self) -> dict[str, answer.Tests]:
        """The contrasts of each figure.

        Raises:
            UnknownSetting: no setting is called as the named one.
        """
        named = find_setting(self.judged, self.named) if self.named else None
        return answer.compare_figures(self.judged, named)

    @cached_property
    def about(self) -> list[str]:
        """The figures that the settings' differences are about."""
        return answer.find_about(self.measured, self.tests)

    @cached_property
    def remarks(self) -> answer.Answer:
        """A remark for each question."""
        told = answer.describe_answer(self.groups, self.judged, self.tests, self.about)
        without = [label for label in self.measured if label not in self.judged]
        return told._replace(main=[*answer.tell_judge(self.judge, without), *told.main])


def describe_runs(found: Comparison, apart: Sequence[Block] = ()) -> list[Block]:
    """Blocks for runs, the settings sorted by result.

    Args:
        apart: what other runs answer, which are compared by themselves.

    Raises:
        UnknownSetting: no setting is called as the named one.
    """
    runs, groups, names = found.runs, found.groups, _names(found.runs)
    measured, tests, about = found.measured, found.tests, found.about
    shared = ", ".join(f"{name}={value}" for name, value in find_shared(runs).items() if value)
    blocks: list[Block] = [Heading(f"{len(runs)} runs compared", 1), Text(f"Shared by all: {shared or 'nothing'}.")]
    main, rest, more = found.remarks
    gains, *others = _plot_results(found.judged, tests)
    blocks += [Heading("Answer"), *main, *_show([gains]), *apart, *rest]
    all_runs = _runs_table(found, names)
    blocks += _describe_results(found, all_runs, others)
    blocks += [Heading("What else was seen"), *more] if more else []
    for run in runs:
        blocks += describe_status(run, f"{names[run.path]}.")
    if plots := plot_runs(groups):
        blocks += [HEADING, show_curves(groups, plots)]
    blocks += describe_learning(measured) + compare_samples(measured)
    blocks += _describe_tests(measured, tests, about) if measured else []
    blocks += [Heading("Every run", folded=True), all_runs] if tests else []
    blocks.append(Text("In brackets: 95% intervals over the held-out rows."))
    return blocks + (describe_commands(run.info.command for run in runs) if found.labels is None else [])


def describe_commands(commands: Iterable[str | None]) -> list[Block]:
    """The commands that made runs; nothing if one is not known, or of many."""
    known = [*dict.fromkeys(commands)]
    codes = [Code(command) for command in known if command]
    return [Heading("How to repeat it"), *codes] if len(codes) == len(known) <= MANY else []


def tabulate_study(found: Comparison, apart: Sequence[Block] = ()) -> list[Block]:
    """A row per setting, with its seeds and the main figures, and the answer; `apart` as of `describe_runs`."""
    if not found.measured:
        return [Text("No run was measured after training.")]
    shown = _choose(columns.SHORT, found.about, found.judged)
    return [_table(found.judged, shown, found.tests), Text(_explain(shown, found.tests)), *found.remarks.main, *apart,
            *found.remarks.rest]  # fmt: skip


def _show(plots: list[Plot]) -> list[Block]:
    """The plots that have anything to show."""
    return [Figures(drawn)] if (drawn := [plot for plot in plots if plot.panels[0].lines]) else []


def _describe_results(found: Comparison, all_runs: Table, plots: list[Plot]) -> list[Block]:
    """Figures over seeds, or of single runs, and over two swept keys."""
    measured, tests = found.measured, found.tests
    main = answer.find_main(tests)
    differences = [*list_differences(measured), *_show(plots), *describe_grid(measured, main)] if measured else []
    if main is None:
        return [Heading("Runs"), all_runs, *differences]
    shown = _choose(columns.MEASURED, found.about, found.judged)
    table = _table(found.judged, shown, tests)
    marked = f"{NOTES['marked']} " if table.marked else ""
    blocks: list[Block] = [Heading("Results over seeds"), table, Text(_explain(shown, tests))]
    blocks.append(footnote(f"{marked}{NOTES['seeds']} {join_notes(shown)}"))
    return [*blocks, *differences]


def _explain(shown: list[Column], tests: dict[str, answer.Tests]) -> str:
    """Which intervals a table over seeds has."""
    main = answer.find_main(tests)
    is_tested = main is not None and bool(main.gains) and columns.GAINS.get(main.column.name) in shown
    return f"{NOTES['study']} {NOTES['tested']}" if is_tested else NOTES["study"]


def _plot_results(measured: Groups, tests: dict[str, answer.Tests]) -> list[Plot]:
    """The gain of each setting, the first figure that is ranked against the KL, and the accuracy by strict and lenient
    reading; without lines if there is none."""
    column, gain = _find_ranked(measured)
    main = answer.find_main(tests)
    tested = main.gains if main and main.column is column else {}
    of_one = {label: gain.read(group[0]) for label, group in measured.items() if len(group) == 1}
    gains = {label: (tested | of_one).get(label) or mean_over_seeds(group, gain) for label, group in measured.items()}
    kls, levels, lenient = ({label: mean_over_seeds(group, one) for label, group in measured.items()}
                            for one in (columns.KL, column, columns.LENIENT))  # fmt: skip
    found = sorted(((label, mean) for label, mean in gains.items() if mean), key=lambda item: -item[1]["value"])
    named = [(f"{label}, 1 seed" if label in of_one else label, mean) for label, mean in found]
    return [
        plot_gains(named, column, [label in tested for label, _ in found]),
        plot_frontier(kls, levels, column),
        plot_readings(levels, lenient),
    ]


def _describe_tests(measured: Groups, tests: dict[str, answer.Tests], about: list[str]) -> list[Block]:
    """Sampling baselines, tests and costs."""
    runs = join_groups(measured)
    own = tests.keys() - columns.TESTED.keys()
    blocks = compare_baselines(measured) + answer.tabulate_tests(tests, [*list(tests)[:1], "reward", *about, *own])
    for heading, figures in columns.PARTS.items():
        if shown := list_columns(runs, figures):
            blocks += [Heading(heading, folded=True), _table(measured, shown), footnote(join_notes(shown))]
    return blocks


def _choose(usual: Sequence[Column], about: list[str], measured: Groups) -> list[Column]:
    """The usual columns, with the gain in the figure by which settings are sorted, and after the accuracies those that
    the settings' differences are about."""
    _, gain = _find_ranked(measured)
    usual = [gain if column is columns.DIFFERENCE else column for column in usual]
    further = [columns.TESTED[name] for name in about if columns.TESTED[name] not in usual]
    further += [columns.USED] if "max_tokens" in find_varied(measured) else []
    accuracies = columns.TRAINED, columns.BASELINE
    place = 1 + max(usual.index(column) for column in accuracies if column in usual)
    runs = join_groups(measured)
    return list_columns(runs, [*usual[:place], *further, *usual[place:], *columns.list_rewards(runs)])


def _find_ranked(groups: Groups) -> tuple[Column, Column]:
    """The figure by which settings are sorted, by default the accuracy, and the gain in it."""
    column = [*list_ranked(join_groups(groups)), columns.TRAINED][0]
    return column, columns.GAINS[column.name]


def _rank(groups: Groups) -> Groups:
    """The best first."""

    ranked = list_ranked(join_groups(groups))

    def place(label: str) -> tuple:
        means = [mean_over_seeds(groups[label], column) for column in ranked]
        return tuple(-mean["value"] if mean else math.inf for mean in means)

    return {label: groups[label] for label in sorted(groups, key=place)}


def _table(measured: Groups, shown: list[Column], tests: dict[str, answer.Tests] | None = None) -> Table:
    """A row for each setting: its seeds, and the means over them. The gain in the first figure has the interval of its
    test, as in the answer and the picture. The first setting is marked if the tests find it better than every other."""
    main = answer.find_main(tests or {})
    tested, gain = (main.gains, columns.GAINS.get(main.column.name)) if main else ({}, None)

    def read(column: Column, row: tuple[str, list[Run]]) -> Interval | None:
        label, group = row
        return (tested.get(label) if column is gain else None) or mean_over_seeds(group, column)

    means = [column._replace(read=partial(read, column)) for column in shown]
    table = fill([Column("setting", itemgetter(0)), Column("seeds", lambda row: len(row[1])), *means], measured.items())
    is_best = main is not None and main.differs_from_all(next(iter(measured)), len(measured) - 1)
    return table._replace(marked=(0,) if is_best else ())


def _names(runs: list[Run]) -> dict[Path, str]:
    """Each run's folder, without the part that all paths share."""
    common = os.path.commonpath([run.path.absolute().parent for run in runs])
    return {run.path: run.path.absolute().relative_to(common).as_posix() for run in runs}


def _runs_table(found: Comparison, names: dict[Path, str]) -> Table:
    """Every run by its own measurements."""
    labels = {run.path: label for label, group in found.groups.items() for run in group}
    runs = join_groups(found.groups)
    reward = columns.REWARD._replace(name="own reward") if found.judge else columns.REWARD
    measured = [reward if column is columns.REWARD else column for column in columns.MEASURED]
    own = [Column(key, at("info", key), write_name) for key in ("name", "tags")]
    shown = [
        Column("run", at("path"), names.__getitem__),
        *list_columns(runs, own),
        Column("setting", at("path"), labels.__getitem__),
        Column("seed", at("info", "seed")),
        *list_columns(runs, [*measured, *columns.list_rewards(runs)]),
        Column("training", at("info", "seconds", "train"), duration),
        Column("health", lambda run: run.diagnosis.health if run.status == "finished" else run.status),
    ]
    return fill(shown, runs)
