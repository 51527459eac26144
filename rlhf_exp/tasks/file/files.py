"""Reads rows with any columns, makes each row's prompt, and divides the rows into splits.

    read = read_splits(cfg.task)
    item = read.splits["test"][0]
    item.prompt, item.columns["answer"]      # "What is 2 + 2?", "4"

A row's split is that of the column `split_column`, of its file's name in a folder, or of the hub's data set, by the
names in `task.splits`; without any of them a hash of what the prompt is made of decides (tasks/splits.py), so that
another template moves no row. The same hash makes validation rows, or test rows, of the train part where there are
none. No prompt is in two splits.
"""

import json
from collections import Counter
from hashlib import blake2b
from typing import Any, NamedTuple

from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.checkers import AsRead
from rlhf_exp.tasks import Text, name_source
from rlhf_exp.tasks.file.columns import convert, find_numbers, list_gaps, refuse_missing, tabulate
from rlhf_exp.tasks.file.messages import find_prompt, read_answers
from rlhf_exp.tasks.file.parts import Found, read_rows
from rlhf_exp.tasks.file.schema import Keys
from rlhf_exp.tasks.file.template import Fields, name_needed, parse_template, write
from rlhf_exp.tasks.sources import are_messages, as_messages, refuse_half_characters
from rlhf_exp.tasks.splits import SHARES, split_of, split_within

DROPPED = {
    "repeated": "the row was read before",
    "repeated with other columns": "its prompt, and what is learned from it, were read before; other columns differ",
    "with equal answers": "the chosen and the rejected answer are the same",
    "with different histories": "the messages before the chosen and before the rejected answer differ",
}
"""Kinds of rows that are dropped, each with its rule."""


class Item(NamedTuple):
    """A row with its place, its id, what decides its split, its prompt (a text, or messages that end with the user's),
    the texts of its answers to learn from, its columns, and what a table has changed in these."""

    where: str
    id: str
    key: str
    prompt: Text
    answers: dict[str, str]
    columns: dict[str, Any]
    absent: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()

    @property
    def as_read(self) -> AsRead:
        return AsRead(self.where, self.absent, self.whole)


class Read(NamedTuple):
    """The rows of train, validation and test, each once, all with the same columns; how many were read and dropped;
    what a user who reads columns should know of them, one line each; and the columns of CSV that are numbers."""

    splits: dict[str, list[Item]]
    facts: dict[str, Any]
    notes: list[str]
    numbers: list[str]


def read_splits(task: Keys) -> Read:
    """Read the rows that the keys name.

    Raises:
        ConfigError: a file or row that cannot be read, a column that is missing, or a prompt in two splits.
    """
    parts, left_out, numbers = _read_parts(task)
    names = {part for part, _ in parts}
    distinct: dict[str, tuple[str, Item]] = {}
    split_of_prompt: dict[str, tuple[str, str]] = {}
    shared, counts = [], dict.fromkeys(DROPPED, 0)
    for part, item in parts:
        if item is None:
            counts["with different histories"] += 1
            continue
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
        if task.chosen_column and item.answers[task.chosen_column] == item.answers[task.rejected_column]:
            counts["with equal answers"] += 1
            continue
        content = json.dumps([_as_key(item.prompt), *(item.answers[name] for name in task.answers)])
        if content in distinct:
            same = distinct[content][1].columns == item.columns
            counts["repeated" if same else "repeated with other columns"] += 1
        else:
            distinct[content] = split, item
    if shared:
        found = f"{len(shared)} rows have a prompt of another split, the first are {shared[0]}"
        raise ConfigError([f"{name_source(task)}: {found}; leave each prompt in one split"])
    items = [item for _, item in distinct.values()]
    table = tabulate([item.columns for item in items], name_source(task))
    gaps, notes = list_gaps(table, [item.where for item in items])
    items = [item._replace(columns=columns, absent=absent, whole=whole)
             for item, columns, absent, whole in zip(items, *table, strict=True)]  # fmt: skip
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
        **({"without a value": gaps} if gaps else {}),
        **({"read as numbers": ", ".join(numbers)} if numbers else {}),
    }
    if numbers:
        notes.append(f"{name_source(task)}: the columns {', '.join(numbers)} hold numbers, and are read as numbers")
    return Read(_settle_ids(splits), facts, notes, numbers)


def _read_parts(task: Keys) -> tuple[list[tuple[str | None, Item | None]], int, list[str]]:
    """Every row with its part: train, validation or test, or None if there are no parts; how many have a split that
    `task.splits` leaves out; and the columns of CSV that are numbers."""
    rows = list(read_rows(task))
    fields = parse_template(task, rows)
    if task.split_column is not None:
        refuse_missing(rows, {task.split_column: "the column of task.split_column"})
    kept: list[Found] = []
    parts, others = {name: part for part, name in task.named_splits.items()}, Counter()
    for row in rows:
        name = row.part if task.split_column is None else str(row.row[task.split_column])
        if name is None or name in parts:
            kept.append(row._replace(part=parts.get(name)))
            continue
        others[name] += 1
        if not task.names_splits:
            raise ConfigError([_refuse_split(task, name, row.where)])
    refuse_missing(kept, name_needed(task, fields, rows))
    numbers = find_numbers(task, kept)
    found = [(row.part, _make_item(task, row, fields, numbers)) for row in kept]
    if kept and not any(item for _, item in found):
        line = f"the messages before the answers of {task.chosen_column} and {task.rejected_column} differ in all rows"
        raise ConfigError([f"{name_source(task)}: {line}"])
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
    return found, others.total(), sorted(numbers)


def _refuse_split(task: Keys, name: str, where: str) -> str:
    kind = f'"{task.split_column}" is' if task.split_column else "is of the split"
    way = f"or say which is which, such as task.splits={{train: train, test: {name}}}"
    return f"{where}: {kind} {name!r}; must be one of {', '.join(SHARES)}{suggest(name, SHARES)}, {way}"


def _make_item(task: Keys, found: Found, fields: Fields, numbers: frozenset[str]) -> Item | None:
    """None for a pair whose answers have different histories."""
    where, row = found.where, found.row
    prompt: Any = row.get("prompt")
    if fields:
        values = {name: write(row, name, where) for _, name in fields if name}
        prompt, key = "".join(text + values.get(name or "", "") for text, name in fields), json.dumps(values)
    answers, histories = read_answers(task, found)
    if len({json.dumps(history) for name, history in histories.items() if name != task.completion_column}) > 1:
        return None
    prompt = find_prompt(task, found, prompt, histories)
    messages = as_messages(prompt)
    if not are_messages(messages):
        form = 'a text, or messages such as [{"role": "user", "content": text}] of which the last is the user\'s'
        raise ConfigError([f"{where}: its prompt must be {form}, got {str(prompt)[:60]}"])
    for message in messages:
        refuse_half_characters(message["content"], f"{where}: its prompt")
    named = json.dumps([_as_key(prompt)])  # without answers, so that rows are called the same whatever learns from them
    own = str(row["id"]) if row.get("id") is not None else blake2b(named.encode(), digest_size=8).hexdigest()
    columns = convert(row, numbers) if found.untyped else row
    return Item(where, own, key if fields else _as_key(prompt), prompt, answers, columns)


def _as_key(prompt: Text) -> str:
    """The same for a text and for one message of the user's that holds it."""
    return json.dumps(as_messages(prompt))


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
