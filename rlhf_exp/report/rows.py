"""Reads the figures of held-out rows from run folders, for intervals over seeds and rows.

    correct = of_samples("trained", lambda sample: sample["outcome"] == "correct")
    correct(run)                       # {"row id": 0.25, ...}: of each row the mean over its sampled completions
    align([run, run, run], correct)    # (3, rows), or None if a run lacks them

A run that lacks what is asked for (an older folder, or one without samples.jsonl) gives {}.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlhf_exp.runs.load import Run

ByRow = dict[str, float]
Reader = Callable[[Run], ByRow]
FEWEST = 2


def of_samples(which: str, read: Callable[[dict[str, Any]], float | None]) -> Reader:
    """Of each row the mean of `read` over its sampled completions; {} if one of them lacks what it reads."""
    return lambda run: _average((sample["id"], _try(read, sample)) for sample in _sampled(run, which))


def of_pairs(which: str) -> Reader:
    """Of each held-out pair 1 if its margin is above 0, 0.5 at 0, 0 below."""

    def read(run: Run) -> ByRow:
        rows = [row for row in run.preferences if row.get("which") == which]
        return _average((row["id"], (np.sign(row["margin"]) + 1) / 2) for row in rows)

    return read


def of_policy(family: str) -> Reader:
    """Of each held-out row the accuracy of the best trivial policy of a family."""

    def read(run: Run) -> ByRow:
        found = [row for row in run.policies if row.get("family") == family]
        return dict(zip(found[0]["id"], found[0]["accuracy"], strict=True)) if found else {}

    return read


def subtract(after: Reader, before: Reader) -> Reader:
    """The difference on each row that both have."""

    def read(run: Run) -> ByRow:
        first, second = after(run), before(run)
        return {name: value - second[name] for name, value in first.items() if name in second}

    return read


def read_wins(run: Run) -> ByRow:
    """Of each row the share of its completions, the i-th against the i-th, whose reward rose; a tie is one half."""
    sides = [
        {(sample["id"], sample.get("sample", 0)): sample.get("reward") for sample in _sampled(run, which)}
        for which in ("baseline", "trained")
    ]
    shared = [key for key in sides[0] if key in sides[1]]
    if not shared or any(side[key] is None for side in sides for key in shared):
        return {}
    return _average((key[0], (np.sign(sides[1][key] - sides[0][key]) + 1) / 2) for key in shared)


def align(runs: list[Run], read: Reader) -> np.ndarray | None:
    """(runs, rows) of the rows that all runs have, in the order of the first; None if these are fewer than two."""
    return stack([read(run) for run in runs])


def stack(by_run: list[ByRow]) -> np.ndarray | None:
    """As `align`, from rows that were read."""
    shared = [name for name in by_run[0] if all(name in rows for rows in by_run)] if by_run else []
    if len(shared) < FEWEST:
        return None
    return np.array([[rows[name] for name in shared] for rows in by_run])


def _sampled(run: Run, which: str) -> list[dict[str, Any]]:
    """The samples of one side; folders without `decoding` hold sampled completions only."""
    return [s for s in run.samples if s.get("which") == which and s.get("decoding", "sampled") == "sampled"]


def _try(read: Callable[[dict[str, Any]], float | None], sample: dict[str, Any]) -> float | None:
    try:
        return read(sample)
    except KeyError:
        return None


def _average(values: Any) -> ByRow:
    of_row: dict[str, list[float]] = {}
    for name, value in values:
        if value is None:
            return {}
        of_row.setdefault(name, []).append(float(value))
    return {name: sum(found) / len(found) for name, found in of_row.items()}
