"""What settings differ in: a table of each differing key, and for two swept keys a grid of the results with the means
of each row and column.

describe_grid(measured, TRAINED, "held-out accuracy")  ->  [Heading(...), Table(["", "max_tokens=32", ...], ...)], or []
"""

from statistics import fmean

from rlhf_exp.report.columns import Column, mean_over_seeds
from rlhf_exp.report.groups import MANY, Groups, find_varied, read_choices
from rlhf_exp.report.page import NOTES, Block, Heading, Table, footnote
from rlhf_exp.runs.figures import write_name
from rlhf_exp.runs.settings import flatten
from rlhf_exp.stats import exact


def describe_grid(measured: Groups, column: Column, name: str) -> list[Block]:
    """The figure over two keys, if two and no others were varied, and at least half of the grid's cells were run."""
    choices = [{key: value for key, value in found.items() if value} for found in read_choices(measured)]
    keys = list(dict.fromkeys(key for found in choices for key in found))
    values = {key: list(dict.fromkeys(found.get(key, "-") for found in choices)) for key in keys}
    varied = [key for key in keys if len(values[key]) > 1]
    if len(varied) != 2:
        return []
    down, across = sorted(varied, key=lambda key: -len(values[key]))
    found = {(of.get(down, "-"), of.get(across, "-")): mean_over_seeds(group, column)
             for of, group in zip(choices, measured.values(), strict=True)}  # fmt: skip
    cells = {place: mean for place, mean in found.items() if mean}
    rows, heads = (sorted(values[key], key=_place) for key in (down, across))
    if len(found) != len(measured) or min(len(rows), len(heads)) < 2 or 2 * len(cells) < len(rows) * len(heads):
        return []
    low, *_, high = sorted(mean["value"] for mean in cells.values())
    table, shades = [], []
    for row in rows:
        means = [cells.get((row, head)) for head in heads]
        table.append([f"{down}={row}", *(column.write(mean) if mean else "-" for mean in means), _mean(column, means)])
        shades.append([None, *(mean and 0.6 * (mean["value"] - low) / ((high - low) or 1) for mean in means), None])
    columns = [[cells.get((row, head)) for row in rows] for head in heads]
    table.append(["mean", *(_mean(column, means) for means in columns), _mean(column, list(cells.values()))])
    shades.append([None] * (len(heads) + 2))
    head = ["", *(f"{across}={name}" for name in heads), "mean"]
    return [Heading(f"{name.capitalize()} by {down} and {across}"), Table(head, table, shades=shades),
            footnote(NOTES["grid"])]  # fmt: skip


def list_differences(measured: Groups) -> list[Block]:
    """A row for each key of the config in which settings differ, folded: its value in each, of many all values."""
    configs = {label: flatten(group[0].config) for label, group in measured.items()}
    rows = []
    for key in find_varied(measured):
        values = [write_name(config.get(key)) or "-" for config in configs.values()]
        if any(value != "-" for value in values):  # facts of a run that are no key of its config
            rows.append([key, *(values if len(configs) <= MANY else [", ".join(dict.fromkeys(values))])])
    head = ["key", *(configs if len(configs) <= MANY else ["values"])]
    return [Table(head, rows, "What differs between the configs of these settings")] if rows else []


def _mean(column: Column, means: list) -> str:
    """The mean of the cells that were run, without an interval: a row's settings differ in more than their seeds."""
    known = [mean["value"] for mean in means if mean]
    return column.write(exact(fmean(known))) if known else "-"


def _place(value: str) -> tuple[bool, float, str]:
    """Numbers by size, before texts."""
    try:
        return False, float(value), ""
    except ValueError:
        return True, 0.0, value
