"""What was measured on held-out rows, with its intervals, as PNG files.

draw_accuracy([("", baseline, trained)], out, "Held-out accuracy")  ->  (out/plots/accuracy.png, caption)
draw_calibration(section["calibration"], out)  ->  (out/plots/calibration.png, caption)
"""

from pathlib import Path

from rlhf_exp.report.figure import BLUE, GREY, Picture, add_axes, open_figure, plot_path
from rlhf_exp.stats import Interval

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
