"""Reads rows with any columns, makes each row's prompt, and divides the rows into splits.

    splits, facts = read_splits(cfg.task)
    splits["test"][0].prompt, splits["test"][0].columns["answer"]    # "What is 2 + 2?", "4"

A row's split is that of the column `split_column`, of its file's name in a folder, or of the hub's data set; without
any of them a hash of the prompt decides (tasks/splits.py), which also makes validation rows of the train part where
there are none. No prompt may be in two splits.
"""

import json
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import Text
from rlhf_exp.tasks.file.schema import Keys
from rlhf_exp.tasks.sources import SUFFIXES, read_hub, read_table, refuse_half_characters
from rlhf_exp.tasks.splits import SHARES, split_of, split_within

ALL = "all"
"""The part of rows that have none."""

PASSED = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
"""Names that TRL passes to rewards beside the columns."""


class Item(NamedTuple):
    """A row as it was read, with its place, its id, and its prompt: a text, or messages that end with the user's."""

    where: str
    id: str
    prompt: Text
    columns: dict[str, Any]


def read_splits(task: Keys) -> tuple[dict[str, list[Item]], dict[str, Any]]:
    """The rows of train, validation and test, each once; and how many were read and dropped.

    Raises:
        ConfigError: a file or row that cannot be read, a column that is missing, or a prompt in two splits.
    """
    parts = _read_parts(task)
    has_validation = any(item_part == "validation" for item_part, _ in parts)
    split_by_part = any(part != ALL for part, _ in parts)
    answers = [name for name in (task.completion_column, task.chosen_column, task.rejected_column) if name]
    distinct: dict[str, tuple[str, Item]] = {}
    split_of_prompt: dict[str, tuple[str, str]] = {}
    shared = []
    for part, item in parts:
        prompt = json.dumps(item.prompt)
        if not split_by_part:
            split = split_of(prompt)
        else:
            split = part if has_validation or part != "train" else split_within(prompt, part)
        first, place = split_of_prompt.setdefault(prompt, (split, item.where))
        if first != split:
            shared.append(f"{item.where} ({split}) and {place} ({first})")
        distinct.setdefault(json.dumps([prompt, *(item.columns[name] for name in answers)]), (split, item))
    if shared:
        found = f"{len(shared)} rows have a prompt of another split, the first are {shared[0]}"
        raise ConfigError([f"{_name(task)}: {found}; leave each prompt in one split"])
    splits: dict[str, list[Item]] = {name: [] for name in SHARES}
    for split, item in distinct.values():
        splits[split].append(item)
    _require_own_ids(splits)
    facts = {
        "read": {part: sum(found == part for found, _ in parts) for part in dict.fromkeys(part for part, _ in parts)},
        "duplicates": len(parts) - len(distinct),
        "splits": {name: len(items) for name, items in splits.items()},
    }
    return splits, facts


def _read_parts(task: Keys) -> list[tuple[str, Item]]:
    """Every row with its part: train, validation, test, or ALL."""
    found = []
    fields: list[tuple[str, str | None]] | None = None
    for part, where, row in _read_rows(task):
        if fields is None:
            fields = _parse_template(task, where, row)
        if task.split_column is not None:
            part = _get(task, "split_column", row, where)
        if part not in (ALL, *SHARES):
            kind = f'"{task.split_column}" is' if task.split_column else "is of the split"
            raise ConfigError([f"{where}: {kind} {part!r}; must be one of {', '.join(SHARES)}{suggest(part, SHARES)}"])
        found.append((part, _make_item(task, where, row, fields)))
    if not found:
        raise ConfigError([f"{_name(task)}: holds no row"])
    missing = {"train", "test"} - {part for part, _ in found} if any(part != ALL for part, _ in found) else ()
    if missing == {"test"} and task.split_column is None:
        return [(ALL, item) for _, item in found]  # a data set with a train split alone
    if missing:
        raise ConfigError([f"{_name(task)}: has no rows of {' and '.join(sorted(missing))}"])
    return found


def _read_rows(task: Keys) -> Iterator[tuple[str, str, dict[str, Any]]]:
    if task.source == "hub":
        yield from read_hub(task.hub_id, name=task.hub_config, remedy="task.source=file task.path=FILE.jsonl")
        return
    path = Path(task.path)
    if not path.is_dir():
        yield from ((ALL, *found) for found in read_table(path))
        return
    for part in ("train", "validation", "test"):
        files = [path / f"{part}{suffix}" for suffix in SUFFIXES if (path / f"{part}{suffix}").is_file()]
        if not files and part != "validation":
            raise ConfigError([f"task.path={path}: holds no {part} file; must hold {part}.jsonl, .csv or .parquet"])
        for file in files:
            yield from ((part, *found) for found in read_table(file))


def _parse_template(task: Keys, where: str, row: dict[str, Any]) -> list[tuple[str, str | None]]:
    """The template as texts, each with the column that follows it; [] for the column `prompt` as it is."""
    key = f"task.prompt_template={task.prompt_template!r}"
    named = {name: getattr(task, name) for name in ("answer_column", "completion_column", "chosen_column",
             "rejected_column", "split_column")}  # fmt: skip
    for name, column in named.items():
        if column is not None and column not in row:
            raise ConfigError([f"task.{name}={column}: {_refuse_column(column, where, row)}"])
    if taken := [name for name in row if name in PASSED]:
        raise ConfigError([f"{where}: the column {taken[0]} has a name that TRL passes to rewards; rename it"])
    if task.prompt_template is None:
        if "prompt" not in row:
            raise ConfigError([f"task.prompt_template: null, and {_refuse_column('prompt', where, row)}"])
        return []
    try:
        parsed = list(Formatter().parse(task.prompt_template))
    except ValueError as error:
        raise ConfigError([f"{key}: {error}; a brace of the text is written twice, {{{{ or }}}}"]) from None
    fields = [(text, name) for text, name, *_ in parsed]
    for _, name, spec, conversion in parsed:
        if name is not None and (spec or conversion or name not in row):
            raise ConfigError([f"{key}: {_refuse_column(name, where, row)}"])
    if not any(name for _, name in fields):
        raise ConfigError([f"{key}: names no column, so that all prompts would be the same; such as {{question}}"])
    return fields


def _refuse_column(name: str, where: str, row: dict[str, Any]) -> str:
    return f"there is no column {name} in {where}; its columns are {', '.join(map(str, row))}{suggest(name, row)}"


def _make_item(task: Keys, where: str, row: dict[str, Any], fields: list[tuple[str, str | None]]) -> Item:
    prompt: Any = row.get("prompt")
    if fields:
        prompt = "".join(text + (_write(row, name, where) if name else "") for text, name in fields)
    if not _is_prompt(prompt):
        form = 'a text, or messages such as [{"role": "user", "content": text}] of which the last is the user\'s'
        raise ConfigError([f"{where}: its prompt must be {form}, got {str(prompt)[:60]}"])
    for text in [prompt] if isinstance(prompt, str) else [message["content"] for message in prompt]:
        refuse_half_characters(text, f"{where}: its prompt")
    for key in ("answer_column", "completion_column", "chosen_column", "rejected_column"):
        if getattr(task, key) is not None:
            value = _get(task, key, row, where)
            if key != "answer_column" and not isinstance(value, str):
                raise ConfigError([f'{where}: "{getattr(task, key)}" must be a text, got {str(value)[:40]}'])
    content = json.dumps([prompt, *(row[name] for name in (task.chosen_column, task.rejected_column) if name)])
    name = str(row["id"]) if row.get("id") is not None else blake2b(content.encode(), digest_size=8).hexdigest()
    return Item(where, name, prompt, {column: value for column, value in row.items() if column not in ("id", "prompt")})


def _get(task: Keys, key: str, row: dict[str, Any], where: str) -> Any:
    column = getattr(task, key)
    if row.get(column) is None:
        raise ConfigError([f"{where}: holds no {column}, the column of task.{key}"])
    return row[column]


def _write(row: dict[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if value is None:
        raise ConfigError([f"{where}: holds no {name}, a column of task.prompt_template"])
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_prompt(prompt: Any) -> bool:
    if isinstance(prompt, str):
        return bool(prompt.strip())
    if not isinstance(prompt, list) or not prompt or not all(isinstance(message, dict) for message in prompt):
        return False
    texts = [message.get(key) for message in prompt for key in ("role", "content")]
    return all(isinstance(text, str) and text for text in texts) and prompt[-1]["role"] == "user"


def _require_own_ids(splits: dict[str, list[Item]]) -> None:
    seen: dict[str, str] = {}
    for item in (item for items in splits.values() for item in items):
        if (place := seen.setdefault(item.id, item.where)) != item.where:
            raise ConfigError([f"{item.where}: has the id {item.id} of {place}; ids must differ, or be left out"])


def _name(task: Keys) -> str:
    return task.path if task.source == "file" else str(task.hub_id)
