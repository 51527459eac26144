"""What was measured on validation rows during training (`eval.every`): against its cost, and against the KL.

describe_learning({"ppo": [run, run], "grpo": [run]})  ->  blocks
measure_points(run)["accuracy"][40]                    ->  the interval over the validation rows at step 40
"""

from statistics import fmean

import pandas as pd

from rlhf_exp.analysis.frame import join
from rlhf_exp.analysis.report.groups import Groups, join_groups
from rlhf_exp.analysis.report.page import Block, Figures, Heading
from rlhf_exp.analysis.report.plots import Line, Panel, Plot, choose_style, read_bounds
from rlhf_exp.analysis.stats import (
    LEVELS,
    SHARES,
    Interval,
    crossed_interval,
    exact,
    mean_interval,
    share_interval,
)
from rlhf_exp.runs.load import Run

HELD_OUT = "validation/"
"""How the names of these metrics begin."""
COSTS = {
    "trained_tokens": "tokens trained on",
    "sampled_tokens": "tokens sampled",
    "step_seconds": "seconds inside steps",
    f"{HELD_OUT}kl": "KL to the start model, nats per completion",
}
"""What metrics.jsonl counts, all from 0; the seconds are without those of the measurements themselves. And the KL."""
FIGURES = ("accuracy", "reward")
"""What may have been measured of each row; curves show the first that was."""


def describe_learning(groups: Groups) -> list[Block]:
    """Plots against each cost and the KL; nothing if no run was measured in training."""
    runs = join_groups(groups)
    figure = next((name for name in FIGURES if any(run.series(f"{HELD_OUT}{name}")[0] for run in runs)), None)
    if figure is None:
        return []
    means = {name: _find_means(group, figure) for name, group in groups.items()}
    panels = []
    for cost, label in COSTS.items():
        drawn = [_draw_line(name, group, figure, cost, means[name], choose_style(place))
                 for place, (name, group) in enumerate(groups.items())]  # fmt: skip
        lines = [line for line in drawn if line is not None]
        if lines:
            panels.append(Panel(label, "accuracy, %" if figure == "accuracy" else figure, lines))
    caption = f"{figure.capitalize()} on validation rows in training: the mean over seeds with its 95% interval"
    plot = Plot("learning", caption, panels, 0.9 + 2.5 * len(panels))
    return [Heading("Learning on validation rows"), Figures([plot])] if panels else []


def measure_points(run: Run) -> dict[str, dict[int, Interval]]:
    """Of one run's measurements by their name and step the mean over the rows with its 95% interval."""
    points: dict[str, dict[int, Interval]] = {name: {} for name in FIGURES}
    for line in run.validation:
        for name in points.keys() & line.figures.keys():
            values = line.figures[name]
            points[name][line.step] = share_interval(values) if name == "accuracy" else mean_interval(values)
    return {name: at_step for name, at_step in points.items() if at_step}


def _draw_line(
    label: str, group: list[Run], figure: str, cost: str, means: dict[int, Interval], style: dict
) -> Line | None:
    """A line through the means over seeds, at the steps that all runs measured and whose cost they know; None without
    such steps, or where nothing was spent, such as sampled tokens of dpo."""
    places = [place for run in group if len(place := _find_places(run, figure, cost)) > 1 and max(place.values()) > 0]
    if not places:
        return None
    steps = sorted(set.intersection(*map(set, places)))
    shown, scale = [means[step] for step in steps], 100 if figure == "accuracy" else 1
    x = [fmean(place[step] for place in places) for step in steps]
    y = [scale * mean["value"] for mean in shown]
    return Line(x, y, label, band=read_bounds(shown, scale), style=style)


def _find_means(group: list[Run], figure: str) -> dict[int, Interval]:
    """The mean over seeds at each step that a run measured."""
    return {step: _summarise(group, figure, step) for run in group for step in run.series(f"{HELD_OUT}{figure}")[0]}


def _find_places(run: Run, figure: str, cost: str) -> dict[int, float]:
    """By step what had been spent; at step 0 that is nothing."""
    rows = [row for row in run.metrics if row.get(f"{HELD_OUT}{figure}") is not None]
    return {row["step"]: row.get(cost, 0.0) for row in rows if not row["step"] or cost in row}


def _summarise(group: list[Run], figure: str, step: int) -> Interval:
    """The mean over seeds, with a 95% interval that joins seeds, rows and sampling; of one seed, or without each row's
    figures, there is none."""
    rows = [pd.Series(line.figures[figure], index=line.id, dtype=float) for run in group for line in run.validation
            if line.step == step and figure in line.figures]  # fmt: skip
    joined = join(rows) if len(rows) == len(group) > 1 else None
    if joined is not None:
        return crossed_interval(joined, SHARES if figure == "accuracy" else LEVELS)
    values = [row.get(f"{HELD_OUT}{figure}") for run in group for row in run.metrics if row["step"] == step]
    return exact(fmean(value for value in values if value is not None))
