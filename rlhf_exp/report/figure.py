"""What every plot shares: colours, and a figure that is saved as out/plots/NAME.png.

with open_figure(out, "kl") as figure:
    add_axes(figure, "step", "nats").plot([1, 2], [0.0, 0.1], color=BLUE)
plot_path(out, "kl")  ->  out/plots/kl.png
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart with any colour vision; yellow is left out, as it is faint on white.
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
"""Where a plot is, and its caption."""


@contextmanager
def open_figure(out: Path, name: str, height: float = SIZE[1]) -> Iterator[Figure]:
    """A figure without pyplot: Agg draws it, no display or global state is involved."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(SIZE[0], height), layout="constrained")
        yield figure
        plot_path(out, name).parent.mkdir(exist_ok=True)
        figure.savefig(plot_path(out, name))


def add_axes(figure: Figure, xlabel: str, ylabel: str = "") -> Axes:
    """The figure's one pair of axes."""
    axes = figure.subplots()
    axes.set(xlabel=xlabel, ylabel=ylabel)
    return axes


def plot_path(out: Path, name: str) -> Path:
    """Where the plot `name` of a report in `out` lies."""
    return out / "plots" / f"{name}.png"
