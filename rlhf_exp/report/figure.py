"""Draws what all plots share: colours and style, dots with intervals, and figures saved as out/plots/NAME.png.

with open_figure(out, "kl", "KL to the start model") as (figure, picture):
    add_axes(figure, "step", "nats").plot([1, 2], [0.0, 0.1], color=BLUE)
picture    # (out/plots/kl.png, "KL to the start model")
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlhf_exp.stats import Interval

# Okabe and Ito's palette, which readers with any colour vision can distinguish; without yellow, faint on white.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, GREY = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c959f",
)  # fmt: skip
PALETTE = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, "#000000")
DASHES = ("-", "--", ":", "-.")
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
