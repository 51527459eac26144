"""Reads rows with any columns, makes each row's prompt, and divides the rows into splits.

    splits, facts = read_splits(cfg.task)
    splits["test"][0].prompt, splits["test"][0].columns["answer"]    # "What is 2 + 2?", "4"

A row's split is that of the column `split_column`, of its file's name in a folder, or of the hub's data set, by the
names in `task.splits`; without any of them a hash of what the prompt is made of decides (tasks/splits.py), so that
another template moves no row. The same hash makes validation rows, or test rows, of the train part where there are
none. No prompt is in two splits.
"""

import json
import math
from collections import Counter
from hashlib import blake2b
from string import Formatter
from typing import Any, NamedTuple

from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import Text, name_source
from rlhf_exp.tasks.file.parts import read_rows
from rlhf_exp.tasks.file.schema import Keys
from rlhf_exp.tasks.sources import are_messages, refuse_half_characters
from rlhf_exp.tasks.splits import SHARES, split_of, split_within

Fields = list[tuple[str, str | None]]
"""Texts, each with the column that follows it."""


class Item(NamedTuple):
    """A row with its place, its id, what decides its split, its prompt (a text, or messages that end with the user's),
    and its columns as they were read."""

    where: str
    id: str
    key: str
    prompt: Text
    columns: dict[str, Any]


def read_splits(task: Keys) -> tuple[dict[str, list[Item]], dict[str, Any]]:
    """The rows of train, validation and test, each once, all with the same columns; and how many were read and dropped.

    Raises:
        ConfigError: a file or row that cannot be read, a column that is missing, or a prompt in two splits.
    """
    parts, left_out = _read_parts(task)
    names = {part for part, _ in parts}
    distinct: dict[str, tuple[str, Item]] = {}
    split_of_prompt: dict[str, tuple[str, str]] = {}
    shared, counts = [], {"repeated": 0, "repeated with other columns": 0, "with equal answers": 0}
    for part, item in parts:
        split = part or split_of(item.key)
        if part == "train" and "test" not in names:
            split = "test" if split_of(item.key) == "test" else "train"
        elif part == "train" and "validation" not in names:
            split = split_within(item.key, part)
        first, place = split_of_prompt.setdefault(_as_key(item.prompt), (split, item.where))
        if first != split and part is None:
            split = first
        elif first != split:
            shared.append(f"{item.where} ({split}) and {place} ({first})")
        if task.chosen_column and item.columns[task.chosen_column] == item.columns[task.rejected_column]:
            counts["with equal answers"] += 1
            continue
        content = json.dumps([_as_key(item.prompt), *(item.columns[name] for name in task.answers)])
        if content in distinct:
            same = distinct[content][1].columns == item.columns
            counts["repeated" if same else "repeated with other columns"] += 1
        else:
            distinct[content] = split, item
    if shared:
        found = f"{len(shared)} rows have a prompt of another split, the first are {shared[0]}"
        raise ConfigError([f"{name_source(task)}: {found}; leave each prompt in one split"])
    items = _unify(task, [item for _, item in distinct.values()])
    splits: dict[str, list[Item]] = {name: [] for name in SHARES}
    seen: Counter[str] = Counter()
    for (split, _), item in zip(distinct.values(), items, strict=True):
        seen[item.id] += 1
        again = seen[item.id] > 1 and item.columns.get("id") is None
        splits[split].append(item._replace(id=f"{item.id} #{seen[item.id]}") if again else item)
    facts = {
        "read": {part or "all": sum(found == part for found, _ in parts) for part in sorted(names, key=str)},
        "of other splits": left_out,
        "dropped": counts,
        "splits": {name: len(found) for name, found in splits.items()},
    }
    return _settle_ids(splits), facts


def _read_parts(task: Keys) -> tuple[list[tuple[str | None, Item]], int]:
    """Every row with its part: train, validation or test, or None if there are no parts; and how many have a split
    that `task.splits` leaves out."""
    found: list[tuple[str | None, Item]] = []
    fields: Fields | None = None
    parts, others = {name: part for part, name in task.named_splits.items()}, Counter()
    for name, where, row in read_rows(task):
        if fields is None:
            fields = _parse_template(task, where, row)
        if task.split_column is not None:
            name = str(_get(task, "split_column", row, where))
        if name is not None and name not in parts:
            others[name] += 1
            if not task.names_splits:
                raise ConfigError([_refuse_split(task, name, where)])
            continue
        found.append((parts.get(name), _make_item(task, where, row, fields)))
    if not found and not others:
        raise ConfigError([f"{name_source(task)}: holds no row"])
    seen = {part for part, _ in found}
    for part, name in (task.named_splits if task.names_splits and task.split_column else {}).items():
        if part not in seen:
            there = ", ".join(sorted({*others, *(task.named_splits[part] for part in seen)}))
            raise ConfigError(
                [f"task.splits.{part}={name}: {task.split_column} is {there} in the rows{suggest(name, others)}"]
            )
    if seen == {"train"} and task.split_column is None:
        found = [(None, item) for _, item in found]  # a data set with a train split alone
    elif seen != {None} and "train" not in seen:
        raise ConfigError([f"{name_source(task)}: has no rows of train"])
    return found, others.total()


def _refuse_split(task: Keys, name: str, where: str) -> str:
    kind = f'"{task.split_column}" is' if task.split_column else "is of the split"
    way = f"or say which is which, such as task.splits={{train: train, test: {name}}}"
    return f"{where}: {kind} {name!r}; must be one of {', '.join(SHARES)}{suggest(name, SHARES)}, {way}"


def _parse_template(task: Keys, where: str, row: dict[str, Any]) -> Fields:
    """The fields of the template; [] for the column `prompt` as it is."""
    key = f"task.prompt_template={task.prompt_template!r}"
    for name in ("answer_column", "completion_column", "chosen_column", "rejected_column", "split_column"):
        column = getattr(task, name)
        if column is not None and column not in row:
            raise ConfigError([f"task.{name}={column}: {_refuse_column(column, where, row)}"])
    if task.prompt_template is None:
        if "prompt" not in row:
            raise ConfigError([f"task.prompt_template: null, and {_refuse_column('prompt', where, row)}"])
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


def _refuse_column(name: str, where: str, row: dict[str, Any]) -> str:
    return f"there is no column {name} in {where}; its columns are {', '.join(map(str, row))}{suggest(name, row)}"


def _make_item(task: Keys, where: str, row: dict[str, Any], fields: Fields) -> Item:
    prompt: Any = row.get("prompt")
    if fields:
        values = {name: _write(row, name, where) for _, name in fields if name}
        prompt, key = "".join(text + values.get(name or "", "") for text, name in fields), json.dumps(values)
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not are_messages(messages):
        form = 'a text, or messages such as [{"role": "user", "content": text}] of which the last is the user\'s'
        raise ConfigError([f"{where}: its prompt must be {form}, got {str(prompt)[:60]}"])
    for message in messages:
        refuse_half_characters(message["content"], f"{where}: its prompt")
    if task.answer_column is not None:
        _get(task, "answer_column", row, where)
    for name in ("completion_column", "chosen_column", "rejected_column"):
        if getattr(task, name) is not None:
            value = _get(task, name, row, where)
            if not isinstance(value, str):
                raise ConfigError([f'{where}: "{getattr(task, name)}" must be a text, got {str(value)[:40]}'])
            refuse_half_characters(value, f'{where}: "{getattr(task, name)}"')
    named = json.dumps([_as_key(prompt)])  # without answers, so that rows are called the same whatever learns from them
    own = str(row["id"]) if row.get("id") is not None else blake2b(named.encode(), digest_size=8).hexdigest()
    return Item(where, own, key if fields else _as_key(prompt), prompt, row)


def _get(task: Keys, key: str, row: dict[str, Any], where: str) -> Any:
    column = getattr(task, key)
    if _is_missing(row.get(column)):
        raise ConfigError([f"{where}: holds no {column}, the column of task.{key}"])
    return row[column]


def _write(row: dict[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if _is_missing(value):
        raise ConfigError([f"{where}: holds no {name}, a column of task.prompt_template"])
    if isinstance(value, bytes):
        raise ConfigError([f"{where}: {name}, a column of task.prompt_template, holds bytes, which are no text"])
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str).strip('"')


def _is_missing(value: Any) -> bool:
    """None, an empty text as CSV has it, or NaN as parquet has it."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _as_key(prompt: Text) -> str:
    """The same for a text and for one message of the user's that holds it."""
    return json.dumps([{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt)


def _unify(task: Keys, items: list[Item]) -> list[Item]:
    """The items with all columns, None where a row has none, and with values as a table holds them: TRL makes a table
    of the rows to train on, and what is measured must not differ from it (4 and 2.5 become 4.0 and 2.5)."""
    import pyarrow

    columns = {}
    for name in dict.fromkeys(name for item in items for name in item.columns):
        values = [item.columns.get(name) for item in items]
        try:
            columns[name] = pyarrow.array(values).to_pylist()
        except (pyarrow.ArrowException, OverflowError, UnicodeError, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            told = f"the column {name} cannot be held by a table, which has one type for all of its values ({reason})"
            raise ConfigError([f"{name_source(task)}: {told}"]) from None
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [item._replace(columns=row) for item, row in zip(items, rows, strict=True)]


def _settle_ids(splits: dict[str, list[Item]]) -> dict[str, list[Item]]:
    """Ids that are different; those that begin anew in each split get its name."""
    places: dict[tuple[str, str], str] = {}
    for split, items in splits.items():
        for item in items:
            if (place := places.setdefault((split, item.id), item.where)) != item.where:
                raise ConfigError([f"{item.where}: has the id {item.id} of {place}; ids must differ, or be left out"])
    if len({own for _, own in places}) == len(places):
        return splits
    return {split: [item._replace(id=f"{split} {item.id}") for item in items] for split, items in splits.items()}
