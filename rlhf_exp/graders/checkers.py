"""Checkers of task=file: is a completion the right answer of its row?

    grade = build_checker(cfg.task)     # a ready checker, or the user's FILE.py:FUNCTION
    grade("4", {"id": "7", "prompt": "What is 2 + 2?", "answer": "4"})      # Grade("correct", 1.0, "4")

| checker | the answer column holds | what is read of a completion |
|---|---|---|
| exact | a text, or a number | all of it, without the white space around it; of a number the value |
| numeric | a number | `#### 4`, a box or <answer>, else its last number (gsm8k.py) |
| math | a number or an expression of LaTeX | a box, <answer> or the last line, by value (expressions.py) |
| choice | a letter, or its place from 0 on | `The answer is (B)`, a box, `B) ...`: see choices.py |
| regex | a text | the group of the last match of `task.pattern` |

The user's function takes (completion, row), the row with all its columns, and returns a bool, a number in [0, 1] (1 is
correct, 0 is failed, the others are partial) or a Grade.
"""

import copy
import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any

from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError, refusing, show
from rlhf_exp.forms import Row
from rlhf_exp.graders import PASSED, Grade, NumberGrade, Outcome, compare, expressions, gsm8k, keep_end, write_answer
from rlhf_exp.graders.choices import read_choice
from rlhf_exp.graders.user_code import RewardError, confine, describe_value, import_function, watch

Checker = Callable[..., Grade]
"""A function of (completion, row)."""

PLAIN_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,9})?")
GOLD = re.compile(r"(?i:(?:the )?(?:correct )?(?:option|choice|answer)(?: is)?:? )?[(\[*]*([A-Za-z])[)\].:*]*")

AsRead = Mapping[str, tuple[str, Row]]
"""Rows by id as they stood in their file, before a table gave each column one type and every row all columns: each with
its place."""


def build_checker(task: Any, read: AsRead | None = None) -> Checker:
    """The grader of `task`, the keys of task=file. A function of the user's sees the rows in `read`.

    Raises:
        ConfigError: a file or function that cannot be used.
    """
    if task.ready_checker is None:
        key, where = f"{task.place}.checker={task.checker}", task.checker or ""
        return guard(import_function(where, key), key, where.rpartition(":")[0], read)
    (check, _), column = CHECKS[task.ready_checker], task.answer_column or ""
    check = partial(check, pattern=re.compile(task.pattern)) if task.pattern else check
    return lambda completion, row: check(keep_end(completion), row[column])


def check_answer(task: Any, answer: Any, place: str) -> None:
    """Refuse an answer with which a ready checker cannot compare.

    Raises:
        ConfigError: the answer is such a one; the line begins with `place`.
    """
    if task.ready_checker and isinstance(answer, list | dict | bytes | bool):
        way = f"for anything else write a checker, {task.place}.checker=FILE.py:FUNCTION"
        raise ConfigError([f"{place} must hold one text or number, got {show(answer, 40)}; {way}"])
    with refusing(f"{place} cannot be compared by the checker, got {show(answer, 40)}", ValueError):
        CHECKS.get(task.ready_checker, (None, str))[1](answer)


def check_exact(completion: str, answer: Any) -> Grade:
    text = completion.strip()
    return compare(_is_same(text, answer), text or None, wrong="failed")


def check_numeric(completion: str, answer: Any) -> Grade:
    grade = gsm8k.grade(completion, write_answer(answer))
    return compare(grade.lenient, grade.extracted)


def check_choice(completion: str, answer: Any) -> Grade:
    found = read_choice(completion)
    return compare(found == _read_gold_choice(answer), found)


def check_regex(completion: str, answer: Any, pattern: re.Pattern[str]) -> Grade:
    matches = [match[pattern.groups] for match in pattern.finditer(completion)]
    found = (matches[-1] or "").strip() if matches else None
    return compare(found is not None and _is_same(found, answer), found)


def _is_same(text: str, answer: Any) -> bool:
    """Whether this is the answer: the same text, or of a number the same value, since a table makes 4.0 of 4, and JSON
    2e-05 of 0.00002."""
    is_number = isinstance(answer, int | float | Decimal) and PLAIN_NUMBER.fullmatch(text)
    return Decimal(text) == Decimal(str(answer)) if is_number else text == str(answer).strip()


def _read_gold_choice(answer: Any) -> str:
    text = write_answer(answer).strip()
    place = text.strip("()").removesuffix(".0")
    if place.isascii() and place.isdigit() and int(place) < 26:
        return chr(ord("A") + int(place))
    letter = GOLD.fullmatch(text)
    if letter is None:
        raise ValueError("not a letter from A to Z, or its place from 0 on")
    return letter[1].upper()


CHECKS: dict[str, tuple[Checker, Callable[[Any], object]]] = {
    "exact": (check_exact, str),
    "numeric": (check_numeric, lambda answer: gsm8k.read_gold(write_answer(answer))),
    "math": (expressions.grade, expressions.read_gold),
    "choice": (check_choice, _read_gold_choice),
    "regex": (check_regex, str),
}
"""Each ready checker, a function of (completion, answer), and how it reads an answer, which raises ValueError."""


def guard(function: Callable[..., Any], key: str, file: str, read: AsRead | None = None) -> Checker:
    """The user's function, of that file, with its result as a Grade. A problem in the first call, before training, is
    refused in one line; later problems fail the run, whose folder is kept."""
    read, returned_well = read or {}, False

    def grade(completion: str, row: Row) -> Grade:
        nonlocal returned_well
        own, place = row.get("id", ""), ""
        if own in read:
            place, columns = f" ({read[own][0]})", read[own][1]
            row = {name: row[name] for name in ("id", "prompt") if name in row} | columns
        seen = {name: value for name, value in row.items() if name not in PASSED}
        where = f"on row {own}{place} with completion {completion[:60]!r}"
        described = f"{key}, {where},"
        try:
            with confine(described, file), watch(described):
                result = _read_result(function(completion, copy.deepcopy(seen)))
        except RewardError as error:
            line = f"{key}: {error}, {where}"
            name = next(iter(error.__cause__.args), None) if isinstance(error.__cause__, KeyError) else None
            if isinstance(name, str) and name not in seen:
                line += f"; its columns are {', '.join(map(str, seen))}{suggest(name, seen)}"
            if returned_well:
                raise RewardError(line) from error.__cause__
            raise ConfigError([line]) from None
        returned_well = True
        return result

    return grade


def _read_result(found: Any) -> Grade:
    graded = isinstance(found, Grade)
    score = found.score if graded else found
    score = score.item() if hasattr(score, "item") else score
    is_number = isinstance(score, Real)
    if is_number and math.isfinite(score) and 0 <= score <= 1:
        outcome: Outcome = "partial" if score else "failed"
        if score == 1:
            outcome = "correct"
        if not graded:
            return NumberGrade(outcome, float(score), None)
        if found.outcome == outcome and isinstance(found.extracted, str | None):
            return dataclasses.replace(found, score=float(score))
    must = "must be a bool, a number in [0, 1] or a Grade of an outcome, its score and a text or None"
    raise RewardError(f"returned {describe_value(found)}, {must}")
