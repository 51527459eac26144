"""What was measured on held-out rows, with its intervals, as PNG files.

draw_accuracy([("", baseline, trained)], out, "Held-out accuracy")  ->  (out/plots/accuracy.png, caption)
draw_plane({"ppo": ((kl, reward), [(4.1, 0.4), (4.5, 0.42)])}, [start], out)  ->  (out/plots/plane.png, caption)
draw_calibration(section["calibration"], out)  ->  (out/plots/calibration.png, caption)
"""

from pathlib import Path

from matplotlib.axes import Axes

from rlhf_exp.report.figure import BLUE, GREY, PALETTE, Picture, add_axes, open_figure, plot_path
from rlhf_exp.stats import Interval

MARKERS = ("o", "^", "D", "v")
Points = dict[str, tuple[tuple[Interval, Interval], list[tuple[float, float]]]]
"""Label: mean KL and mean reward over seeds, and those of each run."""

Accuracies = list[tuple[str, Interval | None, Interval | None]]  # label, baseline, trained


def draw_accuracy(rows: Accuracies, out: Path, name: str) -> Picture:
    """Accuracy, whose `name` says of what, before and after with 95% intervals: two dots a row."""
    sides = (("baseline", GREY, "s", -0.13), ("trained", BLUE, "o", 0.13))
    with open_figure(out, "accuracy", height=1.1 + 0.42 * len(rows)) as figure:
        axes = add_axes(figure, f"{name[0].lower()}{name[1:]}, %")
        for column, (side, color, marker, shift) in enumerate(sides, start=1):
            dots = [(place + shift, row[column]) for place, row in enumerate(rows) if row[column] is not None]
            for place, interval in dots:
                if interval["low"] is not None:
                    axes.plot([100 * interval["low"], 100 * interval["high"]], [place, place], color=color)
            values = [100 * interval["value"] for _, interval in dots]
            axes.plot(
                values, [place for place, _ in dots], marker, color=color, label=side, markersize=6, clip_on=False
            )
        if len(rows) == 1:
            axes.set_yticks([side[3] for side in sides], [side[0] for side in sides])
        else:
            axes.set_yticks(range(len(rows)), [row[0] for row in rows])
            figure.legend(loc="outside upper left", ncols=2)
        axes.set(xlim=(0, None), ylim=(len(rows) - 0.6, -0.4))
        axes.grid(visible=False, axis="y")
    return plot_path(out, "accuracy"), f"{name} before and after training, with 95% intervals"


def draw_plane(points: Points, starts: list[Interval], out: Path) -> Picture:
    """Reward against KL, both on held-out rows: a large dot with 95% intervals for the mean of a setting, small ones
    for its runs, and the start model at KL 0."""
    with open_figure(out, "plane", height=4.2) as figure:
        axes = add_axes(figure, "KL to the start model, nats per completion", "mean reward")
        for reward in starts:
            _draw_cross(axes, {"value": 0.0, "low": None, "high": None}, reward, GREY, "s", "start model")
        for index, (label, (mean, runs)) in enumerate(points.items()):
            color, marker = PALETTE[index % 7], MARKERS[index // 7 % len(MARKERS)]
            if len(runs) > 1:
                axes.plot(*zip(*runs, strict=True), marker, color=color, markersize=3, alpha=0.5, linestyle="none")
            _draw_cross(axes, *mean, color, marker, label)
        axes.set_xlim(left=min(0, axes.get_xlim()[0]))
        figure.legend(loc="outside upper left", ncols=3, fontsize=8)
    return plot_path(
        out, "plane"
    ), "Reward against KL on held-out rows: means over seeds with 95% intervals, and each run"


def _draw_cross(axes: Axes, kl: Interval, reward: Interval, color: str, marker: str, label: str) -> None:
    for bounds, line in (
        ((kl["low"], kl["high"]), lambda low, high: ([low, high], [reward["value"]] * 2)),
        ((reward["low"], reward["high"]), lambda low, high: ([kl["value"]] * 2, [low, high])),
    ):
        if bounds[0] is not None:
            axes.plot(*line(*bounds), color=color, linewidth=1.1, alpha=0.8)
    axes.plot([kl["value"]], [reward["value"]], marker, color=color, markersize=8, label=label, linestyle="none")


def draw_calibration(bins: list[dict], out: Path) -> Picture:
    """Reliability: how often the answer ranked first was the chosen one, against how sure the model was; n beside each
    dot.

    Args:
        bins: {"n", "predicted", "observed" with its interval} each, over the pairs whose predicted share is alike.
    """
    predicted = [100 * entry["predicted"] for entry in bins]
    ends = (50, 100)  # the answer ranked first is never predicted to be the chosen one in less than half the cases
    with open_figure(out, "calibration", height=4.2) as figure:
        axes = add_axes(figure, "chosen answer first: predicted, %", "observed, %")
        axes.plot(ends, ends, color=GREY, linestyle="--", linewidth=1.2, label="perfectly calibrated")
        for x, entry in zip(predicted, bins, strict=True):
            observed = entry["observed"]
            if observed["low"] is not None:
                axes.plot([x, x], [100 * observed["low"], 100 * observed["high"]], color=BLUE)
            place = {"xytext": (6, -4), "textcoords": "offset points", "fontsize": 8, "color": "#57606a"}
            axes.annotate(f"n={entry['n']}", (x, 100 * observed["value"]), va="top", **place)
        values = [100 * entry["observed"]["value"] for entry in bins]
        axes.plot(predicted, values, "o-", color=BLUE, label="this model, with 95% intervals")
        axes.set(xlim=(ends[0] - 2, ends[1] + 4), ylim=(None, 102))
        figure.legend(loc="outside upper left", ncols=2)
    return plot_path(out, "calibration"), "Calibration on the held-out pairs, against the diagonal"
