"""The columns of every table: how a figure is read, written and explained; here those of a comparison of runs.

>>> STEPS = Column("steps", at("work", "steps"), "{:,}".format)
>>> STEPS.cell({"work": {"steps": 1200}})
'1,200'

TRAINED.read(run)  ->  {"value": 0.38, "low": 0.34, "high": 0.43}, or None
mean_over_seeds([run, run, run], TRAINED)

For intervals over seeds and rows a column also reads the figure of each held-out row:

    correct = of_samples("trained", attrgetter("is_correct"))
    correct(run)                       # {"row id": 0.25, ...}: of each row the mean over its sampled completions
    align([run, run, run], correct)    # (3, rows), or None if a run lacks them

A run that lacks what is asked for, such as one without samples.jsonl, gives {}.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from rlhf_exp.analysis.report.page import TEXTS, Table
from rlhf_exp.analysis.stats import DIFFERENCES, LEVELS, SHARES, Interval, Kind, crossed_interval, exact, mean_interval
from rlhf_exp.runs.figures import Figure, number, percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.records import Completion

ByRow = dict[str, float]
Reader = Callable[[Run], ByRow]
FEWEST = 2
"""Rows that runs must share for an interval."""


class Column(NamedTuple):
    """One figure.

    Attributes:
        write, write_difference: the figure, and a difference of it, as text.
        rows: reads the same figure of each held-out row; None of a figure that rows do not have.
        start: reads it of each row for the start model.
        kind: of its mean over seeds and rows; None for Student's t over seeds.
    """

    name: str
    read: Callable[..., Any]
    write: Callable[[Any], str] = str
    write_difference: Callable[[Figure], str] = lambda figure: ""
    rows: Reader | None = None
    start: Reader | None = None
    kind: Kind | None = LEVELS

    def cell(self, thing: Any) -> str:
        """The figure of `thing` as text; - if there is none."""
        found = self.read(thing)
        return "-" if found is None else self.write(found)


def at(*key: str) -> Callable[[Any], Any]:
    """Returns a function that reads the value at a path of nested records and mappings; None if a name is missing."""

    def read(found: Any) -> Any:
        for name in key:
            found = found.get(name) if isinstance(found, dict) else getattr(found, name, None)
        return found

    return read


def fill(columns: Sequence[Column], things: Iterable[Any]) -> Table:
    """A table with a row for each thing."""
    return Table([column.name for column in columns], [[column.cell(thing) for column in columns] for thing in things])


def join_notes(columns: Iterable[Column]) -> str:
    """What the figures of `columns` are."""
    return " ".join(TEXTS["figures"][column.name] for column in columns if column.name in TEXTS["figures"])


def of_samples(which: str, read: Callable[[Completion], float | None]) -> Reader:
    """Of each row the mean of `read` over its sampled completions; {} if one of them lacks what it reads."""
    return lambda run: _average((one.id, read(one)) for one in run.sampled(which))


def of_both(read: Callable[[Completion], float | None]) -> tuple[Reader, Reader]:
    """`of_samples` of the start model and of the trained one."""
    return of_samples("baseline", read), of_samples("trained", read)


def of_pairs(which: str) -> Reader:
    """Of each held-out pair whether it is right."""
    return lambda run: _average((pair.id, pair.is_right) for pair in run.preferences if pair.which == which)


def of_accuracy(which: str) -> Reader:
    """Of each held-out pair whether a reward model ranks it rightly; for a policy of each row whether it is solved."""
    ranked, solved = of_pairs(which), of_samples(which, lambda one: None if one.outcome is None else one.is_correct)
    return lambda run: ranked(run) if run.trains_scorer else solved(run)


def subtract(after: Reader, before: Reader) -> Reader:
    """The difference on each row that both have."""

    def read(run: Run) -> ByRow:
        first, second = after(run), before(run)
        return {name: value - second[name] for name, value in first.items() if name in second}

    return read


def read_wins(run: Run) -> ByRow:
    """Of each row the share of its completions, the i-th against the i-th, whose reward rose; a tie is one half."""
    before, after = (
        {(one.id, one.sample): one.reward for one in run.sampled(which)} for which in ("baseline", "trained")
    )
    both: list[tuple[str, Any, Any]] = [(key[0], reward, after[key]) for key, reward in before.items() if key in after]
    if any(None in rewards for _, *rewards in both):
        return {}
    return _average((row, (np.sign(new - old) + 1) / 2) for row, old, new in both)


def align(runs: list[Run], read: Reader) -> np.ndarray | None:
    """(runs, rows) of the rows that all runs have, in the order of the first; None if these are fewer than two."""
    return stack([read(run) for run in runs])


def stack(by_run: Sequence[Mapping[str, Any]]) -> np.ndarray | None:
    """As `align`, from rows that were read."""
    shared = [name for name in by_run[0] if all(name in rows for rows in by_run)] if by_run else []
    return np.array([[rows[name] for name in shared] for rows in by_run]) if len(shared) >= FEWEST else None


def list_columns(runs: list[Run], columns: Sequence[Column]) -> list[Column]:
    """The columns for which some of these runs have a figure."""
    return [column for column in columns if any(map(column.read, runs))]


def mean_over_seeds(group: list[Run], column: Column) -> Interval | None:
    """The mean over a group's runs. A figure of held-out rows has an interval over seeds, rows and sampling, if every
    run holds it for each row; a cost has a t interval over seeds; one seed has none. The start model, measured once for
    all of them, keeps the interval over its held-out rows."""
    read = [(run, figure) for run in group if (figure := column.read(run))]
    if not read:
        return None
    runs, figures = map(list, zip(*read, strict=True))
    if column is BASELINE and all(figure == figures[0] for figure in figures):
        return figures[0]
    values = [figure["value"] for figure in figures]
    if column.kind is None or len(runs) == 1 or None in values:
        return mean_interval([value for value in values if value is not None] or [float("nan")])
    rows = align(runs, column.rows) if column.rows else None
    return exact(sum(values) / len(values)) if rows is None else crossed_interval(rows, column.kind)


def _average(values: Iterable[tuple[str, float | None]]) -> ByRow:
    """The mean of each row; {} if a value is None."""
    of_row: dict[str, list[float]] = {}
    for name, value in values:
        if value is None:
            return {}
        of_row.setdefault(name, []).append(float(value))
    return {name: sum(found) / len(found) for name, found in of_row.items()}


def _figure(name: str, path: str, rows: Reader, start: Reader | None = None, form: str = "%") -> Column:
    """A figure of evaluation.json, of runs whose trained model was measured: a share, or a level in another form."""

    def read(run: Run) -> Interval | None:
        return at(*path.split("."))(run.evaluation) if run.evaluation.trained else None

    if form == "%":
        return Column(name, read, percent, points, rows, start, SHARES)
    return Column(name, read, number(form), number(f"+{form}"), rows, start, LEVELS)


def _outcome(name: str) -> Column:
    """The share of completions with an outcome, of runs whose trained model was graded."""
    before, after = of_both(lambda one: None if one.outcome is None else one.outcome == name)

    def read(run: Run) -> Interval | None:
        rows = after(run)
        return crossed_interval(np.array([[*rows.values()]]), SHARES) if rows else None

    return Column(name, read, percent, points, after, before, SHARES)


def _read_used(run: Run) -> Interval | None:
    """Of the budget of a completion."""
    share = at("trained", "utilisation")(run.evaluation)
    return None if share is None else exact(share)


def _read_used_by_row(run: Run) -> ByRow:
    return {row: tokens / (run.info.max_tokens or 1) for row, tokens in LENGTH(run).items()}


def _cost(name: str, spec: str, path: str, per_update: bool = False) -> Column:
    """A value in run.json, of a run that trained."""

    def read(run: Run) -> Interval | None:
        steps, found = run.info.steps, at(*path.split("."))(run.info)
        return exact(found / (steps if per_update else 1)) if steps and found is not None else None

    return Column(name, read, number(spec), kind=None)


CORRECT_BEFORE, CORRECT = of_accuracy("baseline"), of_accuracy("trained")
REWARDED_BEFORE, REWARDED = of_both(attrgetter("reward"))
LENGTH_BEFORE, LENGTH = of_both(attrgetter("tokens"))
DIVERGENCE_BEFORE, DIVERGENCE = of_both(attrgetter("kl"))
CUT_BEFORE, CUT = of_both(attrgetter("truncated"))
LENIENT_BEFORE, LENIENTLY = of_both(attrgetter("lenient"))

BASELINE = _figure("baseline", "baseline.accuracy", CORRECT_BEFORE)
TRAINED = _figure("trained", "trained.accuracy", CORRECT, CORRECT_BEFORE)
GAINED = subtract(CORRECT, CORRECT_BEFORE)
DIFFERENCE = _figure("difference", "paired.difference", GAINED)._replace(write=points, kind=DIFFERENCES)
IMPLICIT = _figure("implicit", "trained.preference.accuracy", of_pairs("trained"), of_pairs("baseline"))
WIN_RATE = _figure("win rate", "paired.win_rate", read_wins)
REWARD = _figure("reward", "trained.reward.mean", REWARDED, REWARDED_BEFORE, ".3f")
TOKENS = _figure("tokens", "trained.mean_tokens", LENGTH, LENGTH_BEFORE, ".1f")
KL = _figure("KL", "trained.kl.mean", DIVERGENCE, DIVERGENCE_BEFORE, ".2f")
TRUNCATION = _figure("truncated", "trained.truncation_rate", CUT, CUT_BEFORE)
LENIENT = _figure("lenient accuracy", "trained.lenient_accuracy", LENIENTLY, LENIENT_BEFORE)
USED = Column("budget used", _read_used, percent, rows=_read_used_by_row, kind=SHARES)
"""Shown where budgets differ."""
PARTIAL, FAILED = _outcome("partial"), _outcome("failed")

MEASURED = (DIFFERENCE, TRAINED, BASELINE, LENIENT, IMPLICIT, WIN_RATE, REWARD, TOKENS, KL)
"""Of one run, and over seeds; the difference first, which a narrow screen shows."""

SHORT = (DIFFERENCE, TRAINED, WIN_RATE, REWARD, KL)
"""Those for which a terminal has room."""

RANKING = (TRAINED, REWARD)
"""Settings are sorted by the first of these that they have."""

TESTED = {
    "held-out accuracy": TRAINED, "reward": REWARD, "truncation": TRUNCATION, "partial answers": PARTIAL,
    "failed answers": FAILED, "tokens": TOKENS, "KL": KL,
}  # fmt: skip
"""In what settings are tested, as sentences call it."""

COST, PASSES, MEMORY = ([_cost(*figure) for figure in TEXTS["sections"][name]] for name in ("cost", "passes", "memory"))

PARTS = {
    "Cost": COST,
    "Memory while training, MB": MEMORY,
    "Forward passes per update": PASSES,
}
"""Tables of settings with headings of their own."""
