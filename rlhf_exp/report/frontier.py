"""Draws a figure on validation rows against the KL to the start model: what was gained by moving how far.

draw_frontier({"grpo": [run, run, run], "dpo": [run]}, kind, out)  ->  (out/plots/frontier.png, caption), or None

Each point is a measurement of `eval.every`, in the order of training. The axis is that of the KL's square root, in
which curves of reward are close to parabolas: Gao, Schulman and Hilton (2023), arXiv:2210.10760.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from rlhf_exp.report.plots import DASHES, MARKERS, PALETTE, Picture, add_axes, measure_errors, open_figure
from rlhf_exp.report.validation import KL, Measured, Trace, read_trace, summarise
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import exact

TICKS = tuple(base * 10.0**power for power in range(-3, 6) for base in (1, 2, 3, 5))
APART = 0.07
"""The least distance between two ticks, as a share of the axis."""


def draw_frontier(groups: dict[str, list[Run]], kind: Measured, out: Path) -> Picture | None:
    """A line for each group through the means over its seeds, at the steps that all of them measured, and the interval
    of the last. A single run has the intervals of all points, with the steps beside them."""
    lines = {label: [trace for run in group if (trace := read_trace(run, kind, KL))] for label, group in groups.items()}
    lines = {label: traces for label, traces in lines.items() if traces}
    if not lines:
        return None
    alone = len(lines) == 1 and len(next(iter(lines.values()))) == 1
    over = "with 95% intervals over rows, and the step" if alone else "means over seeds, the last with its 95% interval"
    caption = f"{kind.title.capitalize()} against KL to the start model, in training: {over}"
    with open_figure(out, "frontier", caption, height=4.2) as (figure, picture):
        axes = add_axes(figure, "KL to the start model, nats per completion (square root axis)", kind.unit)
        ends = [_draw_line(axes, traces, at, label, kind, alone) for at, (label, traces) in enumerate(lines.items())]
        end = 1.05 * max(ends)
        axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))
        axes.set(xlim=(-0.002 * end, end))
        axes.set_xticks(ticks := choose_ticks(end), [f"{tick:g}" for tick in ticks])
        if not alone:
            figure.legend(loc="outside lower left", ncols=4, fontsize=8)
    return picture


def choose_ticks(end: float) -> list[float]:
    """0 and round numbers up to `end`, which do not come too close to each other on an axis of square roots."""
    kept = [0.0]
    for tick in TICKS:
        if tick <= end and np.sqrt(tick) - np.sqrt(kept[-1]) >= APART * np.sqrt(end):
            kept.append(tick)
    return kept


def _draw_line(axes: Axes, traces: list[Trace], at: int, label: str, kind: Measured, alone: bool) -> float:
    """Returns the largest KL."""
    shared = sorted(set.intersection(*(set(trace.steps) for trace in traces)))
    picked = {id(trace): [trace.steps.index(step) for step in shared] for trace in traces}
    kl = np.mean([trace.places[picked[id(trace)]] for trace in traces], axis=0)
    fewest = 1 if alone else 2
    found = summarise(traces, lambda trace, values: values[..., picked[id(trace)]], kind, fewest)
    values = [kind.scale * interval["value"] for interval in found]
    style = {"color": PALETTE[at % 7], "linestyle": DASHES[at // 7 % 4], "marker": MARKERS[at % len(MARKERS)]}
    barred = found if alone else [*(exact(value) for value in values[:-1]), found[-1]]
    errors = {"yerr": measure_errors(barred, scale=kind.scale), "elinewidth": 0.8, "capsize": 0}
    axes.errorbar(kl, values, **errors, **style, markersize=4, linewidth=1.3, label=label)
    if alone:
        for step, x, y in zip(shared, kl, values, strict=True):
            axes.annotate(str(step), (x, y), xytext=(4, 4), textcoords="offset points", fontsize=8, color="#57606a")
    return float(kl.max())
