"""Training curves: TRL's metrics and the probe's against the step; as pictures, and as what the page's script draws.

plot_run(run)   ->  [Plot("reward", "Mean reward ...", ...), ...], only what the run has data for
plot_runs(groups), where groups maps a label to its runs, has each curve of all of them in one plot
show_curves({"": [run]}, plot_run(run))  ->  Widget("curves", {...}, [Figures(...)]), with every series that was logged
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from rlhf_exp.analysis.report.groups import join_groups, name_method
from rlhf_exp.analysis.report.learning import HELD_OUT, measure_points
from rlhf_exp.analysis.report.page import TEXTS, Figures, Heading, Widget
from rlhf_exp.analysis.report.plots import Line, Panel, Plot, choose_style
from rlhf_exp.runs.load import Run


class Curve(NamedTuple):
    """One plot with a panel for each unit; a comparison shows its first metric. Metrics without a label are one figure,
    which trainers name differently.

    Attributes:
        units: unit: {metric: its label}.
        only: `given` for runs of one algorithm that learns from given rows, `sampled` for others; empty for all.
        family: the curves of one run are shown family by family.
    """

    name: str
    caption: str
    units: dict[str, dict[str, str]]
    only: str = ""
    family: str = "Optimizer"


HEADING = Heading("Training curves")
KEYS = ("curves", "held_out_curves", "run_curves")
CURVES, HELD_OUT_CURVES, RUN_CURVES = ([Curve(**curve) for curve in TEXTS[key]] for key in KEYS)
FAMILIES = ("Held-out rows", "Rewards and outcomes", "Distance from the start model", "Length", "Optimizer")
OTHER_KLS = ("sampled_kl", "validation_kl")
"""Curves that a run with the exact KL of its probe does not need."""
PERCENT = {key for curve in CURVES + HELD_OUT_CURVES + RUN_CURVES for unit, keys in curve.units.items()
           if unit.endswith("%") for key in keys}  # fmt: skip
"""Shares, which charts show in percent."""
COMPONENT = re.compile("rewards/(.+)/mean")

AXES = {"step": "step", "trained_tokens": "tokens trained on", "time_s": "seconds"}
MOST_VALUES = 600_000
"""Of longer series a page has every second row, or every third and so on; about 3 MB are left."""

EACH_RUN = 40
"""Up to so many runs each has its own line in a picture."""

Trace = dict[int, tuple[float, float]]
"""By step its place on the axis, and the value."""


def plot_run(run: Run) -> list[Plot]:
    """The curves of one run."""
    return [plot for curve in _list_curves_of(run) if (plot := _plot_curve(run, curve))]


def show_curves(groups: dict[str, list[Run]], plots: list[Plot]) -> Widget:
    """The curves of one run, or of several by setting, with `plots` for where no script runs."""
    runs = join_groups(groups)
    curves = _list_curves_of(runs[0]) if len(runs) == 1 else list_curves(runs, CURVES + HELD_OUT_CURVES)
    axes = {key: label for key, label in AXES.items() if any(key in run.logged for run in runs)}
    if _counts_tokens(runs):
        axes = {"trained_tokens": AXES["trained_tokens"]} | axes
    charts = [{"caption": curve.caption, "unit": unit, "series": list(keys.items())}
              | ({"family": curve.family} if len(runs) == 1 else {})
              for curve in curves for unit, keys in curve.units.items()]  # fmt: skip
    values = sum(len(run.metrics) * len(run.logged) for run in runs)
    every = 1 + values // MOST_VALUES
    shown = [{"name": run.path.name, "setting": place, **_show_run(run, every)}
             for place, group in enumerate(groups.values()) for run in group if run.metrics]  # fmt: skip
    content = {"axes": list(axes.items()), "charts": charts, "settings": list(groups), "runs": shown}
    return Widget("curves", "curves", content, [Figures(plots)])


def plot_runs(groups: dict[str, list[Run]]) -> list[Plot]:
    """Every curve of every run, a colour for each group, and the mean of its runs as a thick line; of more runs than
    EACH_RUN the means alone. For several methods, whose steps differ in size, the axis has the tokens trained on."""
    plots = []
    runs = join_groups(groups)
    axis = "trained_tokens" if _counts_tokens(runs) else "step"
    for curve in list_curves(runs, CURVES):
        unit, keys = next(iter(curve.units.items()))
        found = [[trace for run in group if (trace := _trace(run, keys, axis))] for group in groups.values()]
        drawn = sum(map(len, found))
        if sum(map(bool, found)) >= min(2, len(groups)):  # a single one of several has it in its own report
            lines = [line for place, (label, traces) in enumerate(zip(groups, found, strict=True))
                     for line in _join_group(label, traces, choose_style(place), each=drawn <= EACH_RUN)]  # fmt: skip
            which = next(iter(keys.values())) or unit
            plots.append(Plot(curve.name, f"{curve.caption} ({which})", [Panel(AXES[axis], unit, lines)]))
    return plots


def list_curves(runs: list[Run], curves: list[Curve]) -> list[Curve]:
    """The curves for these runs: a loss shows the progress of training without rewards alone, and not of several
    algorithms, whose losses cannot be compared; a policy gradient's loss always stays near 0."""
    kind = "given" if runs[0].algorithm and not runs[0].algorithm.by_rewards else "sampled"
    alike = len({run.info.algo for run in runs}) == 1
    return [curve for curve in curves if not curve.only or (curve.only == kind and alike)]


def _list_curves_of(run: Run) -> list[Curve]:
    """Those of one run, by family; a single component of a reward is the reward itself, and one KL is enough."""
    components = {key: found[1] for key in run.logged if (found := COMPONENT.fullmatch(key))}
    parts = Curve("components", "Rewards in training, each before its weight", {"reward": components}, "", FAMILIES[1])
    curves = [*list_curves([run], CURVES + HELD_OUT_CURVES + RUN_CURVES), *[parts] * (len(components) > 1)]
    shown = [curve for curve in curves if curve.name not in OTHER_KLS or "probe/kl" not in run.logged]
    return [curve for family in FAMILIES for curve in shown if curve.family == family]


def _counts_tokens(runs: list[Run]) -> bool:
    """Whether curves are shown against tokens: of several methods, whose steps differ in size."""
    counted = all("trained_tokens" in run.logged for run in runs if run.metrics)
    return counted and len({name_method(run) for run in runs}) > 1


def _show_run(run: Run, every: int) -> dict:
    """Each logged series with null where it has no value, in four digits; intervals of what was measured on validation
    rows, over these rows; and when its findings and alarms began and ended."""
    held_out = {key for key in run.logged if key.startswith(HELD_OUT)}
    rows = [row for i, row in enumerate(run.metrics) if i % every == 0 or not held_out.isdisjoint(row)]
    columns = {key: shorten([row.get(key) for row in rows], key in AXES, _scale(key)) for key in run.logged}
    series = {key: values for key, values in columns.items() if any(value is not None for value in values)}
    marks = []
    for one in run.diagnosis.findings if run.diagnosis.health else run.alarms:
        text = f"{one.name.replace('_', ' ')}: {one.evidence}"
        marks += [{"steps": one.steps, "kind": one.severity, "text": text}] if one.steps else []
    intervals = {}
    for name, at_step in measure_points(run).items():
        measured = [at_step.get(row["step"]) for row in rows]
        scale = _scale(key := f"{HELD_OUT}{name}")
        intervals[key] = {end: shorten([of and of[end] for of in measured], False, scale) for end in ("low", "high")}
    return {"rows": series, "marks": marks, "intervals": intervals}


def shorten(values: Iterable[Any], whole: bool, scale: int = 1) -> list[float | None]:
    """Numbers, `scale` times, in four digits, of an axis in hundredths; None for what is none, or not finite."""
    numbers = [value if isinstance(value, int | float) else np.nan for value in values]
    found = scale * np.array(numbers, dtype=np.float64)
    known = np.isfinite(found)
    safe = np.where(known & (found != 0), found, 1.0)
    digits = 2 if whole else 3 - np.floor(np.log10(np.abs(safe)))
    rounded = np.round(np.where(known, found, 0.0) * 10.0**digits) / 10.0**digits
    return [value if is_known else None for value, is_known in zip(rounded.tolist(), known, strict=True)]


def _trace(run: Run, keys: dict[str, str], axis: str) -> Trace:
    """The series that a comparison draws: the first metric, under the name that the run's trainer uses."""
    first = next(iter(keys))
    for key in (key for key in keys if key in run.logged and (key == first or not keys[key])):
        if rows := [row for row in run.metrics if row.get(key) is not None and axis in row]:
            return {row["step"]: (row[axis], _scale(key) * row[key]) for row in rows}
    return {}


def _scale(key: str) -> int:
    return 100 if key in PERCENT else 1


def _plot_curve(run: Run, curve: Curve) -> Plot | None:
    """Panels over the same steps, one for each unit, of the metrics that were logged; None if none was."""
    panels = []
    for unit, keys in curve.units.items():
        series = [(*run.series(key), key) for key in keys]
        lines = [Line(x, _scale(key) * np.array(y, dtype=float), keys[key], style=choose_style(i))
                 for i, (x, y, key) in enumerate(series) if x]  # fmt: skip
        panels += [Panel("step", unit, lines)] if lines else []
    return Plot(curve.name, curve.caption, panels, 2 + 1.3 * len(panels)) if panels else None


def _join_group(label: str, traces: list[Trace], style: dict, each: bool) -> list[Line]:
    """The mean of the runs at the steps that all of them have, and with `each` a line for each run."""
    shared = sorted(set.intersection(*map(set, traces))) if traces else []
    thin = style | {"linewidth": 0.7, "alpha": 0.45, "marker": None}
    curves = [np.array(list(trace.values())).T for trace in traces] if len(traces) > 1 and (each or not shared) else []
    lines = [Line(x, y, style=thin) for x, y in curves]
    if shared:
        x, y = np.mean([[trace[step] for step in shared] for trace in traces], axis=0).T
        lines.append(Line(x, y, label, style=style))
    return lines
