"""What was measured on validation rows during training (`eval.every`): against its cost, and against the KL.

describe_learning(groups)             ->  blocks of a comparison
plot_frontier({"": [run]}, kind)      ->  a figure against the KL to the start model, or None

>>> float(area(np.array([0, 10, 20]), np.array([0.2, 0.4, 0.4]), 20))
0.35
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rlhf_exp.report.columns import stack
from rlhf_exp.report.page import NOTES, Block, Figures, Heading, Table, Text
from rlhf_exp.report.plots import MARKERS, TALL, Line, Panel, Plot, choose_style, read_bounds
from rlhf_exp.runs.figures import number, percent
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import LEVELS, SHARES, Interval, Kind, crossed_interval, exact

COSTS = {
    "trained_tokens": "tokens trained on",
    "sampled_tokens": "tokens sampled",
    "step_seconds": "seconds inside steps",
}
"""What metrics.jsonl counts, all from 0; the seconds are without those of the measurements themselves."""

POINTS = 60
FAR = 10
"""The largest end of a curve, over the smallest, from which on the axis is logarithmic."""


class Measured(NamedTuple):
    """A figure: its name in validation.jsonl, what 1 is written as, its unit, and the bounds of its mean."""

    name: str
    scale: float
    unit: str
    kind: Kind

    @property
    def title(self) -> str:
        return f"{self.name} on validation rows"


class Trace(NamedTuple):
    """One run's measurements.

    Attributes:
        steps, places: (points,) when they were made, and what had been spent by then.
        values: (points,) means over the rows.
        ids: of the rows; () if the folder does not hold each row's figures.
        by_row: (rows, points)
    """

    steps: list[int]
    places: np.ndarray
    values: np.ndarray
    ids: tuple[str, ...]
    by_row: np.ndarray


KINDS = (Measured("accuracy", 100, "accuracy, %", SHARES), Measured("reward", 1, "reward", LEVELS))
Groups = dict[str, list[Run]]
Lines = dict[str, list[Trace]]


def choose_kind(runs: list[Run]) -> Measured | None:
    """Accuracy if one of these runs has it, else reward; None without any."""
    return next((kind for kind in KINDS if any(run.series(f"validation/{kind.name}")[0] for run in runs)), None)


def describe_learning(groups: Groups) -> list[Block]:
    """Plots against each cost and against the KL, and the area under each curve against a cost; nothing if no run was
    measured in training."""
    kind = choose_kind([run for group in groups.values() for run in group])
    if kind is None:
        return []
    panels = {cost: lines for cost in COSTS if (lines := _list_lines(groups, kind, cost))}
    table, ends = Table(["setting", "seeds"], [[label, str(len(group))] for label, group in groups.items()]), []
    write = percent if kind.scale == 100 else number(".3f")
    for cost, lines in panels.items():
        end = min(float(trace.places[-1]) for traces in lines.values() for trace in traces)
        areas = {label: _measure_area(traces, end, kind) for label, traces in lines.items()}
        table.head.append(COSTS[cost])
        ends.append(f"{COSTS[cost]} {end:,.0f}")
        for row in table.rows:
            row.append(write(areas.get(row[0])))
    notes = [NOTES["area"].format(title=kind.title, ends=", ".join(ends))]
    several = [traces for lines in panels.values() for traces in lines.values() if len(traces) > 1]
    if not all(trace.ids for traces in several for trace in traces):
        notes.append(NOTES["no validation rows"])
    plots = [plot for plot in (_plot_costs(panels, kind), plot_frontier(groups, kind)) if plot]
    return [Heading("Learning on validation rows"), Figures(plots), table, Text(" ".join(notes))]


def plot_frontier(groups: Groups, kind: Measured) -> Plot | None:
    """A line for each group through the means over its seeds, at the steps that all of them measured, and the interval
    of the last. A single run has the intervals of all points, with the steps beside them.

    The axis is that of the KL's square root, in which curves of reward are close to parabolas: Gao, Schulman and Hilton
    (2023), arXiv:2210.10760."""
    lines = _list_lines(groups, kind, "validation/kl")
    if not lines:
        return None
    alone = sum(map(len, lines.values())) == 1
    over = "with 95% intervals over rows, and the step" if alone else "means over seeds, the last with its 95% interval"
    caption = f"{kind.title.capitalize()} against KL to the start model, in training: {over}"
    drawn = [_trace_frontier(place, *item, kind, alone) for place, item in enumerate(lines.items())]
    end = 1.05 * max(float(np.max(line.x)) for line in drawn)
    xlabel = "KL to the start model, nats per completion (square root axis)"
    panel = Panel(xlabel, kind.unit, drawn, {"xlim": (0, end)}, scale="sqrt")
    return Plot("frontier", caption, [panel], TALL)


def summarise(traces: list[Trace], read: Callable[..., np.ndarray], kind: Measured, fewest: int = 2) -> list[Interval]:
    """Means over seeds, with 95% intervals that join seeds, rows and sampling. Without each row's figures, and with
    fewer than `fewest` seeds, there is no interval.

    Args:
        read: (trace, values) -> (..., numbers), linear in the values, (..., points): of a mean curve, or of each row's.
    """
    rows = [dict(zip(trace.ids, read(trace, trace.by_row), strict=True)) for trace in traces]
    figures = stack(rows) if len(traces) >= fewest else None  # (seeds, rows, numbers)
    if figures is None:
        return [exact(float(value)) for value in np.mean([read(trace, trace.values) for trace in traces], axis=0)]
    return [crossed_interval(figures[:, :, i], kind.kind) for i in range(figures.shape[2])]


def area(places: np.ndarray, values: np.ndarray, end: float) -> np.ndarray:
    """The area under each piecewise linear curve from 0 to `end`, divided by `end`.

    Args:
        places: (points,) increasing, from 0 to at least `end`.
        values: (..., points)

    Returns:
        (...,)
    """
    inside = np.append(places[places < end], end)
    return np.trapezoid(interpolate(places, values, inside), inside) / end


def interpolate(places: np.ndarray, values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """(..., grid): piecewise linear curves of (..., points) values, at the places of the grid."""
    return values @ np.array([np.interp(grid, places, unit) for unit in np.eye(len(places))])


def _measure_area(traces: list[Trace], end: float, kind: Measured) -> Interval:
    return summarise(traces, lambda trace, values: area(trace.places, values, end)[..., None], kind)[0]


def _list_lines(groups: Groups, kind: Measured, cost: str) -> Lines:
    """For each group the curves of its runs; without groups that have no such cost, such as sampled tokens of dpo."""
    read = {label: [_read_trace(run, kind, cost) for run in group] for label, group in groups.items()}
    kept = {label: [trace for trace in traces if trace] for label, traces in read.items()}
    return {label: traces for label, traces in kept.items() if traces}


def _read_trace(run: Run, kind: Measured, cost: str) -> Trace | None:
    """The measurements for which the run knows its `cost`, a key of metrics.jsonl; at step 0 nothing is spent. None if
    these are fewer than two, or nothing was spent."""
    metric = f"validation/{kind.name}"
    rows = [row for row in run.metrics if row.get(metric) is not None and (not row["step"] or cost in row)]
    places = np.array([row.get(cost, 0.0) for row in rows], dtype=np.float64)
    if len(rows) < 2 or not places.max() > 0:
        return None
    steps = [row["step"] for row in rows]
    values = np.array([row[metric] for row in rows], dtype=np.float64)
    lines = {line["step"]: line for line in run.validation if kind.name in line}
    if any(step not in lines or lines[step]["id"] != lines[steps[0]]["id"] for step in steps):
        return Trace(steps, places, values, (), np.empty((0, len(steps))))
    by_row = np.array([lines[step][kind.name] for step in steps], dtype=np.float64).T
    return Trace(steps, places, values, tuple(lines[steps[0]]["id"]), by_row)


def _trace_frontier(place: int, label: str, traces: list[Trace], kind: Measured, alone: bool) -> Line:
    shared = sorted(set.intersection(*(set(trace.steps) for trace in traces)))
    picked = {id(trace): [trace.steps.index(step) for step in shared] for trace in traces}
    kl = np.mean([trace.places[picked[id(trace)]] for trace in traces], axis=0)
    found = summarise(traces, lambda t, values: values[..., picked[id(t)]], kind, 1 if alone else 2)
    values = [kind.scale * interval["value"] for interval in found]
    barred = found if alone else [*(exact(one["value"]) for one in found[:-1]), found[-1]]
    style = choose_style(place) | {"marker": MARKERS[place % len(MARKERS)], "markersize": 4}
    notes = list(map(str, shared)) if alone else []
    return Line(kl, values, label, y_bounds=read_bounds(barred, kind.scale), notes=notes, style=style)


def _plot_costs(panels: dict[str, Lines], kind: Measured) -> Plot:
    caption = f"{kind.title.capitalize()} in training: the mean over seeds with its 95% interval, against each cost"
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    drawn = [_plot_cost(cost, lines, labels, kind, not place) for place, (cost, lines) in enumerate(panels.items())]
    return Plot("learning", caption, drawn, 0.9 + 2.5 * len(panels))


def _plot_cost(cost: str, groups: Lines, labels: list[str], kind: Measured, first_panel: bool) -> Panel:
    ends = [trace.places[-1] for traces in groups.values() for trace in traces]
    first = min(trace.places[trace.places > 0][0] for traces in groups.values() for trace in traces)
    far = max(ends) >= FAR * min(ends)
    lines = []
    for label, traces in groups.items():
        end = min(trace.places[-1] for trace in traces)
        grid = np.append(0, np.geomspace(first, end, POINTS)) if far else np.linspace(0, end, POINTS)
        found = summarise(traces, lambda t, values, grid=grid: interpolate(t.places, values, grid), kind)
        values = kind.scale * np.array([interval["value"] for interval in found])
        style = choose_style(labels.index(label))
        lines.append(Line(grid, values, label * first_panel, band=read_bounds(found, kind.scale), style=style))
    xlabel = f"{COSTS[cost]} (logarithmic from {first:,.2g} on)" if far else COSTS[cost]
    return Panel(xlabel, kind.unit, lines, {"xlim": (0, 1.03 * max(ends))}, scale="symlog" if far else "linear")
