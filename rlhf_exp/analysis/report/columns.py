"""The columns of every table: how a figure is read, written and explained; here those of a comparison of runs.

>>> STEPS = Column("steps", at("work", "steps"), "{:,}".format)
>>> STEPS.cell({"work": {"steps": 1200}})
'1,200'

TRAINED.read(run)  ->  {"value": 0.38, "low": 0.34, "high": 0.43}, or None
mean_over_seeds([run, run, run], TRAINED)

A column of a held-out figure also says which column of analysis/frame.py has it of each row, for intervals and tests
over seeds and rows.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from rlhf_exp.analysis.frame import list_own, read, stack
from rlhf_exp.analysis.report.page import TEXTS, Table
from rlhf_exp.analysis.stats import (
    DIFFERENCES,
    LEVELS,
    SHARES,
    SIZES,
    Interval,
    Kind,
    as_interval,
    crossed_interval,
    exact,
    mean_interval,
)
from rlhf_exp.runs.figures import Figure, number, percent, points
from rlhf_exp.runs.load import Run


class Column(NamedTuple):
    """One figure.

    Attributes:
        write, write_difference: the figure, and a difference of it, as text.
        rows: the figure's name in the table of held-out rows; None of a figure that rows do not have.
        model: whose figure it is there.
        has_start: whether the start model has it too.
        kind: of its mean over seeds and rows; None for Student's t over seeds.
    """

    name: str
    read: Callable[..., Any]
    write: Callable[[Any], str] = str
    write_difference: Callable[[Figure], str] = lambda figure: ""
    rows: str | None = None
    model: str = "trained"
    has_start: bool = False
    kind: Kind | None = LEVELS

    def cell(self, thing: Any) -> str:
        """The figure of `thing` as text; - if there is none."""
        found = self.read(thing)
        return ("" if found is None else self.write(found)) or "-"


def at(*key: str) -> Callable[[Any], Any]:
    """Returns a function that reads the value at a path of nested records and mappings; None if a name is missing."""

    def read_path(value: Any) -> Any:
        for name in key:
            value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
        return value

    return read_path


def fill(columns: Sequence[Column], things: Iterable[Any]) -> Table:
    """A table with a row for each thing."""
    return Table([column.name for column in columns], [[column.cell(thing) for column in columns] for thing in things])


def join_notes(columns: Iterable[Column]) -> str:
    """What the figures of `columns` are."""
    return " ".join(TEXTS["figures"][column.name] for column in columns if column.name in TEXTS["figures"])


def list_columns(runs: list[Run], columns: Sequence[Column]) -> list[Column]:
    """The columns for which some of these runs have a figure."""
    return [column for column in columns if any(map(column.read, runs))]


def mean_over_seeds(group: list[Run], column: Column) -> Interval | None:
    """The mean over a group's runs. A figure of held-out rows has an interval over seeds, rows and sampling, if every
    run holds it for each row; a cost has a t interval over seeds; one seed has none. The start model, measured once for
    all of them, keeps the interval over its held-out rows."""
    measured = [(run, figure) for run in group if (figure := column.read(run))]
    if not measured:
        return None
    runs, figures = map(list, zip(*measured, strict=True))
    if column is BASELINE and all(figure == figures[0] for figure in figures):
        return figures[0]
    values = [figure["value"] for figure in figures]
    if column.kind is None or len(runs) == 1 or None in values:
        found = mean_interval([value for value in values if value is not None] or [float("nan")])
    else:
        rows = stack(runs, column.model, column.rows) if column.rows else None
        found = exact(sum(values) / len(values)) if rows is None else crossed_interval(rows, column.kind)
    if (column.kind in (None, SIZES) or column is TOKENS) and found["low"] is not None:  # never below 0
        found = as_interval(found["value"], max(found["low"], 0.0), found["high"])
    return found


def _figure(name: str, path: str, rows: str, form: str = "%", has_start: bool = True) -> Column:
    """A figure of evaluation.json, of runs whose trained model was measured: a share, or a level in another form."""

    def read_figure(run: Run) -> Interval | None:
        return at(*path.split("."))(run.evaluation) if run.evaluation.trained else None

    if form == "%":
        return Column(name, read_figure, percent, points, rows, has_start=has_start, kind=SHARES)
    return Column(name, read_figure, number(form), number(f"+{form}"), rows, has_start=has_start)


def _of_rows(rows: str, kind: Kind = SHARES) -> Column:
    """A figure that only the table of held-out rows has: a share, or a level."""

    def read_mean(run: Run) -> Interval | None:
        return average(run, "trained", rows, kind)

    name = rows.removesuffix(" answers")
    writers = (percent, points) if kind is SHARES else (number(".3f"), number("+.3f"))
    return Column(name, read_mean, *writers, rows, has_start=True, kind=kind)


def average(run: Run, model: str, rows: str, kind: Kind = LEVELS) -> Interval | None:
    """The mean of a figure over a run's held-out rows."""
    found = read(run, model, rows)
    return None if found is None else crossed_interval(found.to_numpy()[None], kind)


def list_rewards(runs: Iterable[Run]) -> list[Column]:
    """A column for each reward of the user's own."""
    return [_of_rows(name, LEVELS) for name in dict.fromkeys(name for run in runs for name in list_own(run))]


def _read_used(run: Run) -> Interval | None:
    """The share of the budget that completions use."""
    share = at("trained", "utilisation")(run.evaluation)
    return None if share is None else exact(share)


def _cost(name: str, spec: str, path: str, per_update: bool = False) -> Column:
    """A value in run.json, of a run that trained."""

    def read_cost(run: Run) -> Interval | None:
        steps, value = run.info.steps, at(*path.split("."))(run.info)
        return exact(value / (steps if per_update else 1)) if steps and value is not None else None

    return Column(name, read_cost, number(spec), kind=None)


TRAINED = _figure("trained", "trained.accuracy", "accuracy")
BASELINE = _figure("baseline", "baseline.accuracy", "accuracy")._replace(model="baseline")
DIFFERENCE = _figure("difference", "paired.difference", "accuracy")._replace(
    model="gain", write=points, kind=DIFFERENCES
)
REWARD_GAIN = _figure("reward gain", "paired.reward.mean", "reward", "+.3f")._replace(model="gain")
IMPLICIT = _figure("implicit", "trained.preference.accuracy", "implicit")
WIN_RATE = _figure("win rate", "paired.win_rate", "win rate", has_start=False)
REWARD = _figure("reward", "trained.reward.mean", "reward", ".3f")
TOKENS = _figure("tokens", "trained.mean_tokens", "tokens", ".1f")
KL = _figure("KL", "trained.kl.mean", "KL", ".2f")._replace(kind=SIZES)
TEACHER_KL = _figure("KL to the teacher", "trained.kl_teacher.mean", "KL to the teacher", ".2f")._replace(kind=SIZES)
TRUNCATION = _figure("truncated", "trained.truncation_rate", "truncation")
LENIENT = _figure("lenient accuracy", "trained.lenient_accuracy", "lenient accuracy")
USED = Column("budget used", _read_used, percent, rows="budget used", kind=SHARES)
"""Shown where budgets differ."""
PARTIAL, FAILED = _of_rows("partial answers"), _of_rows("failed answers")

MEASURED = (DIFFERENCE, TRAINED, BASELINE, LENIENT, IMPLICIT, WIN_RATE, REWARD, TOKENS, KL, TEACHER_KL)
"""Of one run, and over seeds; the difference first, which a narrow screen shows."""

SHORT = (DIFFERENCE, TRAINED, WIN_RATE, REWARD, KL)
"""Those for which a terminal has room."""

HELD_OUT = (TRAINED, LENIENT, REWARD, TOKENS, KL, TRUNCATION, PARTIAL, FAILED)
"""Those that the start model has too."""

RANKING = (TRAINED, REWARD)
"""Settings are sorted by the first of these that they have."""

GAINS = {"trained": DIFFERENCE, "reward": REWARD_GAIN}
"""The gain over the start model in each of them."""

TESTED = {
    "held-out accuracy": TRAINED, "reward": REWARD, "truncation": TRUNCATION, "partial answers": PARTIAL,
    "failed answers": FAILED, "tokens": TOKENS, "KL": KL,
}  # fmt: skip
"""In what settings are tested, as sentences call it."""

COST, PASSES = ([_cost(*figure) for figure in TEXTS["sections"][name]] for name in ("cost", "passes"))

PARTS = {
    "Cost": COST,
    "Forward passes per update": PASSES,
}
"""Tables of settings with headings of their own."""
