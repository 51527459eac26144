"""Calls the user's checker once for every row, with an empty completion, before anything is sampled.

notes = try_checker(cfg.task, grade, rows, numbers=["target"])      # what the user should know, one line each
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from tqdm.auto import tqdm

from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.checkers import Checker
from rlhf_exp.graders.user_code import RewardError
from rlhf_exp.tasks import Row, name_source
from rlhf_exp.tasks.file.schema import Keys

SECONDS = 5.0
"""The most time that is spent, since a checker can be slow."""


def try_checker(task: Keys, grade: Checker, rows: Sequence[Row], numbers: Sequence[str]) -> list[str]:
    """Refuse a checker that cannot grade a row, or that compares with a text what was read as a number.

    Args:
        grade: the user's function, guarded (checkers.py).
        rows: of all splits. One of each combination of columns with a value comes first.
        numbers: the columns of CSV files that hold numbers.

    Raises:
        ConfigError: so it is.
    """
    firsts = {frozenset(name for name, value in row.items() if value is None): row for row in reversed(rows)}.values()
    chosen = {id(row) for row in firsts}
    rows = [*firsts, *(row for row in rows if id(row) not in chosen)]
    key, tried, start = f"task.checker={task.checker}", 0, time.monotonic()
    for row in tqdm(rows, desc="trying the checker", unit="row", leave=False, delay=2):
        if tried and time.monotonic() - start > SECONDS:
            break
        try:
            grade("", row)
        except RewardError as error:
            raise ConfigError([str(error)]) from error.__cause__
        tried += 1
    notes = []
    if tried < len(rows):
        notes.append(f"{key}: tried on {tried:,} of {len(rows):,} rows in {SECONDS:g} s; on others it may still fail")
    for name in _list_compared(grade, rows[: min(tried, len(firsts))]):
        line = f"compares {name}, which holds numbers, with a text: never equal; use str(row[{name!r}])"
        if name in numbers:  # where a text is a number only because it was read as one
            raise ConfigError([f"{key}: {line} ({name_source(task)} is CSV, whose numbers are read as numbers)"])
        notes.append(f"{key}: {line}")
    return notes


def _list_compared(grade: Checker, rows: Sequence[Row]) -> list[str]:
    """The columns of numbers that the checker compares with texts."""
    seen: dict[str, None] = {}
    for row in rows:
        grade("", row, look=lambda name, value: WATCHED.get(type(value), _pass)(value, partial(seen.setdefault, name)))
    return list(seen)


def _pass(value: Any, tell: Any) -> Any:
    return value


def _watch(kind: type) -> type:
    """A number that tells when it is compared with a text."""

    class Watched(kind):
        def __new__(cls, value: Any, tell: Any) -> Any:
            made = super().__new__(cls, value)
            made.tell = tell
            return made

        def __eq__(self, other: object) -> bool:
            if isinstance(other, str):
                self.tell()
            return kind.__eq__(self, other)

        def __ne__(self, other: object) -> bool:
            return not self == other

        __hash__ = kind.__hash__

    return Watched


WATCHED = {kind: _watch(kind) for kind in (int, float)}
