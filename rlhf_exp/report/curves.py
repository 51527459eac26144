"""Training curves: TRL's metrics and the probe's against the step.

plot_run(run)   ->  [Plot("reward", "Mean reward ...", ...), ...], only what the run has data for
plot_runs(groups), where groups maps a label to its runs, has each curve of all of them in one plot
"""

import re
from typing import NamedTuple

import numpy as np

from rlhf_exp.report.groups import name_method
from rlhf_exp.report.page import TEXTS
from rlhf_exp.report.plots import Line, Panel, Plot, choose_style
from rlhf_exp.runs.load import Run


class Curve(NamedTuple):
    """One plot with a panel for each unit; a comparison shows its first metric. Metrics without a label are one figure,
    which trainers name differently.

    Attributes:
        units: unit: {metric: its label}.
        only: `given` for runs of one algorithm that learns from given rows, `sampled` for others; empty for all.
    """

    name: str
    caption: str
    units: dict[str, dict[str, str]]
    only: str = ""


CURVES, RUN_CURVES = ([Curve(**curve) for curve in TEXTS[key]] for key in ("curves", "run_curves"))
COMPONENT = re.compile("rewards/(.+)/mean")

Trace = dict[int, tuple[float, float]]
"""By step its place on the axis, and the value."""


def plot_run(run: Run) -> list[Plot]:
    """The curves of one run."""
    components = {key: found[1] for row in run.metrics for key in row if (found := COMPONENT.fullmatch(key))}
    curves = [*list_curves([run], CURVES), *list_curves([run], RUN_CURVES)]
    if len(components) > 1:  # a single component is the reward itself
        curves.append(Curve("components", "Rewards in training, each before its weight", {"reward": components}))
    return [plot for curve in curves if (plot := _plot_curve(run, curve))]


def plot_runs(groups: dict[str, list[Run]]) -> list[Plot]:
    """Every curve of every run, a colour for each group, and the mean of its runs as a thick line. For several methods,
    whose steps differ in size, the axis has the tokens trained on."""
    plots = []
    runs = [run for group in groups.values() for run in group]
    axis, xlabel = "step", "step"
    counted = all(run.series("trained_tokens")[0] for run in runs if run.metrics)
    if counted and len({name_method(run) for run in runs}) > 1:
        axis, xlabel = "trained_tokens", "tokens trained on"
    for curve in list_curves(runs, CURVES):
        unit, keys = next(iter(curve.units.items()))
        lines, drawn = [], 0
        for place, (label, group) in enumerate(groups.items()):
            traces = [trace for run in group if (trace := _trace(run, keys, axis))]
            lines += _join_group(label, traces, choose_style(place))
            drawn += bool(traces)
        if drawn >= min(2, len(groups)):  # a single one of several settings has the curve in its own report
            which = next(iter(keys.values())) or unit
            plots.append(Plot(curve.name, f"{curve.caption} ({which})", [Panel(xlabel, unit, lines)]))
    return plots


def list_curves(runs: list[Run], curves: list[Curve]) -> list[Curve]:
    """The curves for these runs: a loss shows the progress of training on given rows alone, and not of several
    algorithms, whose losses cannot be compared; a policy gradient's loss always stays near 0."""
    kind = "given" if runs[0].algorithm and not runs[0].algorithm.online else "sampled"
    alike = len({run.info.get("algo") for run in runs}) == 1
    return [curve for curve in curves if not curve.only or (curve.only == kind and alike)]


def _trace(run: Run, keys: dict[str, str], axis: str) -> Trace:
    """The series that a comparison draws: the first metric, under the name that the run's trainer uses."""
    first, *others = keys
    for key in (first, *(key for key in others if not keys[key])):
        if rows := [row for row in run.metrics if row.get(key) is not None and axis in row]:
            return {row["step"]: (row[axis], row[key]) for row in rows}
    return {}


def _plot_curve(run: Run, curve: Curve) -> Plot | None:
    """Panels over the same steps, one for each unit, of the metrics that were logged; None if none was."""
    panels = []
    for unit, keys in curve.units.items():
        series = [(run.series(key), label) for key, label in keys.items()]
        lines = [Line(*values, label, style=choose_style(i)) for i, (values, label) in enumerate(series) if values[0]]
        panels += [Panel("step", unit, lines)] if lines else []
    return Plot(curve.name, curve.caption, panels, 2 + 1.3 * len(panels)) if panels else None


def _join_group(label: str, traces: list[Trace], style: dict) -> list[Line]:
    """A line for each run, and their mean at the steps that all of them have."""
    shared = sorted(set.intersection(*map(set, traces))) if traces else []
    thin = style | {"linewidth": 0.7, "alpha": 0.45, "marker": None}
    curves = [np.array(list(trace.values())).T for trace in traces] if len(traces) > 1 else []
    lines = [Line(x, y, style=thin) for x, y in curves]
    if shared:
        x, y = np.mean([[trace[step] for step in shared] for trace in traces], axis=0).T
        lines.append(Line(x, y, label, style=style))
    return lines
