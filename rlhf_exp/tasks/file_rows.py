"""What is made of the rows of a file with any columns: prompts, answers, splits, ids, and a table of the columns.

    rows = [FileRow("train", "a.csv, line 2", {"q": "What is 2 + 2?", "good": "It is 4."})]
    fill_in(rows[0], [("", "q")], ["good"])
    rows[0].prompt, rows[0].answers      # "What is 2 + 2?", {"good": "It is 4."}

tasks/file.py reads the rows.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rlhf_exp.config.values import show, suggest
from rlhf_exp.errors import ConfigError, refusing
from rlhf_exp.graders import PASSED
from rlhf_exp.tasks.splits import hash_text, split_of, split_within
from rlhf_exp.tasks.texts import Row, Text, are_messages, as_messages, validate_characters, validate_prompt

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+)?(?:[eE][-+][0-9]{1,2})?")
"""A number that could be no name: without leading zeros, a plus, separators, or more digits than a float holds."""

Fields = list[tuple[str, str | None]]
"""Texts of a template, each with the column that follows it."""


@dataclass
class FileRow:
    """A row: `part` is its split by the name that the folder or the data set has for it, None of a single file;
    `untyped` says that all its values are texts since the file has no types. The others are made of the columns:

    Attributes:
        answers: the texts to learn from, by column.
        key: decides the split.
        id: that of the file, or a hash of the prompt, so that it is the same whatever learns from the row.
    """

    part: str | None
    where: str
    columns: Row
    untyped: bool = False
    prompt: Text = ""
    answers: dict[str, str] = field(default_factory=dict)
    key: str = ""
    split: str = ""
    id: str = ""

    @property
    def prompt_key(self) -> str:
        """The same for a text and for one message of the user's that holds it."""
        return json.dumps(as_messages(self.prompt))


# Columns


def check_columns(rows: Sequence[FileRow], named: dict[str, str], every: bool = True) -> None:
    """Refuse rows without a value in a column that a key names; with `every=False` only if no row has one.

    Args:
        named: the columns, each with the key that names it.

    Raises:
        ConfigError: a line for each column, with the first row that lacks it and their number.
    """
    if not rows:
        raise ConfigError(["task=file: the source holds no row"])
    problems = []
    for name, key in named.items():
        lacking = [row.where for row in rows if _is_missing(row.columns.get(name))]
        if lacking and (every or len(lacking) == len(rows)):
            line = f"{key}: {lacking[0]} holds no {name} ({len(lacking):,} of {len(rows):,} rows)"
            there = rows[0].columns
            near = "" if name in there else suggest(name, there)
            problems.append(f"{line}; the columns are {', '.join(map(str, there))}{near}")
    if problems:
        raise ConfigError(problems)


def _is_missing(value: Any) -> bool:
    """None, an empty text as CSV has it, or NaN as parquet has it."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def read_numbers(rows: list[FileRow], texts: set[str | None]) -> list[str]:
    """Turn columns of CSV files whose values are all numbers or empty into numbers, other than those of `texts`; an
    empty one is left out. Returns the names of such columns."""
    found: set[str] = set()
    others = set(texts)
    for row in rows:
        for name, value in row.columns.items():
            if row.untyped and NUMBER.fullmatch(value.strip()):
                found.add(name)
            elif value.strip() if row.untyped else isinstance(value, str):
                others.add(name)
    numbers = found - others
    for row in rows:
        if row.untyped and numbers:
            given = {name: value for name, value in row.columns.items() if name not in numbers or value.strip()}
            row.columns = {name: json.loads(text.strip()) if name in numbers else text for name, text in given.items()}
    return sorted(numbers)


def tabulate(rows: list[FileRow], source: str) -> tuple[list[Row], dict[str, int]]:
    """The columns of each row with values as a table holds them: TRL makes a table of the rows to train on, and what is
    measured must not differ from it (4 and 2.5 become 4.0 and 2.5). How many rows have no value in a column, by the
    column.

    Raises:
        ConfigError: a column with values of several types.
    """
    import pyarrow

    table, gaps = {}, {}
    for name in dict.fromkeys(name for row in rows for name in leave_out(row.columns)):
        told = f"{source}: the column {name} cannot be held by a table, which has one type for all of its values"
        with refusing(told, pyarrow.ArrowException, OverflowError, TypeError, ValueError):
            table[name] = pyarrow.array([row.columns.get(name) for row in rows]).to_pylist()
        if missing := sum(map(_is_missing, table[name])):
            gaps[name] = missing
    return [{name: values[place] for name, values in table.items()} for place in range(len(rows))], gaps


def leave_out(columns: Row) -> Row:
    """The columns without those that are rows' own, or have another meaning in training."""
    return {name: value for name, value in columns.items() if name not in ("id", "prompt", *PASSED)}


# Prompts and answers


def fill_in(row: FileRow, fields: Fields, names: Sequence[str]) -> bool:
    """Make the prompt and the answers of a row.

    Args:
        fields: of the template; [] for the column `prompt` as it is, or for the messages before the answers.
        names: the columns of the answers.

    Returns:
        False if its answers have different histories.
    """
    prompt: Any = row.columns.get("prompt")
    if fields:
        values = {name: _write_value(row, name) for _, name in fields if name}
        prompt, row.key = "".join(text + values.get(name or "", "") for text, name in fields), json.dumps(values)
    histories = [history for name in names if (history := _read_answer(row, name))]
    if any(history != histories[0] for history in histories):
        return False
    row.prompt = _join_history(row, prompt, histories[0]) if histories else prompt
    validate_prompt(row.prompt, row.where)
    row.key = row.key or row.prompt_key
    return True


def _write_value(row: FileRow, name: str) -> str:
    """The value of a column as a text: a number or a date as JSON has it, a list of them too."""
    value = row.columns[name]
    kinds = {type(item) for item in value} if isinstance(value, list) else {type(value)}
    if kinds & {dict, list, bytes}:
        raise ConfigError([f"{row.where}: {name}, a column of prompt_template, must be a text, got {show(value)}"])
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str).strip('"')


def _read_answer(row: FileRow, name: str) -> list[dict[str, str]]:
    """Read the text of a column to learn from into `row.answers`. Of TRL's conversational format the last message is
    the answer, and what stands before it, the history, is returned."""
    place, value, history = f'{row.where}: "{name}"', row.columns[name], []
    if are_messages(value, last="assistant"):
        *history, answer = value
        value = answer["content"]
    elif not isinstance(value, str):
        form = "a text, or messages with a role and a text each, of which the last is the assistant's"
        raise ConfigError([f"{place} must be {form}, got {show(value, 60)}"])
    validate_characters(value, place)
    row.answers[name] = value
    return history


def _join_history(row: FileRow, prompt: Any, history: list[dict[str, str]]) -> Any:
    """The row's prompt, or where it has none, or goes on in its answers, their history, as TRL's `extract_prompt` makes
    it. The history must begin with the prompt; a system's message before it may be left out."""
    given = as_messages(prompt)
    if given is None or not are_messages(given):  # other prompts are refused later
        return history if given is None else prompt
    begun = history[1:] if history[0]["role"] == "system" != given[0]["role"] else history
    if [m["content"].strip() for m in begun[: len(given)]] != [m["content"].strip() for m in given]:
        way = "leave out the prompt (the column, or prompt_template), and the history is the prompt"
        raise ConfigError([f"{row.where}: its answers do not begin with the messages of its prompt; {way}"])
    return history if len(history) > len(given) else prompt


# Splits and ids


def divide(rows: list[FileRow]) -> None:
    """Decide the split of each row, which is the same for all rows of a prompt.

    Raises:
        ConfigError: the source has a prompt in two splits.
    """
    parts, first_of = {row.part for row in rows}, dict[str, FileRow]()
    for row in rows:
        row.split = row.part or split_of(row.key)
        if row.part == "train" and "test" not in parts:
            row.split = "test" if split_of(row.key) == "test" else "train"
        elif row.part == "train" and "validation" not in parts:
            row.split = split_within(row.key, row.part)
        first = first_of.setdefault(row.prompt_key, row)
        if first.split != row.split and row.part is not None:
            two = f"{first.where} ({first.split}) and {row.where} ({row.split})"
            raise ConfigError([f"{two} have one prompt; leave each prompt in one split"])
        row.split = first.split


def drop_repeated(rows: list[FileRow], pair: Sequence[str], counts: dict[str, int]) -> list[FileRow]:
    """The rows without those that teach nothing new, which are counted; `pair` are the columns of a pair, if any."""
    distinct: dict[str, FileRow] = {}
    for row in rows:
        if pair and len({row.answers[name] for name in pair}) == 1:
            counts["with equal answers"] += 1
            continue
        first = distinct.setdefault(json.dumps([row.prompt_key, *row.answers.values()]), row)
        if first is not row:
            counts["repeated" if first.columns == row.columns else "repeated with other columns"] += 1
    return list(distinct.values())


def name_rows(rows: list[FileRow]) -> None:
    """Give the rows ids that differ.

    Raises:
        ConfigError: the column `id` of two rows of a split is the same.
    """
    seen, places = Counter[str](), dict[tuple[str, str], FileRow]()
    for row in rows:
        given = row.columns.get("id")
        own = str(given) if given is not None else hash_text(json.dumps([row.prompt_key]))
        seen[own] += 1
        row.id = f"{own} #{seen[own]}" if seen[own] > 1 and given is None else own
        first = places.setdefault((row.split, row.id), row)
        if first is not row:
            raise ConfigError([f"{row.where}: has the id {row.id} of {first.where}; ids must differ, or be left out"])
    if len({row.id for row in rows}) < len(rows):  # the ids of each split begin anew
        for row in rows:
            row.id = f"{row.split} {row.id}"
