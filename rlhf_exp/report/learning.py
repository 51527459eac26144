"""What was measured on validation rows during training (`eval.every`): against its cost, and against the KL.

describe_learning({"ppo": [run, run], "grpo": [run]})  ->  blocks
"""

from typing import NamedTuple

import numpy as np

from rlhf_exp.report.columns import Column, at, stack
from rlhf_exp.report.groups import Groups
from rlhf_exp.report.page import NOTES, Block, Figures, Heading, Table, footnote
from rlhf_exp.report.plots import Line, Panel, Plot, choose_style, read_bounds
from rlhf_exp.runs.figures import number, percent
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import DIFFERENCES, LEVELS, SHARES, Interval, crossed_interval, exact, mean_interval, share_interval

HELD_OUT = "validation/"
"""How the names of these metrics begin."""
COSTS = {
    "trained_tokens": "tokens trained on",
    "sampled_tokens": "tokens sampled",
    "step_seconds": "seconds inside steps",
}
"""What metrics.jsonl counts, all from 0; the seconds are without those of the measurements themselves."""
KL = {f"{HELD_OUT}kl": "KL to the start model, nats per completion"}


class Trace(NamedTuple):
    """One run's measurements.

    Attributes:
        steps, places: (points,) when they were made, and what had been spent by then.
        values: (points,) means over the rows.
        by_row: (points,) of each row; empty if the folder does not hold each row's figures.
    """

    steps: list[int]
    places: np.ndarray
    values: np.ndarray
    by_row: dict[str, np.ndarray]

    def pick(self, steps: list[int]) -> "Trace":
        """The measurements of these steps."""
        kept = [self.steps.index(step) for step in steps]
        by_row = {name: row[kept] for name, row in self.by_row.items()}
        return Trace(steps, self.places[kept], self.values[kept], by_row)


KINDS = (Column("accuracy", at("accuracy"), percent, kind=SHARES), Column("reward", at("reward"), number(".3f")))
"""What may have been measured, as a line of validation.jsonl holds it of each row; the kind is of its mean."""


def describe_learning(groups: Groups) -> list[Block]:
    """Plots against each cost and the KL, and the dates of falls; nothing if no run was measured in training."""
    runs = [run for group in groups.values() for run in group]
    kind = next((kind for kind in KINDS if any(run.series(f"{HELD_OUT}{kind.name}")[0] for run in runs)), None)
    if kind is None:
        return []
    read = {cost: _read_traces(groups, kind, cost) for cost in COSTS | KL}
    if not any(read.values()):
        return []
    panels = [_plot_cost((COSTS | KL)[cost], traces, kind) for cost, traces in read.items() if traces]
    dates = {label: step for label, traces in read["step_seconds"].items() if (step := date_fall(traces, kind))}
    rows = [[label, str(step)] for label, step in dates.items()]
    caption = f"{kind.name.capitalize()} on validation rows in training: the mean over seeds with its 95% interval"
    plot = Plot("learning", caption, panels, 0.9 + 2.5 * len(panels))
    blocks: list[Block] = [Heading("Learning on validation rows"), Figures([plot])]
    return [*blocks, Table(["setting", "below the start from step"], rows), footnote(NOTES["fall"])] if rows else blocks


def measure_points(run: Run) -> dict[str, dict[int, Interval]]:
    """Of one run's measurements by their name and step the mean over the rows with its 95% interval."""
    found: dict[str, dict[int, Interval]] = {}
    for line in run.validation:
        for column in KINDS:
            if values := column.read(line):
                measure = share_interval if column.kind is SHARES else mean_interval
                found.setdefault(column.name, {})[line["step"]] = measure(values)
    return found


def summarise(traces: list[Trace], kind: Column) -> list[Interval]:
    """Means over seeds at each point, with 95% intervals that join seeds, rows and sampling; of one seed, or without
    each row's figures, there are none."""
    figures = stack([trace.by_row for trace in traces]) if len(traces) > 1 else None  # (seeds, rows, points)
    if figures is None:
        return [exact(float(value)) for value in np.mean([trace.values for trace in traces], axis=0)]
    return [crossed_interval(figures[:, :, i], kind.kind or LEVELS) for i in range(figures.shape[2])]


def date_fall(traces: list[Trace], kind: Column) -> int | None:
    """The step of the first measurement from which on the mean over these runs, not over others with new seeds, stays
    below that at the start by its 95% interval over rows; None if it does not, or each row's figures are missing."""
    steps = _find_shared(traces)
    gains = stack([{name: row - row[0] for name, row in trace.pick(steps).by_row.items()} for trace in traces])
    if gains is None:  # else (seeds, rows, points)
        return None
    means = gains.mean(axis=0, keepdims=True)
    found = [crossed_interval(means[:, :, i], DIFFERENCES if kind.kind else LEVELS)["high"] for i in range(len(steps))]
    last = max(i for i, high in enumerate(found) if high is None or high >= 0)  # that of the start is 0 or above
    return steps[last + 1] if last + 1 < len(steps) else None


def _find_shared(traces: list[Trace]) -> list[int]:
    """The steps that all of them measured."""
    return sorted(set.intersection(*(set(trace.steps) for trace in traces)))


def _read_traces(groups: Groups, kind: Column, cost: str) -> dict[str, list[Trace]]:
    """For each group the curves of its runs; without groups that have no such cost, such as sampled tokens of dpo."""
    read = {}
    for label, group in groups.items():
        if traces := [trace for run in group if (trace := _read_trace(run, kind, cost))]:
            read[label] = traces
    return read


def _read_trace(run: Run, kind: Column, cost: str) -> Trace | None:
    """The measurements for which the run knows its `cost`, a key of metrics.jsonl; at step 0 nothing is spent. None if
    these are fewer than two, or nothing was spent."""
    metric = f"{HELD_OUT}{kind.name}"
    rows = [row for row in run.metrics if row.get(metric) is not None and (not row["step"] or cost in row)]
    places = np.array([row.get(cost, 0.0) for row in rows], dtype=np.float64)
    if len(rows) < 2 or not places.max() > 0:
        return None
    steps = [row["step"] for row in rows]
    lines = [line for line in run.validation if kind.read(line) and line["step"] in steps]
    complete = [line["step"] for line in lines] == steps and all(line["id"] == lines[0]["id"] for line in lines)
    values = np.array([kind.read(line) for line in lines], dtype=np.float64).T if complete else ()
    by_row = dict(zip(lines[0]["id"], values, strict=True)) if complete else {}
    return Trace(steps, places, np.array([row[metric] for row in rows], dtype=np.float64), by_row)


def _plot_cost(xlabel: str, groups: dict[str, list[Trace]], kind: Column) -> Panel:
    """A line for each group through the means over its seeds, at the steps that all of them measured."""
    lines, scale = [], 100 if kind.kind is SHARES else 1
    for place, (label, traces) in enumerate(groups.items()):
        traces = [trace.pick(_find_shared(traces)) for trace in traces]
        found = summarise(traces, kind)
        x = np.mean([trace.places for trace in traces], axis=0)
        y = scale * np.array([interval["value"] for interval in found])
        lines.append(Line(x, y, label, band=read_bounds(found, scale), style=choose_style(place)))
    return Panel(xlabel, f"{kind.name}, %" if scale == 100 else kind.name, lines)
