"""What settings differ in: a table of each differing key, and for two swept keys a grid of the results with the means
of each row and column.

describe_grid(measured, tests)  ->  [Heading(...), Table(["", "max_tokens=32", ...], ...)], or []
"""

from collections.abc import Iterable
from statistics import fmean

from rlhf_exp.analysis.report.answer import Tests
from rlhf_exp.analysis.report.columns import TRAINED, mean_over_seeds
from rlhf_exp.analysis.report.groups import MANY, Groups, find_varied, read_choices
from rlhf_exp.analysis.report.page import NOTES, Block, Heading, Table, footnote
from rlhf_exp.analysis.stats import Interval
from rlhf_exp.runs.figures import percent, write_name
from rlhf_exp.runs.settings import flatten, read_number


def describe_grid(measured: Groups, tests: Tests | None) -> list[Block]:
    """Held-out accuracy over two keys, if two and no others were varied, and at least half of the cells were run. The
    ground of a cell is dark if its setting is not clearly below the best one, the lighter the lower it is otherwise,
    and plain if it was not tested."""
    choices = [{key: value for key, value in found.items() if value} for found in read_choices(measured)]
    values = {key: {found.get(key, "-") for found in choices} for found in choices for key in found}
    varied = {key: sorted(of, key=_place) for key, of in values.items() if len(of) > 1}
    if len(varied) != 2:
        return []
    down, across = sorted(varied, key=lambda key: -len(varied[key]))
    rows, heads = varied[down], varied[across]
    found = {(of.get(down, "-"), of.get(across, "-")): mean_over_seeds(group, TRAINED)
             for of, group in zip(choices, measured.values(), strict=True)}  # fmt: skip
    cells = {place: mean for place, mean in found.items() if mean}
    if len(found) != len(measured) or 2 * len(cells) < len(rows) * len(heads):
        return []
    below = _find_below(tests) if tests and tests.column is TRAINED and not tests.named else {}
    dark = {(of.get(down, "-"), of.get(across, "-")): below[label]
            for of, label in zip(choices, measured, strict=True) if label in below}  # fmt: skip
    table, shades = [], []
    for row in rows:
        means = [cells.get((row, head)) for head in heads]
        table.append([f"{down}={row}", *map(percent, means), _mean(means)])
        shades.append([None, *(dark.get((row, head)) for head in heads), None])
    table.append(["mean", *(_mean([cells.get((row, head)) for row in rows]) for head in heads), _mean(cells.values())])
    shades.append([None] * (len(heads) + 2))
    title = Heading(f"Held-out accuracy by {down} and {across}")
    head = ["", *(f"{across}={name}" for name in heads), "mean"]
    return [title, Table(head, table, shades=shades), footnote(NOTES["grid"])]


def _find_below(tests: Tests) -> dict[str, float]:
    """How dark the ground of each setting is: 0.6 of the best and of those not clearly below it."""
    gaps = {pair.second: pair.estimate.value if pair.verdict else 0.0 for pair in tests.pairs
            if pair.first == tests.pairs[0].first}  # fmt: skip
    widest = max(gaps.values(), default=0.0)
    shades = {label: 0.6 if not gap else 0.4 * (1 - gap / widest) for label, gap in gaps.items()}
    return shades | {pair.first: 0.6 for pair in tests.pairs[:1]}


def list_differences(measured: Groups) -> list[Block]:
    """A row for each key of the config in which settings differ: its value in each, of many all values. Of many keys
    or settings it is folded."""
    configs = {label: flatten(group[0].config) for label, group in measured.items()}
    rows = []
    for key in find_varied(measured):
        values = [write_name(config.get(key)) or "-" for config in configs.values()]
        if any(value != "-" for value in values):  # facts of a run that are no key of its config
            rows.append([key, *(values if len(configs) <= MANY else [", ".join(dict.fromkeys(values))])])
    head = ["key", *(configs if len(configs) <= MANY else ["values"])]
    title = "What differs between these settings"
    if max(len(rows), len(configs)) > MANY:
        return [Table(head, rows, title)]
    return [Heading(title, 3), Table(head, rows)] if rows else []


def _mean(means: Iterable[Interval | None]) -> str:
    """The mean of the cells that were run, without an interval: a row's settings differ in more than their seeds."""
    known = [mean["value"] for mean in means if mean]
    return percent(fmean(known)) if known else "-"


def _place(value: str) -> tuple[bool, float, str]:
    """Numbers by size, before texts."""
    number = read_number(value)
    return number is None, number or 0.0, value if number is None else ""
