"""Tests which settings differ significantly over their seeds: from the start model, and from each other.

describe_differences({"ppo": [...], "grpo": [...]}, {"held-out accuracy": TRAINED})  ->  [Heading(...), ...]
compare_groups({"ppo": [...], "grpo": [...]}, TRAINED)  ->  [Pair("ppo", "start model", difference, p, adjusted), ...]
"""

from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

from rlhf_exp.report.columns import read_start
from rlhf_exp.report.page import Block, Callout, Heading, Text
from rlhf_exp.report.tables import Column, fill, percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import Interval, holm, mean_change, mean_difference

LEVEL = 0.05
CRITERION = f"(Holm, p < {LEVEL})"
START = "start model"
NOTE = (
    "Tests over seeds: Welch's t test of every two settings, and a paired t test of each setting against the start"
    f" model. Two differ significantly where p, adjusted by Holm for the number of tests, is below {LEVEL}; the"
    " intervals are 95% each, not adjusted. The start model was measured once: the intervals ignore its sampling error,"
    " and that of the choice of the held-out rows, which are the same for all runs. No significant difference does not"
    " mean equal: with a few seeds only large differences are significant."
)


class Pair(NamedTuple):
    """`difference` is the first's mean minus the second's; p is None if there are too few seeds for a test."""

    first: str
    second: str
    difference: Interval
    p: float | None
    adjusted: float | None

    @property
    def significant(self) -> bool:
        return self.adjusted is not None and self.adjusted < LEVEL


def describe_differences(groups: dict[str, list[Run]], columns: dict[str, Column]) -> list[Block]:
    """A sentence for each of `columns`, whose names say what they measure, and a table for accuracies; empty if no
    group has two seeds."""
    if len(groups) < 2 or max(map(len, groups.values())) < 2:
        return []
    blocks: list[Block] = []
    for name, column in columns.items():
        if pairs := compare_groups(groups, column):
            blocks.append(Callout("info", summarise_pairs(pairs, name), ""))
            if column.write is percent:
                blocks.append(fill(TESTS, pairs))
    return [Heading("Which settings differ significantly"), *blocks, Text(NOTE)] if blocks else []


def compare_groups(groups: dict[str, list[Run]], column: Column) -> list[Pair]:
    """Each group that has the figure against the start model, then every two, in the groups' order."""
    values = {label: found for label, group in groups.items() if (found := _values(map(column.read, group)))}
    starts = {label: _values(read_start(run, column) for run in groups[label]) for label in values}
    found = [
        (label, START, *mean_change(starts[label], after))
        for label, after in values.items()
        if len(starts[label]) == len(after)
    ]
    found += [
        (first, second, *mean_difference(values[first], values[second])) for first, second in combinations(values, 2)
    ]
    adjusted = iter(holm([p for *_, p in found if p is not None]))
    return [Pair(*row, None if row[3] is None else next(adjusted)) for row in found]


def summarise_pairs(pairs: list[Pair], name: str) -> str:
    """In words which pairs differ significantly in the figure `name`."""
    tested = [pair for pair in pairs if pair.p is not None]
    alike = [pair for pair in tested if not pair.significant]
    untested = [pair for pair in pairs if pair.p is None]
    if not tested:
        said = f"In {name} nothing could be tested."
    elif not alike:
        said = f"In {name} every two differ significantly {CRITERION}."
    else:
        n = len(tested) - len(alike)
        rest = f"The other {n} of {len(tested)} pairs do." if n else "No pair does."
        said = f"In {name} these do not differ significantly {CRITERION}: {_list(alike)}. {rest}"
    return said + (f" Not tested, for one seed or seeds that do not differ: {_list(untested)}." if untested else "")


def _list(pairs: list[Pair]) -> str:
    return "; ".join(f"{pair.first} and {pair.second}" for pair in pairs)


def _values(figures: Iterable[Interval | None]) -> list[float]:
    return [figure["value"] for figure in figures if figure]


def _write_p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _judge(pair: Pair) -> str:
    return "not tested" if pair.p is None else "significant" if pair.significant else "not significant"


TESTS = (
    Column("", lambda pair: f"{pair.first} - {pair.second}"),
    Column("difference, points", lambda pair: pair.difference, points),
    Column("p", lambda pair: pair.p, _write_p),
    Column("p, adjusted", lambda pair: pair.adjusted, _write_p),
    Column("", _judge),
)
