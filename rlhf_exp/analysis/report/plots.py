"""What a plot shows, as plain data, and how it is drawn as out/plots/NAME.png; and the plot of accuracies.

plot = Plot("kl", "KL to the start model", [Panel("step", "nats", [Line([1, 2], [0.0, 0.1])])])
draw(plot, out)
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rlhf_exp.analysis.stats import SHARES, Interval

if TYPE_CHECKING:
    from rlhf_exp.analysis.report.columns import Column

# Okabe and Ito's palette, which readers with any colour vision can distinguish, with violet in the place of yellow,
# which is faint on white.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#000000", "#9a4dff")
BLUE, RED, GREY = PALETTE[0], PALETTE[3], "#8c959f"
DASHES = ("-", "--", ":", "-.")
MARKERS = "os^DvPX*"
WIDTH = 5.6
STYLE = Path(__file__).parents[2] / "assets" / "report.mplstyle"
MANY = 30
"""From so many points on a curve has no marks."""
LABEL = 44
"""The most letters of a label in a picture."""
LEGEND_LINES, LEGEND_WIDTH = 6, 90
"""The most lines of a legend, and how many letters fit into one; other curves have no name in the picture."""


REACH = 3
"""Of the half width of an interval."""

Style = dict[str, Any]
"""matplotlib's names and values."""


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
    style: Style = {}


class Panel(NamedTuple):
    """Axes with their lines.

    Attributes:
        names: of rows of marks at the heights 0, 1, ..., the first at the top; a line marks 0.
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


def choose_style(place: int) -> Style:
    """The colour and the dashes of the group at a place."""
    return {"color": PALETTE[place % len(PALETTE)], "linestyle": DASHES[place // len(PALETTE) % len(DASHES)]}


def choose_mark(place: int) -> Style:
    """A mark without a curve, of the colour and the form of the group at a place."""
    marker = MARKERS[(place + place // len(PALETTE)) % len(MARKERS)]
    return choose_style(place) | {"marker": marker, "markersize": 7, "linestyle": "none"}


def cut(label: str) -> str:
    """The first LABEL letters of a label."""
    return label if len(label) <= LABEL else f"{label[: LABEL - 3].rstrip()}..."


def read_bounds(intervals: Sequence[Interval], scale: float = 1) -> np.ndarray:
    """(2, intervals): the low and high ends; both the value where there is no interval."""
    ends = [[i["value"] if i[end] is None else i[end] for i in intervals] for end in ("low", "high")]
    return scale * np.array(ends, dtype=np.float64)


def plot_gains(gains: Sequence[tuple[str, Interval]], figure: "Column", tested: Sequence[bool]) -> Plot:
    """The gain over the start model of each setting, with its interval, in a row of its own, in the colour of its
    verdict, which only those have that are tested. An interval that is REACH times as wide as most are is cut off, with
    an arrow, so that the others can be read."""
    scale, unit = (100, ", points") if figure.kind is SHARES else (1, "")
    values = [scale * gain["value"] for _, gain in gains]
    bounds = read_bounds([gain for _, gain in gains], scale)
    style = {"marker": "o", "markersize": 7, "elinewidth": 2, "linestyle": "none"}
    lines: list[Line] = []
    if gains:
        reach = REACH * np.median(bounds[1] - bounds[0]) / 2
        low, high = (np.array(values) - reach).min(), (np.array(values) + reach).max()
        is_clear = tested & (bounds[0] > 0), tested & (bounds[1] < 0)
        for label, color, kept in (
            ("above", BLUE, is_clear[0]), ("not clear", GREY, ~is_clear[0] & ~is_clear[1]), ("below", RED, is_clear[1])
        ):  # fmt: skip
            own = style | {"color": color}
            rows = np.flatnonzero(kept)
            if len(rows):
                ends = np.clip(bounds[:, rows], low, high)
                lines.append(Line(np.array(values)[rows], rows, label, ends, style=own))
            for edge, marker, beyond in ((low, "<", bounds[0] < low), (high, ">", bounds[1] > high)):
                rows = np.flatnonzero(kept & beyond)
                lines += [Line([edge] * len(rows), rows, style=own | {"marker": marker})] if len(rows) else []
    name = "accuracy" if figure.kind is SHARES else figure.name
    more = "; an arrow: the interval goes on" if any(not line.label for line in lines) else ""
    caption = f"Gain in held-out {name} over the start model, with its interval: 95% for all comparisons together{more}"
    panel = Panel(f"gain in held-out {name}{unit}", "", lines, [cut(label) for label, _ in gains])
    return Plot("gains", caption, [panel], 1.0 + 0.36 * len(gains))


def plot_frontier(kls: dict[str, Interval | None], levels: dict[str, Interval | None], figure: "Column") -> Plot:
    """Of each setting the figure against the KL, with 95% intervals; empty for fewer than two settings."""
    scale, unit = (100, "accuracy, %") if figure.kind is SHARES else (1, figure.name)
    known = {label: (kl, level) for label, level in levels.items() if level and (kl := kls[label])}
    lines = []
    for place, (label, (kl, level)) in enumerate(known.items() if len(known) > 1 else ()):
        bounds = read_bounds([kl]), read_bounds([level], scale)
        lines.append(Line([kl["value"]], [scale * level["value"]], label, *bounds, style=choose_mark(place)))
    panel = Panel("KL to the start model, nats per completion", f"held-out {unit}", lines)
    return Plot("frontier", f"Held-out {unit} against the KL, with 95% intervals", [panel], 3.0)


def plot_readings(strict: dict[str, Interval | None], lenient: dict[str, Interval | None]) -> Plot:
    """The accuracy of each setting by the strict form of an answer, and by a lenient reading, in a row of its own;
    without lines where nothing was read leniently."""
    readings, lines = {"strict": strict, "lenient": lenient}, []
    for place, (reading, means) in enumerate(readings.items() if any(lenient.values()) else ()):
        found = {row + 0.2 * place - 0.1: mean for row, mean in enumerate(means.values()) if mean}
        values, bounds = [100 * mean["value"] for mean in found.values()], read_bounds([*found.values()], 100)
        lines.append(Line(values, list(found), reading, bounds, style=choose_mark(place)))
    panel = Panel("held-out accuracy, %", "", lines, [cut(label) for label in strict])
    caption = "Held-out accuracy, by the strict form of an answer and by a lenient reading, with 95% intervals"
    return Plot("readings", caption, [panel], 1.3 + 0.36 * len(strict))


def _draw_panel(axes: Any, panel: Panel) -> None:
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    for line in panel.lines:
        x, y = (np.asarray(values, dtype=np.float64) for values in (line.x, line.y))  # None, not finite, becomes NaN
        marks = {"marker": "o" if len(x) < MANY else None, "markersize": 3, "color": BLUE}
        # A bound can miss its value by a rounding error; `errorbar` refuses negative lengths.
        bars = [None if ends is None else np.maximum(0, [of - ends[0], ends[1] - of])
                for of, ends in ((x, line.x_bounds), (y, line.y_bounds))]  # fmt: skip
        style = {"elinewidth": 1} | marks | line.style
        axes.errorbar(x, y, xerr=bars[0], yerr=bars[1], label=line.label or None, **style)
        if line.band is not None:
            axes.fill_between(x, *line.band, color=line.style["color"], alpha=0.1, linewidth=0)
    if panel.names:
        axes.set_yticks(range(len(panel.names)), panel.names)
        axes.axvline(0, color=GREY, linewidth=1)
        axes.set(ylim=(len(panel.names) - 0.6, -0.4))
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
