"""Which groups of runs can be told apart, over their seeds: each from the start model, and every two of them.

compare_groups({"ppo": [...], "grpo": [...]}, TRAINED)  ->  [Pair("ppo", "start model", difference, p, adjusted), ...]
"""

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import NamedTuple

from rlhf_exp.report.columns import Column, read_start
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import Interval, holm, mean_change, mean_difference

LEVEL = 0.05
START = "start model"
NOTE = (
    "Welch's t test of every two settings over their seeds, and a t test of each setting's change from the start model,"
    " which was measured once: how its one sampling of the rows came out is in none of the intervals. Two are told"
    " apart where p, adjusted for the number of tests (Holm), is below 0.05; the intervals are 95% each, not adjusted."
    " All runs were measured on the same held-out rows, whose choice these intervals leave out. Not told apart does"
    " not mean equal: a few seeds show only large differences."
)


class Pair(NamedTuple):
    """`difference` is the first's mean minus the second's; p is None where seeds are too few to say."""

    first: str
    second: str
    difference: Interval
    p: float | None
    adjusted: float | None

    @property
    def told_apart(self) -> bool:
        return self.adjusted is not None and self.adjusted < LEVEL


def compare_groups(groups: dict[str, list[Run]], column: Column) -> list[Pair]:
    """Each group that has the figure against the start model, then every two, in the groups' order."""
    values = {label: found for label, group in groups.items() if (found := _read(group, column.read))}
    starts = {label: _read(groups[label], partial(read_start, column=column)) for label in values}
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


def tell_apart(pairs: list[Pair], name: str) -> str:
    """In words what `pairs` say of the figure `name`."""
    tested = [pair for pair in pairs if pair.p is not None]
    alike = [pair for pair in tested if not pair.told_apart]
    apart = len(tested) - len(alike)
    if not tested:
        said = f"By {name} nothing could be tested."
    elif not alike:
        said = f"By {name} every two can be told apart."
    else:
        told = f" The other {apart} of {len(tested)} pairs can." if apart else " No pair can."
        said = f"By {name} these cannot be told apart: {_list(alike)}.{told}"
    untested = [pair for pair in pairs if pair.p is None]
    return said + (f" Not tested, for one seed or seeds that do not differ: {_list(untested)}." if untested else "")


def _list(pairs: list[Pair]) -> str:
    return "; ".join(f"{pair.first} and {pair.second}" for pair in pairs)


def _read(group: list[Run], read: Callable[[Run], Interval | None]) -> list[float]:
    return [figure["value"] for run in group if (figure := read(run))]
