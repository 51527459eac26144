"""Learning curves of a comparison: a figure on validation rows during training (`eval.every`) against its cost.

describe_learning(groups, out)  ->  blocks; the plot is out/plots/learning.png

>>> area([0, 10, 20], [0.2, 0.4, 0.4], 20)
0.35
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from rlhf_exp.report.page import Block, Figures, Heading, Table, Text
from rlhf_exp.report.plots import DASHES, PALETTE, Picture, open_figure
from rlhf_exp.report.tables import number, percent
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import mean_interval

COSTS = {
    "trained_tokens": "tokens trained on",
    "sampled_tokens": "tokens sampled",
    "step_seconds": "seconds inside steps",
}
"""What metrics.jsonl counts, all from 0; the seconds are without those of the measurements themselves."""

POINTS = 60


class Kind(NamedTuple):
    metric: str
    name: str
    scale: float


KINDS = (Kind("validation/accuracy", "accuracy on validation rows", 100), Kind("validation/reward", "reward there", 1))

Groups = dict[str, list[Run]]
Lines = dict[str, list[tuple[np.ndarray, np.ndarray]]]


def describe_learning(groups: Groups, out: Path) -> list[Block]:
    """A plot with a panel for each cost, and the area under each curve; nothing if no run was measured in training."""
    runs = [run for group in groups.values() for run in group]
    kind = next((kind for kind in KINDS if any(run.series(kind.metric)[0] for run in runs)), None)
    if kind is None:
        return []
    panels = {cost: lines for cost in COSTS if (lines := _list_lines(groups, kind, cost))}
    table, ends = Table(["setting", "seeds"], [[label, str(len(group))] for label, group in groups.items()]), []
    for cost, lines in panels.items():
        end = min(float(places[-1]) for traces in lines.values() for places, _ in traces)
        table.head.append(COSTS[cost])
        ends.append(f"{COSTS[cost]} {end:,.0f}")
        for row in table.rows:
            areas = [area(*trace, end) for trace in lines.get(row[0], [])]
            write = percent if kind.scale == 100 else number(".3f")
            row.append(write(mean_interval(areas)) if areas else "-")
    note = (
        f"Area under each curve, divided by its length: the mean {kind.name} up to a cost that all runs reached"
        f" ({', '.join(ends)}). Means over seeds with 95% t intervals. A method that learns sooner has more."
    )
    return [Heading("Learning on validation rows"), Figures([_draw(panels, kind, out)]), table, Text(note)]


def area(places: np.ndarray, values: np.ndarray, end: float) -> float:
    """The area under the piecewise linear curve from 0 to `end`, divided by `end`.

    Args:
        places: (points,) increasing, from 0 to at least `end`.
        values: (points,)
    """
    places = np.asarray(places, dtype=np.float64)
    inside = np.append(places[places < end], end)
    return float(np.trapezoid(np.interp(inside, places, values), inside) / end)


def _list_lines(groups: Groups, kind: Kind, cost: str) -> Lines:
    """For each group the curves of its runs; without groups that have no such cost, such as sampled tokens of dpo."""
    lines = {label: [line for run in group if (line := _trace(run, kind, cost))] for label, group in groups.items()}
    return {label: traces for label, traces in lines.items() if traces}


def _trace(run: Run, kind: Kind, cost: str) -> tuple[np.ndarray, np.ndarray] | None:
    rows = [row for row in run.metrics if row.get(kind.metric) is not None and (not row["step"] or cost in row)]
    places = np.array([row.get(cost, 0.0) if row["step"] else 0.0 for row in rows], dtype=np.float64)
    if len(rows) < 2 or places[-1] <= 0:
        return None
    return places, np.array([row[kind.metric] for row in rows], dtype=np.float64)


def _draw(panels: dict[str, Lines], kind: Kind, out: Path) -> Picture:
    caption = f"{kind.name.capitalize()} in training: the mean over seeds with its 95% t interval, against each cost"
    with open_figure(out, "learning", caption, height=0.9 + 2.3 * len(panels)) as (figure, picture):
        stacked = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
        labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
        for axes, (cost, lines) in zip(stacked, panels.items(), strict=True):
            axes.set(xlabel=COSTS[cost], ylabel="%" if kind.scale == 100 else "reward")
            for label, traces in lines.items():
                at = labels.index(label)
                style = {"color": PALETTE[at % 7], "linestyle": DASHES[at // 7 % 4]}
                grid = np.linspace(0, min(places[-1] for places, _ in traces), POINTS)
                shown = kind.scale * np.array([np.interp(grid, *trace) for trace in traces])  # (seeds, points)
                axes.plot(grid, shown.mean(0), label=label if axes is stacked[0] else None, **style)
                if len(traces) > 1:
                    bands = [mean_interval(column) for column in shown.T]
                    low, high = (np.array([band[end] for band in bands]) for end in ("low", "high"))
                    if kind.scale == 100:
                        low, high = low.clip(min=0), high.clip(max=100)
                    axes.fill_between(grid, low, high, color=style["color"], alpha=0.15, linewidth=0)
        figure.legend(loc="outside lower left", ncols=2 if len(labels) > 3 else 1, fontsize=8)
    return picture
