"""The columns of rows: which values are missing, which of a CSV file are numbers, and what a table makes of them.

numbers = find_numbers(task, rows)            # of CSV files, in which every value is a text: {"target"}
convert(rows[0].row, numbers)                 # {"question": "2 + 2?", "target": 4}
table, absent, whole = tabulate(columns)      # all rows with the same columns, each of one type
"""

import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks.file.parts import Found
from rlhf_exp.tasks.file.schema import Keys
from rlhf_exp.tasks.schema import PASSED

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+)?(?:[eE][-+][0-9]{1,2})?")
"""A number that could be no name: without leading zeros, a plus, separators, or more digits than a float holds."""

Row = dict[str, Any]


class Table(NamedTuple):
    """Rows as a table holds them, and what it has changed in each: the columns that the row did not have, which are
    None in the table, and those of whole numbers that became floats."""

    rows: list[Row]
    absent: list[frozenset[str]]
    whole: list[frozenset[str]]


def is_missing(value: Any) -> bool:
    """None, an empty text as CSV has it, or NaN as parquet has it."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def refuse_missing(rows: Iterable[Found], named: dict[str, str]) -> None:
    """Refuse rows without a column that a key names; `named` says for each column which key that is.

    Raises:
        ConfigError: a line for each column, with the first row that lacks it and their number.
    """
    rows = list(rows)
    lacking = {name: [found.where for found in rows if is_missing(found.row.get(name))] for name in named}
    if any(lacking.values()):
        raise ConfigError(
            f"{places[0]}: holds no {name}, {named[name]} ({len(places):,} of {len(rows):,} rows)"
            for name, places in lacking.items()
            if places
        )


def find_numbers(task: Keys, rows: Iterable[Found]) -> frozenset[str]:
    """The columns of CSV files whose values are all numbers or empty, other than those that are texts by what they are
    for: the id, the prompt, the split, answers to learn from, and the answer of a ready checker."""
    texts = {"id", "prompt", task.split_column, *task.answers, task.answer_column if task.ready_checker else None}
    numbers: dict[str, bool] = {}  # whether any is not empty; without the columns that hold something else
    others = set(texts)
    for found in rows:
        for name, value in found.row.items():
            if name in others or not found.untyped and not isinstance(value, str):
                continue
            if found.untyped and (not value.strip() or _read_number(value) is not None):
                numbers[name] = numbers.get(name, False) or bool(value.strip())
            else:
                others.add(name)
    return frozenset(name for name, any_value in numbers.items() if any_value and name not in others)


def convert(row: Row, numbers: frozenset[str]) -> Row:
    """The row of a CSV file with its numbers as numbers, and without those that are empty."""
    read = {name: _read_number(value) if name in numbers else value for name, value in row.items()}
    return {name: value for name, value in read.items() if value is not None}


def tabulate(rows: list[Row], source: str) -> Table:
    """The rows with all columns, and with values as a table holds them: TRL makes a table of the rows to train on, and
    what is measured must not differ from it (4 and 2.5 become 4.0 and 2.5).

    Raises:
        ConfigError: a column with values of several types.
    """
    import pyarrow

    columns, whole = {}, [frozenset()] * len(rows)
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pyarrow.array(values).to_pylist()
        except (pyarrow.ArrowException, OverflowError, UnicodeError, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            told = f"the column {name} cannot be held by a table, which has one type for all of its values ({reason})"
            raise ConfigError([f"{source}: {told}"]) from None
        for i, (value, held) in enumerate(zip(values, columns[name], strict=True)):
            if isinstance(held, float) and isinstance(value, int):
                whole[i] |= {name}
    held = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return Table(held, [frozenset(columns.keys() - row.keys()) for row in rows], whole)


def list_gaps(table: Table, places: list[str], most: int = 5) -> tuple[dict[str, int], list[str]]:
    """How many rows have no value in a column, by the column; and a line for each of the first `most` columns."""
    gaps: dict[str, list[int]] = {}
    for i, row in enumerate(table.rows):
        for name, value in row.items():
            if name not in ("id", "prompt", *PASSED) and is_missing(value):
                gaps.setdefault(name, []).append(i)
    counts = {name: len(found) for name, found in gaps.items()}
    lines = []
    for name, found in list(gaps.items())[:most]:
        absent = f'; row["{name}"] raises KeyError there' if name in table.absent[found[0]] else ""
        lines.append(f"{places[found[0]]}: holds no {name} ({len(found):,} of {len(places):,} rows){absent}")
    more = [f"{len(gaps) - most} more columns are not in every row"] if len(gaps) > most else []
    return counts, lines + more


def _read_number(text: str) -> int | float | None:
    text = text.strip()
    if not NUMBER.fullmatch(text):
        return None
    return int(text) if text.lstrip("-").isdecimal() else float(text)
