"""Training curves: TRL's metrics and the probe's against the step.

plot_run(run)   ->  [Plot("reward", "Mean reward ...", ...), ...], only what the run has data for
plot_runs(groups), where groups maps a label to its runs, has each curve of all of them in one plot
"""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rlhf_exp.report.groups import name_method
from rlhf_exp.report.page import TEXTS
from rlhf_exp.report.plots import Line, Panel, Plot, choose_style
from rlhf_exp.runs.load import Run


class Curve(NamedTuple):
    """One plot with a panel for each unit; a comparison shows its first metric. Metrics without a label are one figure,
    which trainers name differently."""

    name: str
    caption: str  # {} is replaced by the units that are drawn
    units: dict[str, dict[str, str]]  # unit: {metric: its label}


CURVES, RUN_CURVES = ([Curve(**curve) for curve in TEXTS[key]] for key in ("curves", "run_curves"))
NEARLY = 0.8
"""Of the longest run's steps: a run that got as far is in the mean of its group."""
COMPONENT = re.compile("rewards/(.+)/mean")


def plot_run(run: Run) -> list[Plot]:
    """The curves of one run."""
    curves = list_curves([run])
    components = {key: found[1] for row in run.metrics for key in row if (found := COMPONENT.fullmatch(key))}
    if len(components) > 1:  # a single component is the reward itself
        curves.append(Curve("components", "Rewards in training, each before its weight", {"reward": components}))
    return [plot for curve in [*curves, *RUN_CURVES] if (plot := _plot_curve(run, curve))]


def plot_runs(groups: dict[str, list[Run]]) -> list[Plot]:
    """Every curve of every run, a colour for each group, and the mean of its runs as a thick line."""
    plots = []
    runs = [run for group in groups.values() for run in group]
    xlabel, places = _choose_axis(runs)
    for curve in list_curves(runs):
        unit, keys = next(iter(curve.units.items()))
        traces = {
            label: [trace for run in group if (trace := _trace(run, keys, places.get(run.path)))]
            for label, group in groups.items()
        }
        if sum(map(bool, traces.values())) < min(2, len(groups)):  # a single setting has the curve in its own report
            continue
        which = next(iter(keys.values())) or (unit if len(curve.units) > 1 else "")
        lines = [line for place, item in enumerate(traces.items()) for line in _join_group(*item, choose_style(place))]
        caption = f"{curve.caption} ({which})" if which else curve.caption
        plots.append(Plot(curve.name, caption, [Panel(xlabel, unit, lines)]))
    return plots


def list_curves(runs: list[Run]) -> list[Curve]:
    """The curves for these runs. The loss is left out for several algorithms, whose losses cannot be compared."""
    comparable = len({run.info.get("algo") for run in runs}) == 1 and _loss_tells(runs[0])
    curves = [curve for curve in CURVES if curve.name != "loss" or comparable]
    if not all(map(_loss_tells, runs)):
        return curves
    # On given rows `kl` is the estimate in kto's loss: of mismatched answers, in nats per answer.
    return [
        curve._replace(units={unit: {k: keys[k] for k in keys if k != "kl"} for unit, keys in curve.units.items()})
        for curve in curves
    ]


def _choose_axis(runs: list[Run]) -> tuple[str, dict[Path, dict[int, float]]]:
    """The step; for several methods, whose steps differ in size, the tokens trained on up to the step."""
    places = {run.path: dict(zip(*run.series("trained_tokens"), strict=True)) for run in runs if run.metrics}
    if len({name_method(run) for run in runs}) > 1 and all(places.values()):
        return "tokens trained on", places
    return "step", {}


def _loss_tells(run: Run) -> bool:
    """Whether the loss shows the progress of training; a policy gradient's loss always stays near 0."""
    return run.algorithm is not None and not run.algorithm.online


def _trace(run: Run, keys: dict[str, str], places: dict[int, float] | None) -> dict[int, tuple[float, float]]:
    """The series that a comparison draws: the first metric, under the name that the run's trainer uses. By step, its
    place on the axis (in `places`; None: the step itself) and its value."""
    first, *others = keys
    named = [first, *(key for key in others if not keys[key])]
    steps, values = next((series for key in named if (series := run.series(key))[0]), ([], []))
    return {step: (places[step] if places else step, value) for step, value in zip(steps, values, strict=True)}


def _plot_curve(run: Run, curve: Curve) -> Plot | None:
    """Panels over the same steps, one for each unit, of the metrics that were logged; None if none was."""
    panels: dict[str, Panel] = {}
    for unit, keys in curve.units.items():
        if curve in RUN_CURVES and "loss" in keys and _loss_tells(run):  # it has a plot of its own
            continue
        series = [(run.series(key), label) for key, label in keys.items()]
        lines = [Line(*values, label, style=choose_style(i)) for i, (values, label) in enumerate(series) if values[0]]
        panels |= {unit: Panel("", unit, lines)} if lines else {}
    if not panels:
        return None
    *above, last = panels.values()
    height = {} if len(curve.units) == 1 else {"height": 0.7 + 1.3 * len(panels)}
    caption = curve.caption.format(", ".join(panels))
    return Plot(curve.name, caption, [*above, last._replace(xlabel="step")], share_x=True, **height)


def _join_group(label: str, traces: list[dict[int, tuple[float, float]]], style: dict) -> list[Line]:
    """A line for each run, and their mean. It is over the runs that got nearly as far as the longest, up to the end of
    the first of them, so that it has no jump there."""
    if len(traces) < 2:
        return [_make_line(trace, label, style) for trace in traces]
    thin = style | {"linewidth": 0.7, "alpha": 0.45, "marker": None}
    lines = [_make_line(trace, "", thin) for trace in traces]
    last = max(max(trace) for trace in traces)
    complete = [trace for trace in traces if max(trace) >= NEARLY * last]
    if shared := sorted(set.intersection(*map(set, complete))):
        mean = np.mean([[trace[step] for step in shared] for trace in complete], axis=0)  # (steps, 2)
        lines.append(Line(mean[:, 0], mean[:, 1], f"{label} (mean of {len(complete)} runs)", style=style))
    return lines


def _make_line(trace: dict[int, tuple[float, float]], label: str, style: dict) -> Line:
    places, values = zip(*trace.values(), strict=True)
    return Line(places, values, label, style=style)
