"""Learning curves of a comparison: a figure on validation rows during training (`eval.every`) against its cost.

describe_learning(groups, out)  ->  blocks; the plots are out/plots/learning.png and frontier.png

>>> float(area(np.array([0, 10, 20]), np.array([0.2, 0.4, 0.4]), 20))
0.35
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from rlhf_exp.report.frontier import draw_frontier
from rlhf_exp.report.page import Block, Figures, Heading, Table, Text
from rlhf_exp.report.plots import DASHES, PALETTE, Picture, open_figure
from rlhf_exp.report.validation import Measured, Trace, choose_kind, has_rows, read_trace, summarise
from rlhf_exp.runs.figures import number, percent
from rlhf_exp.runs.load import Run

COSTS = {
    "trained_tokens": "tokens trained on",
    "sampled_tokens": "tokens sampled",
    "step_seconds": "seconds inside steps",
}
"""What metrics.jsonl counts, all from 0; the seconds are without those of the measurements themselves."""

POINTS = 60
TICKS = tuple(base * 10.0**power for power in range(-3, 9) for base in (1, 3))
FAR = 10
"""The largest end of a curve, over the smallest, from which on the axis is logarithmic."""

NO_ROWS = " A mean of several seeds without brackets: the figures of each row are missing (validation.jsonl)."

Groups = dict[str, list[Run]]
Lines = dict[str, list[Trace]]


def describe_learning(groups: Groups, out: Path) -> list[Block]:
    """Plots against each cost and against the KL, and the area under each curve against a cost; nothing if no run was
    measured in training."""
    kind = choose_kind([run for group in groups.values() for run in group])
    if kind is None:
        return []
    panels = {cost: lines for cost in COSTS if (lines := _list_lines(groups, kind, cost))}
    table, ends = Table(["setting", "seeds"], [[label, str(len(group))] for label, group in groups.items()]), []
    write, lacking = percent if kind.scale == 100 else number(".3f"), ""
    for cost, lines in panels.items():
        end = min(float(trace.places[-1]) for traces in lines.values() for trace in traces)
        table.head.append(COSTS[cost])
        ends.append(f"{COSTS[cost]} {end:,.0f}")
        for row in table.rows:
            traces = lines.get(row[0], [])
            row.append(write(_measure_area(traces, end, kind)) if traces else "-")
            lacking = lacking if len(traces) < 2 or has_rows(traces) else NO_ROWS
    note = (
        f"Area under each curve, divided by its length: the mean {kind.title} up to a cost that all runs reached"
        f" ({', '.join(ends)}). Means over seeds with 95% intervals, which join seeds, validation rows and sampling"
        f" (crossed random effects); one seed has none.{lacking} A method that learns sooner has more."
    )
    drawn = [_draw(panels, kind, out), draw_frontier(groups, kind, out)]
    pictures = [picture for picture in drawn if picture]
    return [Heading("Learning on validation rows"), Figures(pictures), table, Text(note)]


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


def _measure_area(traces: list[Trace], end: float, kind: Measured) -> dict:
    return summarise(traces, lambda trace, values: area(trace.places, values, end)[..., None], kind)[0]


def _list_lines(groups: Groups, kind: Measured, cost: str) -> Lines:
    """For each group the curves of its runs; without groups that have no such cost, such as sampled tokens of dpo."""
    lines = {
        label: [trace for run in group if (trace := read_trace(run, kind, cost))] for label, group in groups.items()
    }
    return {label: traces for label, traces in lines.items() if traces}


def _draw(panels: dict[str, Lines], kind: Measured, out: Path) -> Picture:
    caption = f"{kind.title.capitalize()} in training: the mean over seeds with its 95% interval, against each cost"
    with open_figure(out, "learning", caption, height=0.9 + 2.5 * len(panels)) as (figure, picture):
        stacked = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
        labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
        for axes, (cost, lines) in zip(stacked, panels.items(), strict=True):
            axes.set(xlabel=COSTS[cost], ylabel=kind.unit)
            ends = [trace.places[-1] for traces in lines.values() for trace in traces]
            first = min(trace.places[trace.places > 0][0] for traces in lines.values() for trace in traces)
            if far := max(ends) >= FAR * min(ends):
                axes.set_xscale("symlog", linthresh=first, linscale=0.3)
                axes.set(xlabel=f"{COSTS[cost]} (logarithmic from {first:,.2g} on)")
                axes.set_xticks([0, *(tick for tick in TICKS if first <= tick <= max(ends))])
            axes.xaxis.set_major_formatter("{x:,.10g}")
            for label, traces in lines.items():
                at = labels.index(label)
                style = {"color": PALETTE[at % 7], "linestyle": DASHES[at // 7 % 4]}
                end = min(trace.places[-1] for trace in traces)
                grid = np.append(0, np.geomspace(first, end, POINTS)) if far else np.linspace(0, end, POINTS)
                _draw_line(axes, traces, grid, kind, label if axes is stacked[0] else None, style)
            axes.set(xlim=(0, 1.03 * max(ends)))
        figure.legend(loc="outside lower left", ncols=4 if len(labels) > 3 else 1, fontsize=8)
    return picture


def _draw_line(
    axes: Axes, traces: list[Trace], grid: np.ndarray, kind: Measured, label: str | None, style: dict
) -> None:
    found = summarise(traces, lambda trace, values: interpolate(trace.places, values, grid), kind)
    mean, low, high = ([interval[end] for interval in found] for end in ("value", "low", "high"))
    axes.plot(grid, kind.scale * np.array(mean), label=label, **style)
    if None not in low:
        bounds = (kind.scale * np.array(end) for end in (low, high))
        axes.fill_between(grid, *bounds, color=style["color"], alpha=0.1, linewidth=0)
