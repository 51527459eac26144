"""The picture of one run: its held-out accuracy over training, or its reward where nothing is graded.

describe_progress(run)  ->  [Widget("curves", "progress", {...}, [Figures([Plot("progress", ...)])])]
"""

from typing import Any, NamedTuple

import pandas as pd

from rlhf_exp.analysis.report.baselines import find_best
from rlhf_exp.analysis.report.columns import at
from rlhf_exp.analysis.report.curves import shorten
from rlhf_exp.analysis.report.learning import measure_points
from rlhf_exp.analysis.report.page import Block, Figures, Widget
from rlhf_exp.analysis.report.plots import DASHES, PALETTE, Line, Panel, Plot, Style
from rlhf_exp.analysis.stats import Interval, exact
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.records import Section

HEIGHT = 360
"""On the page, in pixels."""
OTHER_ROWS = "; the validation rows are none of the held-out rows"


class Series(NamedTuple):
    """Figures by step.

    Attributes:
        colour: its place in the palette.
        kind: `band`, a line in the area of its intervals; `dots`, points with bars; `dash`, a broken line.
    """

    label: str
    points: dict[int, Interval]
    colour: int
    kind: str


def describe_progress(run: Run) -> list[Block]:
    """The figure on validation rows, at the start and at the end on all held-out rows, and what the start model reaches
    without training; empty if none of these was measured."""
    before, after = run.evaluation.baseline or Section(), run.evaluation.trained or Section()
    figure, path = ("accuracy", ["accuracy"]) if before.accuracy else ("reward", ["reward", "mean"])
    last, series = run.info.best.step if run.info.best else run.info.steps, list[Series]()
    if points := measure_points(run).get(figure):
        series.append(Series(f"on {len(run.validation[0].id):,} validation rows", points, 0, "band"))
    if sides := {step: found for step, side in ((0, before), (last, after)) if (found := at(*path)(side))}:
        series.append(Series(f"on all {before.n:,} held-out rows", sides, 6, "dots"))
    if run.evaluation.baselines and figure == "accuracy":
        family, best = find_best(run)
        ends = dict.fromkeys((0, max(1, run.info.steps)), exact(at("accuracy", "value")(best)))
        series.append(Series(f"start model with its sampling changed ({family})", ends, 1, "dash"))
    others = bool(points and sides) and {*run.validation[0].id}.isdisjoint(row.id for row in run.samples)
    return [_draw(figure, series, OTHER_ROWS if others else "")] if series else []


def _draw(figure: str, series: list[Series], note: str) -> Widget:
    """A chart without controls, and a picture of the same."""
    unit, scale = ("accuracy, %", 100) if figure == "accuracy" else (figure, 1)
    caption = f"Held-out {unit}, over training, with 95% intervals{note}"
    steps = sorted({step for one in series for step in one.points})
    rows: dict[str, list[float | None]] = {"step": [*steps]}
    intervals, keys, lines = dict[str, object](), list[Any](), list[Line]()
    for one in series:
        table = scale * pd.DataFrame.from_dict(one.points, orient="index").astype(float)
        rows[one.label], *ends = (shorten(table[name].reindex(steps), False) for name in ("value", "low", "high"))
        intervals |= {one.label: dict(zip(("low", "high"), ends, strict=True))} if one.kind != "dash" else {}
        keys.append([one.label, one.label, {"colour": one.colour, one.kind: 1}])
        style: Style = {"color": PALETTE[one.colour], "linestyle": DASHES[one.kind == "dash"]}
        style |= {"linestyle": "none", "marker": "o", "markersize": 6} if one.kind == "dots" else {}
        bounds = {"band" if one.kind == "band" else "y_bounds": table[["low", "high"]].to_numpy().T}
        lines.append(Line(table.index.to_numpy(), table["value"].to_numpy(), one.label, style=style, **bounds))
    content = {
        "axes": [["step", "step"]],
        "charts": [{"caption": caption, "unit": "", "series": keys}],
        "settings": [""],
        "runs": [{"name": "", "setting": 0, "rows": rows, "marks": [], "intervals": intervals}],
        "height": HEIGHT,
    }
    return Widget("curves", "progress", content, [Figures([Plot("progress", caption, [Panel("step", unit, lines)])])])
