"""What a plot shows, as plain data, and how it is drawn as out/plots/NAME.png; and the plot of accuracies.

plot = Plot("kl", "KL to the start model", [Panel("step", "nats", [Line([1, 2], [0.0, 0.1])])])
draw(plot, out)
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlhf_exp.analysis.stats import Interval

# Okabe and Ito's palette, which readers with any colour vision can distinguish; without yellow, faint on white.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#000000")
BLUE, GREY = PALETTE[0], "#8c959f"
DASHES = ("-", "--", ":", "-.")
WIDTH = 5.6
STYLE = Path(__file__).parents[2] / "assets" / "report.mplstyle"
MANY = 30
"""From so many points on a curve has no marks."""
LABEL = 44
"""The most letters of a label in a picture."""
LEGEND_LINES, LEGEND_WIDTH = 6, 90
"""The most lines of a legend, and how many letters fit into one; other curves have no name in the picture."""


class Line(NamedTuple):
    """A curve, or marks without one (`linestyle` none).

    Attributes:
        label: in the legend.
        x_bounds, y_bounds: (2, points), the low and high ends of intervals, which are drawn as bars.
        band: (2, points), the ends of an interval of y that is drawn as an area.
        style: matplotlib's names and values.
    """

    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    label: str = ""
    x_bounds: Any = None
    y_bounds: Any = None
    band: Any = None
    style: dict[str, Any] = {}


class Panel(NamedTuple):
    """Axes with their lines.

    Attributes:
        names: of rows of marks at the heights 0, 1, ..., the first at the top; their values begin at 0.
    """

    xlabel: str
    ylabel: str
    lines: Sequence[Line]
    names: Sequence[str] = ()


class Plot(NamedTuple):
    """Panels one above the other; `height` in inches."""

    name: str
    caption: str
    panels: Sequence[Panel]
    height: float = 3.3


def draw(plot: Plot, out: Path) -> Path:
    """Draw out/plots/NAME.png without pyplot: Agg draws it, no display or global state is involved."""
    import matplotlib  # here, since it takes half a second, and a terminal's table needs none
    from matplotlib.figure import Figure

    path = out / "plots" / f"{plot.name}.png"
    with matplotlib.rc_context(fname=STYLE):
        legends = [len(labels) / columns for labels, columns in map(_wrap_legend, plot.panels)]
        figure = Figure(figsize=(WIDTH, plot.height + 0.15 * max(0, *legends)), layout="constrained")
        for axes, panel in zip(figure.subplots(len(plot.panels), 1, squeeze=False)[:, 0], plot.panels, strict=True):
            _draw_panel(axes, panel)
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path)
    return path


def choose_style(place: int) -> dict[str, Any]:
    """The colour and the dashes of the group at a place."""
    return {"color": PALETTE[place % len(PALETTE)], "linestyle": DASHES[place // len(PALETTE) % len(DASHES)]}


def cut(label: str) -> str:
    """The first LABEL letters of a label."""
    return label if len(label) <= LABEL else f"{label[: LABEL - 3].rstrip()}..."


def read_bounds(intervals: Sequence[Interval], scale: float = 1) -> np.ndarray:
    """(2, intervals): the low and high ends; both the value where there is no interval."""
    ends = [[i["value"] if i[end] is None else i[end] for i in intervals] for end in ("low", "high")]
    return scale * np.array(ends, dtype=np.float64)


def plot_accuracy(rows: Sequence[tuple[Any, ...]]) -> Plot:
    """Held-out accuracy before and after with 95% intervals, two dots per row (label, baseline, trained)."""
    lines = []
    for side, (name, color, shift) in enumerate((("baseline", GREY, -0.13), ("trained", BLUE, 0.13)), start=1):
        found = {place + shift: row[side] for place, row in enumerate(rows) if row[side]}
        style = {"color": color, "marker": "o", "markersize": 6, "linestyle": "none"}
        values, bounds = [100 * share["value"] for share in found.values()], read_bounds(list(found.values()), 100)
        lines.append(Line(values, list(found), name, x_bounds=bounds, style=style))
    names = [cut(row[0]) for row in rows]
    panel = Panel("held-out accuracy, %", "", lines, names)
    caption = "Held-out accuracy before and after training, with 95% intervals"
    return Plot("accuracy", caption, [panel], 1.1 + 0.42 * len(rows))


def _draw_panel(axes: Any, panel: Panel) -> None:
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    for line in panel.lines:
        x, y = (np.asarray(values, dtype=np.float64) for values in (line.x, line.y))  # None, not finite, becomes NaN
        marks = {"marker": "o" if len(x) < MANY else None, "markersize": 3, "color": BLUE}
        # A bound can miss its value by a rounding error; `errorbar` refuses negative lengths.
        x_bars, y_bars = (None if ends is None else np.maximum(0, [values - ends[0], ends[1] - values])
                          for values, ends in ((x, line.x_bounds), (y, line.y_bounds)))  # fmt: skip
        axes.errorbar(x, y, y_bars, x_bars, elinewidth=1, label=line.label or None, **(marks | line.style))
        if line.band is not None:
            axes.fill_between(x, *line.band, color=line.style["color"], alpha=0.1, linewidth=0)
    if panel.names:
        axes.set_yticks(range(len(panel.names)), panel.names)
        axes.set(xlim=(0, None), ylim=(len(panel.names) - 0.6, -0.4))
        axes.grid(visible=False, axis="y")
    labels, columns = _wrap_legend(panel)
    if labels:
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        shown = [handles[label] for label in labels]
        axes.legend(shown, list(map(cut, labels)), loc="lower left", bbox_to_anchor=(0, 1), fontsize=7, ncols=columns)


def _wrap_legend(panel: Panel) -> tuple[list[str], int]:
    """The labels that fit into LEGEND_LINES, and how many of them are in a line."""
    labels = list(dict.fromkeys(line.label for line in panel.lines if line.label))
    columns = max(1, LEGEND_WIDTH // (max(map(len, map(cut, labels)), default=0) + 5))
    return labels[: LEGEND_LINES * columns], columns
