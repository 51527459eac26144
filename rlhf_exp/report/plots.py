"""What a plot shows, as plain data, and how it is drawn as out/plots/NAME.png; and the plots of held-out figures.

plot = Plot("kl", "KL to the start model", [Panel("step", "nats", [Line([1, 2], [0.0, 0.1])])])
draw(plot, out)
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlhf_exp.stats import Interval, exact

# Okabe and Ito's palette, which readers with any colour vision can distinguish; without yellow, faint on white.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, GREY = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c959f",
)  # fmt: skip
PALETTE = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, "#000000")
DASHES, MARKERS = ("-", "--", ":", "-."), ("o", "^", "D", "v")
WIDTH, TALL = 5.6, 4.2
STYLE = Path(__file__).parent.parent / "assets" / "report.mplstyle"
MANY = 30
"""From so many points on a curve has no marks."""


class Line(NamedTuple):
    """A curve, or marks without one (`linestyle` none).

    Attributes:
        label: in the legend.
        x_bounds, y_bounds: (2, points), the low and high ends of intervals, which are drawn as bars.
        band: (2, points), the ends of an interval that is drawn as an area.
        notes: written beside each point.
        style: matplotlib's names and values.
    """

    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    label: str = ""
    x_bounds: Any = None
    y_bounds: Any = None
    band: Any = None
    notes: Sequence[str] = ()
    style: dict[str, Any] = {}


class Panel(NamedTuple):
    """Axes with their lines.

    Attributes:
        settings: of matplotlib's `Axes.set`.
        names: of rows of marks at the heights 0, 1, ..., the first at the top.
        scale: of the axis of x: linear, sqrt, or symlog, linear up to the first place above 0.
    """

    xlabel: str
    ylabel: str
    lines: Sequence[Line]
    settings: dict[str, Any] = {}
    names: Sequence[str] = ()
    scale: str = "linear"


class Plot(NamedTuple):
    """Panels one above the other; `height` in inches."""

    name: str
    caption: str
    panels: Sequence[Panel]
    height: float = 3.3
    share_x: bool = False


def draw(plot: Plot, out: Path) -> Path:
    """Draw out/plots/NAME.png without pyplot: Agg draws it, no display or global state is involved."""
    import matplotlib  # here, since it takes half a second, and a terminal's table needs none
    from matplotlib.figure import Figure

    path = out / "plots" / f"{plot.name}.png"
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(WIDTH, plot.height), layout="constrained")
        stacked = figure.subplots(len(plot.panels), 1, sharex=plot.share_x, squeeze=False)[:, 0]
        for axes, panel in zip(stacked, plot.panels, strict=True):
            _draw_panel(axes, panel)
        labelled = [axes for axes in stacked if axes.get_legend_handles_labels()[1]]
        if len(labelled) == 1:
            longest = max(map(len, labelled[0].get_legend_handles_labels()[1]))
            figure.legend(loc="outside lower left", ncols=max(1, 80 // (longest + 5)), fontsize=8)
        else:
            for axes in labelled:
                axes.legend(fontsize=7, ncols=3)
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path)
    return path


def choose_style(place: int, markers: bool = False) -> dict[str, Any]:
    """The colour of the group at a place, and its dashes, or its marks."""
    turn = place // len(PALETTE) % len(DASHES)
    shape = {"marker": MARKERS[turn], "linestyle": "none"} if markers else {"linestyle": DASHES[turn]}
    return {"color": PALETTE[place % len(PALETTE)]} | shape


def read_bounds(intervals: Sequence[Interval], scale: float = 1) -> np.ndarray:
    """(2, intervals): the low and high ends; both the value where there is no interval."""
    ends = [[i["value"] if i[end] is None else i[end] for i in intervals] for end in ("low", "high")]
    return scale * np.array(ends, dtype=np.float64)


def plot_accuracy(rows: Sequence[tuple[Any, ...]], name: str) -> Plot:
    """Accuracy before and after with 95% intervals, two dots per row (label, baseline, trained); `name` says of what it
    is the accuracy."""
    lines: list[Line] = []
    for side, color, marker, shift in (("baseline", GREY, "s", -0.13), ("trained", BLUE, "o", 0.13)):
        found = {place + shift: row[len(lines) + 1] for place, row in enumerate(rows) if row[len(lines) + 1]}
        style = {"color": color, "marker": marker, "markersize": 6, "linestyle": "none"}
        values = [100 * interval["value"] for interval in found.values()]
        bounds = read_bounds(list(found.values()), 100)
        lines.append(Line(values, list(found), side, x_bounds=bounds, style=style))
    names = [row[0] for row in rows]
    panel = Panel(f"{name[0].lower()}{name[1:]}, %", "", lines, {"xlim": (0, None)}, names)
    return Plot("accuracy", f"{name} before and after training, with 95% intervals", [panel], 1.1 + 0.42 * len(rows))


def plot_plane(
    points: dict[str, tuple[tuple[Interval, Interval], list[tuple[float, float]]]], starts: list[Interval]
) -> Plot:
    """Reward against KL, both on held-out rows: a large dot with 95% intervals for the mean of a setting, small ones
    for its runs, and the start model at KL 0.

    Args:
        points: label: mean KL and mean reward over seeds, and those of each run.
        starts: the reward of each start model.
    """
    grey = {"color": GREY, "marker": "s", "linestyle": "none"}
    lines = [_cross(exact(0), reward, "" if place else "start model", grey) for place, reward in enumerate(starts)]
    for place, (label, (mean, runs)) in enumerate(points.items()):
        style = choose_style(place, markers=True)
        if len(runs) > 1:
            kl, reward = zip(*runs, strict=True)
            lines.append(Line(kl, reward, style=style | {"markersize": 3, "alpha": 0.5}))
        lines.append(_cross(*mean, label, style))
    caption = "Reward against KL on held-out rows: means over seeds with 95% intervals, and each run"
    return Plot("plane", caption, [Panel("KL to the start model, nats per completion", "mean reward", lines)], TALL)


def plot_calibration(bins: list[dict]) -> Plot:
    """How often the answer ranked first was the chosen one, against the predicted probability of that; each dot is
    labelled with n.

    Args:
        bins: {"n", "predicted", "observed" with its interval} each, over pairs with similar predicted probability.
    """
    observed = [entry["observed"] for entry in bins]
    ends = (50, 100)  # the answer ranked first has a predicted probability of at least one half
    diagonal = Line(ends, ends, "perfectly calibrated", style={"color": GREY, "linestyle": "--"})
    dots = Line(
        [100 * entry["predicted"] for entry in bins],
        [100 * interval["value"] for interval in observed],
        "this model, with 95% intervals",
        y_bounds=read_bounds(observed, 100),
        notes=[f"n={entry['n']}" for entry in bins],
        style={"marker": "o"},
    )
    limits = {"xlim": (48, 104), "ylim": (None, 102)}
    panel = Panel("chosen answer first: predicted, %", "observed, %", [diagonal, dots], limits)
    return Plot("calibration", "Calibration on the held-out pairs, against the diagonal", [panel], TALL)


def _cross(x: Interval, y: Interval, label: str, style: dict) -> Line:
    style = style | {"markersize": 8}
    return Line([x["value"]], [y["value"]], label, read_bounds([x]), read_bounds([y]), style=style)


def _draw_panel(axes: Any, panel: Panel) -> None:
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    for line in panel.lines:
        x, y = (np.asarray(values, dtype=np.float64) for values in (line.x, line.y))  # None, not finite, becomes NaN
        marks = {"marker": "o" if len(x) < MANY else None, "markersize": 3, "color": BLUE}
        # A bound can miss its value by a rounding error; `errorbar` refuses negative lengths.
        errors = {
            name: np.maximum(0, [values - bounds[0], bounds[1] - values])
            for name, values, bounds in (("xerr", x, line.x_bounds), ("yerr", y, line.y_bounds))
            if bounds is not None
        }
        axes.errorbar(x, y, **errors, elinewidth=1, label=line.label or None, **(marks | line.style))
        if line.band is not None:
            axes.fill_between(x, *line.band, color=line.style["color"], alpha=0.1, linewidth=0)
        for note, *place in zip(line.notes, x, y, strict=False):
            axes.annotate(note, place, xytext=(4, 4), textcoords="offset points", fontsize=8, color="#57606a")
    if panel.names:
        axes.set_yticks(range(len(panel.names)), panel.names)
        axes.set(ylim=(len(panel.names) - 0.6, -0.4))
        axes.grid(visible=False, axis="y")
    if panel.scale == "sqrt":
        axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))
    elif panel.scale == "symlog":
        axes.set_xscale("symlog", linthresh=min(line.x[1] for line in panel.lines))
    axes.set(**panel.settings)
