"""Draws plots as out/plots/NAME.png: what all of them share, and the measurements on held-out rows with intervals.

with open_figure(out, "kl", "KL to the start model") as (figure, picture):
    add_axes(figure, "step", "nats").plot([1, 2], [0.0, 0.1], color=BLUE)
picture    # (out/plots/kl.png, "KL to the start model")

draw_accuracy([("", baseline, trained)], out, "Held-out accuracy")  ->  (out/plots/accuracy.png, caption)
draw_plane({"ppo": ((kl, reward), [(4.1, 0.4), (4.5, 0.42)])}, [start], out)  ->  (out/plots/plane.png, caption)
draw_calibration(section["calibration"], out)  ->  (out/plots/calibration.png, caption)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlhf_exp.stats import Interval, exact

# Okabe and Ito's palette, which readers with any colour vision can distinguish; without yellow, faint on white.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, GREY = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c959f",
)  # fmt: skip
PALETTE = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, "#000000")
DASHES = ("-", "--", ":", "-.")
MARKERS = ("o", "^", "D", "v")
SIZE = (5.6, 3.3)
RC = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "grid.color": "#e6eaee",
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "savefig.dpi": 160,
}
Picture = tuple[Path, str]
"""A plot's path and caption."""
Points = dict[str, tuple[tuple[Interval, Interval], list[tuple[float, float]]]]
"""Label: mean KL and mean reward over seeds, and those of each run."""


@contextmanager
def open_figure(out: Path, name: str, caption: str, height: float = SIZE[1]) -> Iterator[tuple[Figure, Picture]]:
    """A figure without pyplot: Agg draws it, no display or global state is involved."""
    path = out / "plots" / f"{name}.png"
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(SIZE[0], height), layout="constrained")
        yield figure, (path, caption)
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path)


def add_axes(figure: Figure, xlabel: str, ylabel: str = "") -> Axes:
    """The figure's one pair of axes."""
    axes = figure.subplots()
    axes.set(xlabel=xlabel, ylabel=ylabel)
    return axes


def plot_intervals(
    axes: Axes, places: Sequence[float], intervals: Sequence[Interval], color: str, marker: str = "o", **style: Any
) -> None:
    """Shares in percent as dots at the heights `places`, each with its interval as a line."""
    axes.errorbar(
        [100 * interval["value"] for interval in intervals],
        places,
        xerr=measure_errors(intervals, scale=100),
        color=color,
        fmt=marker,
        **style,
    )


def name_rows(axes: Axes, places: Sequence[float], names: Sequence[str], margin: float) -> None:
    """Write a name to the left of each row of dots, the first at the top."""
    axes.set_yticks(places, names)
    axes.set(ylim=(max(places) + margin, min(places) - margin))
    axes.grid(visible=False, axis="y")


def measure_errors(intervals: Sequence[Interval], scale: float = 1) -> list[list[float]]:
    """The distances of the bounds below and above each value, for `errorbar`; 0 without an interval. None is negative,
    which `errorbar` refuses: a bound can miss its value by a rounding error."""
    below = [0 if i["low"] is None else scale * max(0, i["value"] - i["low"]) for i in intervals]
    above = [0 if i["high"] is None else scale * max(0, i["high"] - i["value"]) for i in intervals]
    return [below, above]


def draw_accuracy(rows: list[tuple[str, Interval | None, Interval | None]], out: Path, name: str) -> Picture:
    """Accuracy before and after with 95% intervals, two dots per row (label, baseline, trained); `name` says of what it
    is the accuracy."""
    sides = (("baseline", GREY, "s", -0.13), ("trained", BLUE, "o", 0.13))
    caption = f"{name} before and after training, with 95% intervals"
    with open_figure(out, "accuracy", caption, height=1.1 + 0.42 * len(rows)) as (figure, picture):
        axes = add_axes(figure, f"{name[0].lower()}{name[1:]}, %")
        for column, (side, color, marker, shift) in enumerate(sides, start=1):
            dots = {place + shift: row[column] for place, row in enumerate(rows) if row[column] is not None}
            style = {"label": side, "markersize": 6, "clip_on": False}
            plot_intervals(axes, list(dots), list(dots.values()), color, marker, **style)
        if len(rows) == 1:
            name_rows(axes, [side[3] for side in sides], [side[0] for side in sides], margin=0.27)
        else:
            name_rows(axes, range(len(rows)), [row[0] for row in rows], margin=0.4)
            figure.legend(loc="outside upper left", ncols=2)
        axes.set(xlim=(0, None))
    return picture


def draw_plane(points: Points, starts: list[Interval], out: Path) -> Picture:
    """Reward against KL, both on held-out rows: a large dot with 95% intervals for the mean of a setting, small ones
    for its runs, and the start model at KL 0."""
    caption = "Reward against KL on held-out rows: means over seeds with 95% intervals, and each run"
    with open_figure(out, "plane", caption, height=4.2) as (figure, picture):
        axes = add_axes(figure, "KL to the start model, nats per completion", "mean reward")
        for place, reward in enumerate(starts):
            _plot_cross(axes, exact(0), reward, GREY, "s", None if place else "start model")
        for index, (label, (mean, runs)) in enumerate(points.items()):
            color, marker = PALETTE[index % 7], MARKERS[index // 7 % len(MARKERS)]
            if len(runs) > 1:
                axes.plot(*zip(*runs, strict=True), marker, color=color, markersize=3, alpha=0.5, linestyle="none")
            _plot_cross(axes, *mean, color, marker, label)
        axes.set_xlim(left=min(0, axes.get_xlim()[0]))
        figure.legend(loc="outside upper left", ncols=3, fontsize=8)
    return picture


def draw_calibration(bins: list[dict], out: Path) -> Picture:
    """How often the answer ranked first was the chosen one, against the predicted probability of that; each dot is
    labelled with n.

    Args:
        bins: {"n", "predicted", "observed" with its interval} each, over pairs with similar predicted probability.
    """
    predicted = [100 * entry["predicted"] for entry in bins]
    observed = [entry["observed"] for entry in bins]
    values = [100 * interval["value"] for interval in observed]
    ends = (50, 100)  # the answer ranked first has a predicted probability of at least one half
    caption = "Calibration on the held-out pairs, against the diagonal"
    with open_figure(out, "calibration", caption, height=4.2) as (figure, picture):
        axes = add_axes(figure, "chosen answer first: predicted, %", "observed, %")
        axes.plot(ends, ends, color=GREY, linestyle="--", linewidth=1.2, label="perfectly calibrated")
        label = "this model, with 95% intervals"
        axes.errorbar(predicted, values, yerr=measure_errors(observed, scale=100), fmt="o-", color=BLUE, label=label)
        for x, value, entry in zip(predicted, values, bins, strict=True):
            place = {"xytext": (6, -4), "textcoords": "offset points", "fontsize": 8, "color": "#57606a"}
            axes.annotate(f"n={entry['n']}", (x, value), va="top", **place)
        axes.set(xlim=(ends[0] - 2, ends[1] + 4), ylim=(None, 102))
        figure.legend(loc="outside upper left", ncols=2)
    return picture


def _plot_cross(axes: Axes, kl: Interval, reward: Interval, color: str, marker: str, label: str | None) -> None:
    errors = {"xerr": measure_errors([kl]), "yerr": measure_errors([reward]), "elinewidth": 1.1}
    axes.errorbar([kl["value"]], [reward["value"]], **errors, fmt=marker, color=color, markersize=8, label=label)
