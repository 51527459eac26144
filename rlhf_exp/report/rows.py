"""Reads the figures of held-out rows from run folders, for intervals over seeds and rows.

    correct = of_samples("trained", lambda sample: sample["outcome"] == "correct")
    correct(run)                       # {"row id": 0.25, ...}: of each row the mean over its sampled completions
    align([run, run, run], correct)    # (3, rows), or None if a run lacks them

A run that lacks what is asked for (an older folder, or one without samples.jsonl) gives {}.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from rlhf_exp.runs.load import Run

ByRow = dict[str, float]
Reader = Callable[[Run], ByRow]
FEWEST = 2


def of_samples(which: str, read: Callable[[dict[str, Any]], float | None]) -> Reader:
    """Of each row the mean of `read` over its sampled completions; {} if one of them lacks what it reads."""

    def read_rows(run: Run) -> ByRow:
        try:
            return _average((sample["id"], read(sample)) for sample in _sampled(run, which))
        except KeyError:
            return {}

    return read_rows


def of_pairs(which: str) -> Reader:
    """Of each held-out pair 1 if its margin is above 0, 0.5 at 0, 0 below."""
    return lambda run: _average(
        (row["id"], (np.sign(row["margin"]) + 1) / 2) for row in run.preferences if row.get("which") == which
    )


def subtract(after: Reader, before: Reader) -> Reader:
    """The difference on each row that both have."""

    def read(run: Run) -> ByRow:
        first, second = after(run), before(run)
        return {name: value - second[name] for name, value in first.items() if name in second}

    return read


def read_wins(run: Run) -> ByRow:
    """Of each row the share of its completions, the i-th against the i-th, whose reward rose; a tie is one half."""
    before, after = (
        {(sample["id"], sample.get("sample", 0)): sample.get("reward") for sample in _sampled(run, which)}
        for which in ("baseline", "trained")
    )
    shared = [key for key in before if key in after]
    if any(side[key] is None for side in (before, after) for key in shared):
        return {}
    return _average((key[0], (np.sign(after[key] - before[key]) + 1) / 2) for key in shared)


def align(runs: list[Run], read: Reader) -> np.ndarray | None:
    """(runs, rows) of the rows that all runs have, in the order of the first; None if these are fewer than two."""
    return stack([read(run) for run in runs])


def stack(by_run: list[ByRow]) -> np.ndarray | None:
    """As `align`, from rows that were read."""
    shared = [name for name in by_run[0] if all(name in rows for rows in by_run)] if by_run else []
    return np.array([[rows[name] for name in shared] for rows in by_run]) if len(shared) >= FEWEST else None


def _sampled(run: Run, which: str) -> list[dict[str, Any]]:
    """The samples of one side; folders without `decoding` hold sampled completions only."""
    return [s for s in run.samples if s.get("which") == which and s.get("decoding", "sampled") == "sampled"]


def _average(values: Iterable[tuple[str, float | None]]) -> ByRow:
    of_row: dict[str, list[float]] = {}
    for name, value in values:
        if value is None:
            return {}
        of_row.setdefault(name, []).append(float(value))
    return {name: sum(found) / len(found) for name, found in of_row.items()}
