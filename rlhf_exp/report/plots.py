"""Curves against the training step, and accuracies with their intervals, as PNG files.

draw_run(run, out)   ->  [(out/plots/reward.png, "Mean reward ..."), ...], only what the run has data for
draw_runs(groups, out), where groups maps a label to its runs, draws the same curves over each other
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlhf_exp.report.load import Run
from rlhf_exp.report.tables import OUTCOMES
from rlhf_exp.stats import Interval

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
# Metric, file name, caption, unit; drawn for a comparison.
CURVES = (
    ("reward", "reward", "Mean reward in training", "reward"),
    ("outcome/correct", "correct", "Correct share of the completions in training", "share"),
    ("probe/kl", "kl", "KL to the start model on the probe set", "nats per token"),
    ("probe/entropy", "entropy", "Entropy on the probe set", "nats per token"),
    ("completions/mean_length", "length", "Mean completion length in training", "tokens"),
)
Picture = tuple[Path, str]
Accuracies = list[tuple[str, Interval | None, Interval | None]]  # label, baseline, trained


def draw_run(run: Run, out: Path) -> list[Picture]:
    """The curves of one run."""
    kl = {"kl": "TRL's kl, on its samples", "probe/kl": "probe set, exact"}
    entropy = {"entropy": "TRL's entropy, on its samples", "probe/entropy": "probe set, exact"}
    drawn = [
        _draw_lines(run, out, "reward", {"reward": ""}, "Mean reward in training", "reward"),
        _draw_outcomes(run, out),
        _draw_lines(run, out, "kl", kl, "KL to the start model", "nats per token"),
        _draw_lines(run, out, "entropy", entropy, "Entropy of the policy", "nats per token"),
        _draw_length(run, out),
    ]
    return [picture for picture in drawn if picture is not None]


def draw_runs(groups: dict[str, list[Run]], out: Path) -> list[Picture]:
    """Every curve of every run, a colour for each group, and the mean of its runs as a thick line."""
    pictures = []
    for key, name, caption, unit in CURVES:
        if not any(run.series(key)[0] for runs in groups.values() for run in runs):
            continue
        with _figure(out, name) as figure:
            axes = _axes(figure, "step", unit)
            for index, (label, runs) in enumerate(groups.items()):
                style = {"color": PALETTE[index % 7], "linestyle": DASHES[index // 7 % 4]}
                _plot_group(axes, [run.series(key) for run in runs], label, style)
            figure.legend(loc="outside lower left", ncols=2 if len(groups) > 3 else 1, fontsize=8)
        pictures.append((_path(out, name), caption))
    return pictures


def draw_accuracy(rows: Accuracies, out: Path) -> Picture:
    """Accuracy before and after with 95% intervals, two dots a row."""
    sides = (("baseline", GREY, "s", -0.13), ("trained", BLUE, "o", 0.13))
    with _figure(out, "accuracy", height=1.1 + 0.42 * len(rows)) as figure:
        axes = _axes(figure, "held-out accuracy, %")
        for column, (name, color, marker, shift) in enumerate(sides, start=1):
            dots = [(place + shift, row[column]) for place, row in enumerate(rows) if row[column] is not None]
            for place, interval in dots:
                if interval["low"] is not None:
                    axes.plot([100 * interval["low"], 100 * interval["high"]], [place, place], color=color)
            values = [100 * interval["value"] for _, interval in dots]
            axes.plot(
                values, [place for place, _ in dots], marker, color=color, label=name, markersize=6, clip_on=False
            )
        if len(rows) == 1:
            axes.set_yticks([side[3] for side in sides], [side[0] for side in sides])
        else:
            axes.set_yticks(range(len(rows)), [row[0] for row in rows])
            figure.legend(loc="outside upper left", ncols=2)
        axes.set(xlim=(0, None), ylim=(len(rows) - 0.6, -0.4))
        axes.grid(visible=False, axis="y")
    return _path(out, "accuracy"), "Held-out accuracy before and after training, with 95% intervals"


def _draw_lines(run: Run, out: Path, name: str, keys: dict[str, str], caption: str, unit: str) -> Picture | None:
    present = {key: label for key, label in keys.items() if run.series(key)[0]}
    if not present:
        return None
    with _figure(out, name) as figure:
        axes = _axes(figure, "step", unit)
        for color, (key, label) in zip((BLUE, ORANGE), present.items(), strict=False):
            _plot(axes, *run.series(key), color=color, label=label)
        if len(keys) > 1:
            figure.legend(loc="outside upper left", ncols=2)
    return _path(out, name), caption


def _draw_outcomes(run: Run, out: Path) -> Picture | None:
    series = [run.series(f"outcome/{outcome}") for outcome in OUTCOMES]
    if not series[0][0]:
        return None
    with _figure(out, "outcomes") as figure:
        axes = _axes(figure, "step", "% of the completions")
        shares = [[100 * value for value in values] for _, values in series]
        axes.stackplot(series[0][0], shares, labels=OUTCOMES, colors=(GREEN, ORANGE, "#d0d7de"))
        axes.set(xlim=(series[0][0][0], max(series[0][0][-1], series[0][0][0] + 1)), ylim=(0, 100))
        figure.legend(loc="outside upper left", ncols=3)
    return _path(out, "outcomes"), "Correct, partial and failed completions in training"


def _draw_length(run: Run, out: Path) -> Picture | None:
    steps, lengths = run.series("completions/mean_length")
    if not steps:
        return None
    clipped_steps, clipped = run.series("completions/clipped_ratio")
    with _figure(out, "length", height=4.2) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        _plot(upper, steps, lengths, color=BLUE)
        if budget := run.info.get("max_tokens"):
            upper.axhline(budget, color=VERMILLION, linestyle="--", linewidth=1.2)
            place = {"xy": (1, budget), "xycoords": ("axes fraction", "data"), "xytext": (0, -3)}
            style = {"textcoords": "offset points", "ha": "right", "va": "top", "color": VERMILLION}
            upper.annotate(f"budget {budget}", **place, **style)
        upper.set(ylabel="mean tokens", ylim=(0, None))
        _plot(lower, clipped_steps, [100 * value for value in clipped], color=ORANGE)
        lower.set(ylabel="cut off, %", ylim=(0, max([5, *(105 * value for value in clipped)])), xlabel="step")
    return _path(out, "length"), "Completion length in training, and the share cut off at the budget"


def _plot_group(axes: Axes, series: list[tuple[list[int], list[float]]], label: str, style: dict) -> None:
    """The mean is over the runs that got as far as the furthest, so that it does not jump where one ends."""
    series = [(steps, values) for steps, values in series if steps]
    if len(series) > 1:
        for steps, values in series:
            axes.plot(steps, values, linewidth=0.7, alpha=0.45, **style)
        last = max(steps[-1] for steps, _ in series)
        complete = [dict(zip(steps, values, strict=True)) for steps, values in series if steps[-1] == last]
        shared = sorted(set.intersection(*map(set, complete)))
        mean = [sum(values[step] for values in complete) / len(complete) for step in shared]
        _plot(axes, shared, mean, label=f"{label} (mean of {len(complete)} runs)", **style)
    elif series:
        _plot(axes, *series[0], label=label, **style)


def _plot(axes: Axes, steps: list[int], values: list[float], **style: str) -> None:
    axes.plot(steps, values, marker="o" if len(steps) < 30 else None, markersize=3, **style)


def _axes(figure: Figure, xlabel: str, ylabel: str = "") -> Axes:
    axes = figure.subplots()
    axes.set(xlabel=xlabel, ylabel=ylabel)
    return axes


@contextmanager
def _figure(out: Path, name: str, height: float = SIZE[1]) -> Iterator[Figure]:
    """A figure without pyplot: Agg draws it, no display or global state is involved."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(SIZE[0], height), layout="constrained")
        yield figure
        _path(out, name).parent.mkdir(exist_ok=True)
        figure.savefig(_path(out, name))


def _path(out: Path, name: str) -> Path:
    return out / "plots" / f"{name}.png"
