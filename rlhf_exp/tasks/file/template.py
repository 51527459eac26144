"""The template of prompts: which columns it names, and their values as texts.

fields = parse_template(cfg.task, rows)      # [("Question: ", "question"), ("\\nAnswer:", None)]
write(rows[0].row, "question", "rows.jsonl, line 1")       # "What is 2 + 2?"
"""

import json
from itertools import islice
from string import Formatter
from typing import Any

from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import name_source
from rlhf_exp.tasks.file.parts import Found, read_rows
from rlhf_exp.tasks.file.schema import Keys

COLUMNS = ("answer_column", "completion_column", "chosen_column", "rejected_column")
"""Keys that name a column which every row must have."""

FIRST = 100
"""Rows that are looked at before torch is imported."""

Fields = list[tuple[str, str | None]]
"""Texts, each with the column that follows it."""


def look_at_columns(task: Keys) -> list[str]:
    """A line for each mistake that the first rows show; all rows are read only before one is told, since a later row
    may have the column. A data set of the hub is not looked at."""
    problems = []
    for most in (FIRST, None):
        try:
            parse_template(task, list(islice(read_rows(task), most)))
            return []
        except ConfigError as error:
            problems = error.problems
        except OSError as error:
            problems = [f"task.path={task.path}: cannot be read, {error.strerror}"]
    return problems


def parse_template(task: Keys, rows: list[Found]) -> Fields:
    """The fields of the template; [] for the column `prompt` as it is, or for the messages before the answers."""
    key, where = f"task.prompt_template={task.prompt_template!r}", name_source(task)
    if not rows:
        raise ConfigError([f"{where}: holds no row"])
    row = dict.fromkeys(name for found in rows for name in found.row)
    for name in (*COLUMNS, "split_column"):
        column = getattr(task, name)
        if column is not None and column not in row:
            raise ConfigError([f"task.{name}={column}: {_refuse_column(column, where, row)}"])
    if task.prompt_template is None:
        if "prompt" not in row and not _hold_prompts(task, rows):
            hold = next((name for name in row if _are_messages(rows[0].row.get(name))), None)
            way = f"; task.completion_column={hold} would make the prompt of all of its messages but the last"
            line = f"task.prompt_template: null, and {_refuse_column('prompt', where, row)}"
            example = f"; name columns in one, such as 'task.prompt_template=\"{{{next(iter(row), 'question')}}}\"'"
            raise ConfigError([line + (way if hold else example)])
        return []
    try:
        parsed = list(Formatter().parse(task.prompt_template.replace("\\n", "\n")))
    except ValueError as error:
        raise ConfigError([f"{key}: {error}; a brace of the text is written twice, {{{{ or }}}}"]) from None
    for _, name, spec, conversion in parsed:
        if name == "" or spec or conversion:
            raise ConfigError([f"{key}: braces must hold the name of a column and nothing else; its columns are"
                               f" {', '.join(map(str, row))}"])  # fmt: skip
        if name is not None and name not in row:
            raise ConfigError([f"{key}: {_refuse_column(name, where, row)}"])
    if not any(name for _, name, *_ in parsed):
        raise ConfigError([f"{key}: names no column, so that all prompts would be the same; such as {{question}}"])
    return [(text, name) for text, name, *_ in parsed]


def _hold_prompts(task: Keys, rows: list[Found]) -> bool:
    """Whether answers are messages, before which the prompt can stand."""
    return any(isinstance(rows[0].row.get(name), list) for name in task.answers)


def name_needed(task: Keys, fields: Fields, rows: list[Found]) -> dict[str, str]:
    """The columns that every row must have, each with the key that names it."""
    needed = {name: "a column of task.prompt_template" for _, name in fields if name}
    if not fields and not _hold_prompts(task, rows):
        needed["prompt"] = "the column of the prompts"
    named = {getattr(task, key): f"the column of task.{key}" for key in COLUMNS}
    return needed | {name: key for name, key in named.items() if name is not None}


def _refuse_column(name: str, where: str, row: dict[str, Any]) -> str:
    return f"there is no column {name} in {where}; its columns are {', '.join(map(str, row))}{suggest(name, row)}"


def write(row: dict[str, Any], name: str, where: str) -> str:
    """The value of a column as a text: a number or a date as JSON has it, a list of them too."""
    value = row[name]
    kinds = {type(item) for item in value} if isinstance(value, list) else {type(value)}
    if not kinds & {dict, list, bytes}:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str).strip('"')
    holds = "bytes" if bytes in kinds else "a list" if isinstance(value, list) else "a mapping"
    remedy = "write it as a text"
    if _are_messages(value):
        holds, remedy = "messages", "leave the template out, and call their column prompt, or if they end with the"
        remedy += f" answer set task.completion_column={name}"
    raise ConfigError([f"{where}: {name}, a column of task.prompt_template, holds {holds} and no text; {remedy}"])


def _are_messages(value: Any) -> bool:
    """Whether these are messages of any kind, to give the right advice."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and "role" in item for item in value)
