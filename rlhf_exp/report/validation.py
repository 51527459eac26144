"""Reads from run folders what was measured on validation rows during training (`eval.every`).

kind = choose_kind(runs)                             # accuracy if one of them has it, else reward; None without any
trace = read_trace(run, kind, "trained_tokens")      # its means, and each row's, against what they had cost
summarise([trace, trace], sum_up, kind)              # of each number that sum_up makes of a curve, the mean over seeds
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rlhf_exp.report.rows import stack
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import LEVELS, SHARES, Interval, Kind, crossed_interval, exact


class Measured(NamedTuple):
    """A figure: its name in validation.jsonl, its name in reports, what 1 is written as, and the bounds of its mean."""

    name: str
    title: str
    unit: str
    scale: float
    kind: Kind

    @property
    def metric(self) -> str:
        return f"validation/{self.name}"


KINDS = (
    Measured("accuracy", "accuracy on validation rows", "accuracy, %", 100, SHARES),
    Measured("reward", "reward on validation rows", "reward", 1, LEVELS),
)
KL = "validation/kl"


class Trace(NamedTuple):
    """One run's measurements.

    Attributes:
        steps, places: (points,) when they were made, and what had been spent by then.
        values: (points,) means over the rows.
        ids: of the rows; () if the folder does not hold each row's figures.
        by_row: (rows, points)
    """

    steps: list[int]
    places: np.ndarray
    values: np.ndarray
    ids: tuple[str, ...]
    by_row: np.ndarray


def choose_kind(runs: list[Run]) -> Measured | None:
    return next((kind for kind in KINDS if any(run.series(kind.metric)[0] for run in runs)), None)


def read_trace(run: Run, kind: Measured, cost: str) -> Trace | None:
    """The measurements for which the run knows its `cost`, a key of metrics.jsonl; at step 0 nothing is spent. None if
    these are fewer than two, or nothing was spent."""
    rows = [row for row in run.metrics if row.get(kind.metric) is not None and (not row["step"] or cost in row)]
    places = np.array([row.get(cost, 0.0) for row in rows], dtype=np.float64)
    if len(rows) < 2 or not places.max() > 0:
        return None
    steps = [row["step"] for row in rows]
    values = np.array([row[kind.metric] for row in rows], dtype=np.float64)
    lines = {line["step"]: line for line in run.validation if kind.name in line}
    if any(step not in lines or lines[step]["id"] != lines[steps[0]]["id"] for step in steps):
        return Trace(steps, places, values, (), np.empty((0, len(steps))))
    by_row = np.array([lines[step][kind.name] for step in steps], dtype=np.float64).T
    return Trace(steps, places, values, tuple(lines[steps[0]]["id"]), by_row)


def summarise(
    traces: list[Trace], read: Callable[[Trace, np.ndarray], np.ndarray], kind: Measured, fewest: int = 2
) -> list[Interval]:
    """Means over seeds, with 95% intervals that join seeds, rows and sampling. Without each row's figures, and with
    fewer than `fewest` seeds, there is no interval.

    Args:
        read: (trace, values) -> (..., numbers), linear in the values, (..., points): of a mean curve, or of each row's.
    """
    rows = [dict(zip(trace.ids, read(trace, trace.by_row), strict=True)) for trace in traces]
    figures = stack(rows) if len(traces) >= fewest else None  # (seeds, rows, numbers)
    if figures is None:
        return [exact(float(value)) for value in np.mean([read(trace, trace.values) for trace in traces], axis=0)]
    return [crossed_interval(figures[:, :, i], kind.kind) for i in range(figures.shape[2])]


def has_rows(traces: list[Trace]) -> bool:
    """Whether `summarise` can have intervals over rows."""
    return all(trace.ids for trace in traces)
