"""What was measured on validation rows during training (`eval.every`): against its cost, and against the KL.

describe_learning({"ppo": [run, run], "grpo": [run]})  ->  blocks
"""

from statistics import fmean
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlhf_exp.analysis.frame import join
from rlhf_exp.analysis.report.columns import Column, at
from rlhf_exp.analysis.report.groups import Groups
from rlhf_exp.analysis.report.page import NOTES, Block, Figures, Heading, Table, footnote
from rlhf_exp.analysis.report.plots import Line, Panel, Plot, choose_style, read_bounds
from rlhf_exp.analysis.stats import (
    DIFFERENCES,
    LEVELS,
    SHARES,
    Interval,
    crossed_interval,
    exact,
    mean_interval,
    share_interval,
)
from rlhf_exp.runs.load import Run

HELD_OUT = "validation/"
"""How the names of these metrics begin."""
COSTS = {
    "trained_tokens": "tokens trained on",
    "sampled_tokens": "tokens sampled",
    "step_seconds": "seconds inside steps",
    f"{HELD_OUT}kl": "KL to the start model, nats per completion",
}
"""What metrics.jsonl counts, all from 0; the seconds are without those of the measurements themselves. And the KL."""


class Point(NamedTuple):
    """One measurement of a run.

    Attributes:
        place: what had been spent by then.
        value: the mean over the rows.
        by_row: the figure of each row; None if the folder does not hold those of all points.
    """

    place: float
    value: float
    by_row: pd.Series | None


Trace = dict[int, Point]
"""The measurements of a run by their step."""

KINDS = (
    Column("accuracy", at("figures", "accuracy"), kind=SHARES),
    Column("reward", at("figures", "reward")),
)
"""What may have been measured, as a line of validation.jsonl holds it of each row; the kind is of its mean."""


def describe_learning(groups: Groups) -> list[Block]:
    """Plots against each cost and the KL, and the dates of falls; nothing if no run was measured in training."""
    runs = [run for group in groups.values() for run in group]
    kind = next((kind for kind in KINDS if any(run.series(f"{HELD_OUT}{kind.name}")[0] for run in runs)), None)
    if kind is None:
        return []
    read = {cost: _read_traces(groups, kind, cost) for cost in COSTS}
    if not any(read.values()):
        return []
    panels = [_plot_cost(COSTS[cost], traces, kind) for cost, traces in read.items() if traces]
    falls = {label: date_fall(traces, kind) for label, traces in read["step_seconds"].items()}
    rows = [[label, str(step)] for label, step in falls.items() if step is not None]
    caption = f"{kind.name.capitalize()} on validation rows in training: the mean over seeds with its 95% interval"
    plot = Plot("learning", caption, panels, 0.9 + 2.5 * len(panels))
    blocks: list[Block] = [Heading("Learning on validation rows"), Figures([plot])]
    return [*blocks, Table(["setting", "below the start from step"], rows), footnote(NOTES["fall"])] if rows else blocks


def measure_points(run: Run) -> dict[str, dict[int, Interval]]:
    """Of one run's measurements by their name and step the mean over the rows with its 95% interval."""
    found: dict[str, dict[int, Interval]] = {}
    for line in run.validation:
        for column in KINDS:
            if values := column.read(line):
                measure = share_interval if column.kind is SHARES else mean_interval
                found.setdefault(column.name, {})[line.step] = measure(values)
    return found


def date_fall(traces: list[Trace], kind: Column) -> int | None:
    """The step of the first measurement from which on the mean over these runs, not over others with new seeds, stays
    below that at the start by its 95% interval over rows; None if it does not, or each row's figures are missing."""
    shared, fallen = _find_shared(traces), None
    of_change = DIFFERENCES if kind.kind is SHARES else LEVELS
    for step in reversed(shared):
        figures, start = (join([trace[when].by_row for trace in traces]) for when in (step, shared[0]))
        if figures is None or start is None:
            return None
        gain = crossed_interval((figures - start).mean(0, keepdims=True), of_change)
        if gain["high"] is None or gain["high"] >= 0:  # that of the start is 0 or above
            break
        fallen = step
    return fallen


def _summarise(points: list[Point], kind: Column) -> Interval:
    """The mean over seeds, with a 95% interval that joins seeds, rows and sampling; of one seed, or without each row's
    figures, there is none."""
    figures = join([point.by_row for point in points]) if len(points) > 1 else None  # (seeds, rows)
    if figures is None:
        return exact(fmean(point.value for point in points))
    return crossed_interval(figures, kind.kind or LEVELS)


def _find_shared(traces: list[Trace]) -> list[int]:
    """The steps that all of them measured."""
    return sorted(set.intersection(*map(set, traces)))


def _read_traces(groups: Groups, kind: Column, cost: str) -> dict[str, list[Trace]]:
    """For each group the curves of its runs; without groups that have no such cost, such as sampled tokens of dpo."""
    read = {}
    for label, group in groups.items():
        if traces := [trace for run in group if (trace := _read_trace(run, kind, cost))]:
            read[label] = traces
    return read


def _read_trace(run: Run, kind: Column, cost: str) -> Trace:
    """The measurements for which the run knows its `cost`, a key of metrics.jsonl; at step 0 nothing is spent. Empty if
    these are fewer than two, or nothing was spent."""
    metric = f"{HELD_OUT}{kind.name}"
    rows = [row for row in run.metrics if row.get(metric) is not None and (not row["step"] or cost in row)]
    places = np.array([row.get(cost, 0.0) for row in rows], dtype=np.float64)
    if len(rows) < 2 or not places.max() > 0:
        return {}
    figures = {line.step: pd.Series(values, index=line.id, dtype=float)
               for line in run.validation if (values := kind.read(line))}  # fmt: skip
    complete = all(row["step"] in figures for row in rows)
    return {row["step"]: Point(place, row[metric], figures[row["step"]] if complete else None)
            for row, place in zip(rows, places, strict=True)}  # fmt: skip


def _plot_cost(xlabel: str, groups: dict[str, list[Trace]], kind: Column) -> Panel:
    """A line for each group through the means over its seeds, at the steps that all of them measured."""
    lines, scale = [], 100 if kind.kind is SHARES else 1
    for place, (label, traces) in enumerate(groups.items()):
        points = [[trace[step] for trace in traces] for step in _find_shared(traces)]
        x = [fmean(point.place for point in of) for of in points]
        found = [_summarise(of, kind) for of in points]
        y = [scale * interval["value"] for interval in found]
        lines.append(Line(x, y, label, band=read_bounds(found, scale), style=choose_style(place)))
    return Panel(xlabel, f"{kind.name}, %" if scale == 100 else kind.name, lines)
