"""The columns of every table: how a figure is read, written and explained; here those of a comparison of runs.

>>> STEPS = Column("steps", at("work", "steps"), "{:,}".format)
>>> STEPS.cell({"work": {"steps": 1200}})
'1,200'

TRAINED.read(run)  ->  {"value": 0.38, "low": 0.34, "high": 0.43}, or None
mean_over_seeds([run, run, run], TRAINED)

For intervals over seeds and rows a column also reads the figure of each held-out row:

    correct = of_samples("trained", lambda sample: sample["outcome"] == "correct")
    correct(run)                       # {"row id": 0.25, ...}: of each row the mean over its sampled completions
    align([run, run, run], correct)    # (3, rows), or None if a run lacks them

A run that lacks what is asked for (an older folder, or one without samples.jsonl) gives {}.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from rlhf_exp.evaluation.metrics import OUTCOMES
from rlhf_exp.report.page import TEXTS, Table
from rlhf_exp.runs.figures import Figure, number, percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import DIFFERENCES, LEVELS, SHARES, Interval, Kind, crossed_interval, exact, mean_interval

ByRow = dict[str, float]
Reader = Callable[[Run], ByRow]
FEWEST = 2
"""Rows that runs must share for an interval."""


class Column(NamedTuple):
    """One figure: its name, how it is read, how it is written, and how a difference of it is written, if one is
    shown."""

    name: str
    read: Callable[..., Any]
    write: Callable[[Any], str] = str
    write_difference: Callable[[Figure], str] = lambda figure: ""
    rows: Reader | None = None
    """Reads the same figure of each held-out row; None of a figure that rows do not have."""
    kind: Kind | None = LEVELS
    """Of its mean over seeds and rows; None for Student's t over seeds."""

    def cell(self, thing: Any) -> str:
        """The figure of `thing` as text; - if there is none."""
        found = self.read(thing)
        return "-" if found is None else self.write(found)


def at(*key: str) -> Callable[[dict | None], Any]:
    """Returns a function that reads the value at a path of nested mappings; None if a key is missing."""

    def read(found: Any) -> Any:
        for name in key:
            found = (found or {}).get(name)
        return found

    return read


def fill(columns: Sequence[Column], things: Iterable[Any]) -> Table:
    """A table with a row for each thing."""
    return Table([column.name for column in columns], [[column.cell(thing) for column in columns] for thing in things])


def join_notes(columns: Iterable[Column]) -> str:
    """What the figures of `columns` are."""
    return " ".join(TEXTS["figures"][column.name] for column in columns if column.name in TEXTS["figures"])


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
    sides: list[dict[Any, Any]] = [
        {(sample["id"], sample.get("sample", 0)): sample.get("reward") for sample in _sampled(run, which)}
        for which in ("baseline", "trained")
    ]
    before, after = sides
    shared = [key for key in before if key in after]
    if any(side[key] is None for side in sides for key in shared):
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


def _figure(
    name: str, *key: str, write: Callable[[Any], str] = percent, scorer: bool | None = None, rows: Reader | None = None,
    kind: Kind = SHARES,
) -> Column:  # fmt: skip
    """A figure of evaluation.json, of runs whose trained model was measured. With `scorer` true only of runs that train
    a reward model, with false only of all others: a reward model's accuracy is of pairs, and its rewards have no
    zero."""

    def read(run: Run) -> Interval | None:
        if "trained" not in run.evaluation or scorer not in (None, run.trains_scorer):
            return None
        found = at(*key)(run.evaluation)
        return exact(found) if isinstance(found, int | float) else found or None

    return Column(name, read, write, rows=rows, kind=kind)


def _accuracies(prefix: str, scorer: bool, before: Reader, after: Reader) -> tuple[Column, ...]:
    gain: dict[str, Any] = {"rows": subtract(after, before), "kind": DIFFERENCES, "write": points}
    return (
        _figure(f"{prefix}baseline", "baseline", "accuracy", scorer=scorer, rows=before),
        _figure(f"{prefix}trained", "trained", "accuracy", scorer=scorer, rows=after),
        _figure(f"{prefix}difference", "paired", "difference", scorer=scorer, **gain),
    )


def _cost(name: str, spec: str, paths: list[str], per_update: bool = False) -> Column:
    """The value in run.json at the first of these paths that it has, of a run that trained."""

    def read(run: Run) -> Interval | None:
        steps = run.info.get("steps")
        found = [value for path in paths if (value := at(*path.split("."))(run.info)) is not None]
        return exact(found[0] / (steps if per_update else 1)) if steps and found else None

    return Column(name, read, number(spec), kind=None)


CORRECT_BEFORE, CORRECT = (of_samples(side, lambda s: s["outcome"] == "correct") for side in ("baseline", "trained"))
REWARDED_BEFORE, REWARDED = (of_samples(side, lambda s: s["reward"]) for side in ("baseline", "trained"))
RIGHT_BEFORE, RIGHT = of_pairs("baseline"), of_pairs("trained")

BASELINE, TRAINED, DIFFERENCE = ACCURACY = _accuracies("", False, CORRECT_BEFORE, CORRECT)
PAIRS_BASELINE, PAIRS_TRAINED, PAIRS_DIFFERENCE = PAIRS = _accuracies("pairs, ", True, RIGHT_BEFORE, RIGHT)
IMPLICIT = _figure("implicit", "trained", "preference", "accuracy", rows=RIGHT)
WIN_RATE = _figure("win rate", "paired", "win_rate", rows=read_wins)
REWARD = _figure("reward", "trained", "reward", "mean", write=number(".3f"), rows=REWARDED, kind=LEVELS, scorer=False)
LENGTH, DIVERGENCE = (of_samples("trained", itemgetter(key)) for key in ("tokens", "kl"))
TOKENS = _figure("tokens", "trained", "mean_tokens", write=number(".1f"), rows=LENGTH, kind=LEVELS)
KL = _figure("KL", "trained", "kl", "mean", write=number(".2f"), rows=DIVERGENCE, kind=LEVELS)

START_OF = {TRAINED.name: CORRECT_BEFORE, REWARD.name: REWARDED_BEFORE, PAIRS_TRAINED.name: RIGHT_BEFORE}
"""Where a figure has one: the same of the start model."""

MEASURED = (*ACCURACY, *PAIRS, IMPLICIT, WIN_RATE, REWARD, TOKENS, KL)
"""Of one run, and over seeds."""

SHORT = (TRAINED, DIFFERENCE, PAIRS_TRAINED, PAIRS_DIFFERENCE, WIN_RATE, REWARD, KL)
"""Those for which a terminal has room."""

COUNTS = [_figure(name, "trained", "counts", name, write=number(".1f"), scorer=False) for name in OUTCOMES]
OUTCOME = (*ACCURACY, *PAIRS, *COUNTS, TOKENS, _figure("budget used", "trained", "utilisation"))
REWARD_STD = _figure("reward std", "trained", "reward", "std", write=number(".3f"))
REWARDS = (TRAINED, WIN_RATE, REWARD, REWARD_STD, KL, _figure("KL std", "trained", "kl", "std", write=number(".2f")))

COST, PASSES = ([_cost(*figure) for figure in TEXTS["sections"][name]] for name in ("cost", "passes"))
TRAINED_TOKENS = COST[1]


def read_start(run: Run, column: Column) -> Interval | None:
    """The same figure for the start model instead of the trained model (its KL to itself is 0)."""
    return column.read(replace(run, evaluation={"trained": run.evaluation.get("baseline", {})}))


def list_columns(runs: list[Run], columns: Sequence[Column] = MEASURED) -> list[Column]:
    """The columns for which some of these runs have a figure."""
    return [column for column in columns if any(map(column.read, runs))]


def mean_over_seeds(group: list[Run], column: Column) -> Interval | None:
    """The mean over a group's runs. A figure of held-out rows has an interval over seeds, rows and sampling, if every
    run holds it for each row; a cost has a t interval over seeds; one seed has none. The start model, measured once for
    all of them, keeps the interval over its held-out rows."""
    runs = [run for run in group if column.read(run)]
    figures = [column.read(run) for run in runs]
    if not figures:
        return None
    if column in (BASELINE, PAIRS_BASELINE) and all(figure == figures[0] for figure in figures):
        return figures[0]
    values = [figure["value"] for figure in figures]
    if column.kind is None or len(runs) == 1 or None in values:
        return mean_interval([value for value in values if value is not None] or [float("nan")])
    rows = align(runs, column.rows) if column.rows else None
    return exact(sum(values) / len(values)) if rows is None else crossed_interval(rows, column.kind)


def lacks_rows(group: list[Run], columns: Iterable[Column]) -> bool:
    """Whether a mean over these runs has no interval, because one of them does not hold the figure of each row."""
    sought = [(column.rows, [run for run in group if column.read(run)]) for column in columns if column.rows]
    return any(len(runs) > 1 and align(runs, rows) is None for rows, runs in sought)
