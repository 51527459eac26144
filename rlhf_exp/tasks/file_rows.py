"""Reads rows with any columns, makes each row's prompt, and divides the rows into splits.

    source = read_source(cfg.task, find_problem)
    item = source.splits["test"][0]
    item.content.prompt, item.columns["answer"]      # "What is 2 + 2?", "4"

A row's split is that of the column `split_column`, of its file's name in a folder, or of the hub's data set, by the
names in `task.splits`; without any of them a hash of what the prompt is made of decides (tasks/splits.py), so that
another template moves no row. The same hash makes validation rows, or test rows, of the train part where there are
none. No prompt is in two splits.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.values import show, suggest
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders import PASSED
from rlhf_exp.graders.checkers import AsRead
from rlhf_exp.tasks.schema import name_source
from rlhf_exp.tasks.sources import SUFFIXES, UNTYPED, Item, OddKind, Source, read_hub, read_table
from rlhf_exp.tasks.splits import SHARES, split_of, split_within
from rlhf_exp.tasks.texts import Text, are_messages, as_messages, validate_characters, validate_prompt

if TYPE_CHECKING:
    from rlhf_exp.tasks.file import Keys

DROPPED = {
    "repeated": "the row was read before",
    "repeated with other columns": "its prompt, and what is learned from it, were read before; other columns differ",
    "with equal answers": "the chosen and the rejected answer are the same",
    "with different histories": "the messages before the chosen and before the rejected answer differ",
}
"""Kinds of rows that are dropped, each with its rule."""

COLUMNS = ("answer_column", "completion_column", "chosen_column", "rejected_column")
"""Keys that name a column which every row must have."""

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+)?(?:[eE][-+][0-9]{1,2})?")
"""A number that could be no name: without leading zeros, a plus, separators, or more digits than a float holds."""

FIRST = 100
"""Rows that are looked at before torch is imported."""

Fields = list[tuple[str, str | None]]
"""Texts of a template, each with the column that follows it."""

Messages = list[dict[str, str]]


@dataclass
class FileRow:
    """A row with its split by the name that the folder or the data set has for it (None for a single file), its place,
    and whether all its values are texts since the file has no types.

    `prompt`, the `answers` by column and `key`, which decides the split, are made of the columns.
    """

    part: str | None
    where: str
    row: dict[str, Any]
    untyped: bool = False
    prompt: Text = ""
    answers: dict[str, str] = field(default_factory=dict)
    key: str = ""

    @property
    def name(self) -> str:
        """The id: that of the file, or a hash of the prompt, so that it is the same whatever learns from the row."""
        named = json.dumps([_name_prompt(self.prompt)])
        own = self.row.get("id")
        return str(own) if own is not None else blake2b(named.encode(), digest_size=8).hexdigest()


def read_source(task: "Keys", find_problem: Callable[[Any], str | None]) -> Source:
    """Read the rows that the keys name.

    Args:
        find_problem: why the checker cannot compare with an answer; None if it can.
    """
    every = list(read_rows(task))
    fields = parse_template(task, every)
    rows, left_out = _keep_named_splits(task, every)
    _validate_columns(rows, _name_needed(task, fields, every))
    numbers = _find_numbers(task, rows)
    counts = dict.fromkeys(DROPPED, 0)
    made = [row for row in rows if _fill_in(task, row, fields)]
    counts["with different histories"] = len(rows) - len(made)
    if rows and not made:
        line = f"the messages before the answers of {task.chosen_column} and {task.rejected_column} differ in all rows"
        raise ConfigError([f"{name_source(task)}: {line}"])
    for row in made:
        row.row = _convert(row.row, numbers) if row.untyped else row.row
    distinct = _drop_repeated(task, _divide(task, made), counts)
    columns, gaps = _tabulate([row for _, row in distinct], name_source(task))
    name = task.answer_column
    for (_, row), held in zip(distinct, columns, strict=True) if name is not None else ():
        if problem := find_problem(held[name]):
            line = f"{problem} for the checker, got {str(held[name])[:40]!r}"
            raise ConfigError([f'{row.where}: "{name}" {line}'])
    splits, repeated, originals = _name_rows(distinct, columns)
    named = ", ".join(sorted(numbers))
    notes = (f"{name_source(task)}: the columns {named} hold numbers, and are read as numbers",) if numbers else ()
    read = dict(sorted(Counter(row.part or "all" for row in rows).items()))
    facts = {
        "read": read,
        "of other splits": left_out,
        "dropped": counts,
        "splits": {name: len(items) for name, items in splits.items()},
        **({"without a value": gaps} if gaps else {}),
        **({"read as numbers": named} if numbers else {}),
    }
    odd = tuple(OddKind(kind, rule, False, {"all": counts[kind]}) for kind, rule in DROPPED.items())
    return Source(splits, read, "rows", odd, facts, notes, repeated, originals=originals)


# Rows and their splits


def read_rows(task: "Keys") -> Iterator[FileRow]:
    """Every row of the splits that `task.splits` names, or of all.

    Raises:
        ConfigError: a split that is not there; the line names those that are.
    """
    divided, path = task.split_column is None, Path(task.path or "")
    if task.source == "hub":
        named = tuple(task.named_splits.values()) if divided and task.names_splits else None
        remedy = "task.source=file task.path=FILE.jsonl"
        yield from (FileRow(*row) for row in read_hub(task.hub_id, name=task.hub_config, parts=named, remedy=remedy))
        return
    if not path.is_dir() and divided and task.names_splits:
        raise ConfigError([f"task.splits: task.path={path} is one file; needs task.split_column, or a folder"])
    for part, file in _list_files(task, path) if path.is_dir() else [(None, path)]:
        yield from (FileRow(part, *row, untyped=file.name.endswith(UNTYPED)) for row in read_table(file))


def _list_files(task: "Keys", folder: Path) -> Iterator[tuple[str, Path]]:
    for part, name in task.named_splits.items():
        files = [folder / f"{name}{suffix}" for suffix in SUFFIXES if (folder / f"{name}{suffix}").is_file()]
        if not files and (part == "train" or task.names_splits):
            there = sorted({file.name.removesuffix(end) for file in folder.iterdir() for end in SUFFIXES
                            if file.name.endswith(end)})  # fmt: skip
            line = f"task.path={folder}: holds no {name} file; must hold {name}.jsonl, .csv or .parquet"
            other = f", and holds {', '.join(there)}{suggest(name, there)}" if there else ""
            raise ConfigError([f"{line}{other}{'; see task.splits' if there and not task.names_splits else ''}"])
        yield from ((name, file) for file in files)


def _keep_named_splits(task: "Keys", rows: list[FileRow]) -> tuple[list[FileRow], int]:
    """The rows with `part` as train, validation or test, or None if there are no parts; and how many have a split that
    `task.splits` leaves out."""
    if task.split_column is not None:
        _validate_columns(rows, {task.split_column: "the column of task.split_column"})
    parts, kept, others = {name: part for part, name in task.named_splits.items()}, [], Counter()
    for row in rows:
        name = row.part if task.split_column is None else str(row.row[task.split_column])
        if name is None or name in parts:
            row.part = parts.get(name)
            kept.append(row)
            continue
        others[name] += 1
        if not task.names_splits:
            kind = f'"{task.split_column}" is' if task.split_column else "is of the split"
            way = f"or say which is which, such as task.splits={{train: train, test: {name}}}"
            allowed = f"must be one of {', '.join(SHARES)}{suggest(name, SHARES)}"
            raise ConfigError([f"{row.where}: {kind} {name!r}; {allowed}, {way}"])
    seen = {row.part for row in kept}
    for part, name in (task.named_splits if task.names_splits and task.split_column else {}).items():
        if part not in seen:
            there = ", ".join(sorted({*others, *(task.named_splits[part] for part in seen)}))
            line = f"{task.split_column} is {there} in the rows{suggest(name, others)}"
            raise ConfigError([f"task.splits.{part}={name}: {line}"])
    if seen == {"train"} and task.split_column is None:
        for row in kept:  # a data set with a train split alone
            row.part = None
    elif seen != {None} and "train" not in seen:
        raise ConfigError([f"{name_source(task)}: has no rows of train"])
    return kept, others.total()


def _divide(task: "Keys", rows: list[FileRow]) -> list[tuple[str, FileRow]]:
    """Each row with its split, which is the same for all rows of a prompt."""
    names, divided, shared = {row.part for row in rows}, [], []
    first_of: dict[str, tuple[str, str]] = {}
    for row in rows:
        split = row.part or split_of(row.key)
        if row.part == "train" and "test" not in names:
            split = "test" if split_of(row.key) == "test" else "train"
        elif row.part == "train" and "validation" not in names:
            split = split_within(row.key, row.part)
        first, place = first_of.setdefault(_name_prompt(row.prompt), (split, row.where))
        if first != split and row.part is not None:
            shared.append(f"{row.where} ({split}) and {place} ({first})")
        divided.append((first if row.part is None else split, row))
    if shared:
        found = f"{len(shared)} rows have a prompt of another split, the first are {shared[0]}"
        raise ConfigError([f"{name_source(task)}: {found}; leave each prompt in one split"])
    return divided


def _drop_repeated(task: "Keys", rows: list[tuple[str, FileRow]], counts: dict[str, int]) -> list[tuple[str, FileRow]]:
    """The rows without those that teach nothing new, which are counted."""
    distinct: dict[str, tuple[str, FileRow]] = {}
    for split, row in rows:
        content = json.dumps([_name_prompt(row.prompt), *row.answers.values()])
        if task.chosen_column and row.answers[task.chosen_column] == row.answers[task.rejected_column]:
            counts["with equal answers"] += 1
        elif content not in distinct:
            distinct[content] = split, row
        else:
            counts["repeated" if distinct[content][1].row == row.row else "repeated with other columns"] += 1
    return list(distinct.values())


def _name_rows(
    rows: list[tuple[str, FileRow]], columns: list[dict[str, Any]]
) -> tuple[dict[str, list[Item]], frozenset[str], dict[str, AsRead]]:
    """The items of each split in the order of their ids, which differ; ids of rows whose prompt an earlier row has; and
    the rows as they were read."""
    seen: Counter[str] = Counter()
    places: dict[tuple[str, str], str] = {}
    named = []
    for split, row in rows:
        own = row.name
        seen[own] += 1
        own = f"{own} #{seen[own]}" if seen[own] > 1 and row.row.get("id") is None else own
        if (place := places.setdefault((split, own), row.where)) != row.where:
            raise ConfigError([f"{row.where}: has the id {own} of {place}; ids must differ, or be left out"])
        named.append((split, own))
    begin_anew = len({own for _, own in named}) < len(named)  # the ids of each split
    splits: dict[str, list[Item]] = {name: [] for name in SHARES}
    prompts, repeated, originals = set(), set(), {}
    for (split, own), (_, row), held in zip(named, rows, columns, strict=True):
        own = f"{split} {own}" if begin_anew else own
        if (prompt := _name_prompt(row.prompt)) in prompts:
            repeated.add(own)
        prompts.add(prompt)
        originals[own] = AsRead(row.where, _leave_out(row.row))
        splits[split].append(Item(own, held, row))
    return (
        {name: sorted(items, key=lambda item: item.id) for name, items in splits.items()},
        frozenset(repeated),
        originals,
    )


def _leave_out(row: dict[str, Any]) -> dict[str, Any]:
    """The columns without those that are rows' own, or have another meaning in training."""
    return {name: value for name, value in row.items() if name not in ("id", "prompt", *PASSED)}


def _name_prompt(prompt: Text) -> str:
    """The same for a text and for one message of the user's that holds it."""
    return json.dumps(as_messages(prompt))


# Columns


def _is_missing(value: Any) -> bool:
    """None, an empty text as CSV has it, or NaN as parquet has it."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _validate_columns(rows: list[FileRow], named: dict[str, str]) -> None:
    """Refuse rows without a column that a key names; `named` says for each column which key that is.

    Raises:
        ConfigError: a line for each column, with the first row that lacks it and their number.
    """
    lacking = {name: [row.where for row in rows if _is_missing(row.row.get(name))] for name in named}
    if any(lacking.values()):
        raise ConfigError(
            f"{places[0]}: holds no {name}, {named[name]} ({len(places):,} of {len(rows):,} rows)"
            for name, places in lacking.items()
            if places
        )


def _find_numbers(task: "Keys", rows: Iterable[FileRow]) -> frozenset[str]:
    """The columns of CSV files whose values are all numbers or empty, other than those that are texts by what they are
    for: the id, the prompt, the split, answers to learn from, and the answer of a ready checker."""
    others = {"id", "prompt", task.split_column, *task.answers, task.answer_column if task.ready_checker else None}
    found: set[str] = set()
    for row in rows:
        for name, value in row.row.items():
            if row.untyped and not value.strip() or not row.untyped and not isinstance(value, str):
                continue
            if row.untyped and _read_number(value) is not None:
                found.add(name)
            else:
                others.add(name)
    return frozenset(found - others)


def _convert(row: dict[str, Any], numbers: frozenset[str]) -> dict[str, Any]:
    """The row of a CSV file with its numbers as numbers, and without those that are empty."""
    read = {name: _read_number(value) if name in numbers else value for name, value in row.items()}
    return {name: value for name, value in read.items() if value is not None}


def _read_number(text: str) -> int | float | None:
    text = text.strip()
    if not NUMBER.fullmatch(text):
        return None
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def _tabulate(rows: list[FileRow], source: str) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The columns of each row with values as a table holds them: TRL makes a table of the rows to train on, and what is
    measured must not differ from it (4 and 2.5 become 4.0 and 2.5). How many rows have no value in a column, by the
    column.

    Raises:
        ConfigError: a column with values of several types.
    """
    import pyarrow

    columns, gaps = {}, {}
    for name in dict.fromkeys(name for row in rows for name in row.row):
        try:
            columns[name] = pyarrow.array([row.row.get(name) for row in rows]).to_pylist()
        except (pyarrow.ArrowException, OverflowError, UnicodeError, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            told = f"the column {name} cannot be held by a table, which has one type for all of its values ({reason})"
            raise ConfigError([f"{source}: {told}"]) from None
        gaps[name] = sum(map(_is_missing, columns[name]))
    held = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [_leave_out(row) for row in held], {name: n for name, n in _leave_out(gaps).items() if n}


# Prompts and answers


def look_at_columns(task: "Keys") -> list[str]:
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


def parse_template(task: "Keys", rows: list[FileRow]) -> Fields:
    """The fields of the template; [] for the column `prompt` as it is, or for the messages before the answers."""
    key, where = f"task.prompt_template={task.prompt_template!r}", name_source(task)
    if not rows:
        raise ConfigError([f"{where}: holds no row"])
    row = dict.fromkeys(name for found in rows for name in found.row)
    for name in (*COLUMNS, "split_column"):
        column = getattr(task, name)
        if column is not None and column not in row:
            raise ConfigError([f"task.{name}={column}: {_name_absent_column(column, where, row)}"])
    if task.prompt_template is None:
        if "prompt" not in row and not _hold_prompts(task, rows):
            line = f"task.prompt_template: null, and {_name_absent_column('prompt', where, row)}"
            example = f"name columns in one, such as 'task.prompt_template=\"{{{next(iter(row), 'question')}}}\"'"
            raise ConfigError([f"{line}; {example}"])
        return []
    try:
        parsed = list(Formatter().parse(task.prompt_template.replace("\\n", "\n")))
    except ValueError as error:
        raise ConfigError([f"{key}: {error}; a brace of the text is written twice, {{{{ or }}}}"]) from None
    for _, name, spec, conversion in parsed:
        if name == "" or spec or conversion:
            there = f"its columns are {', '.join(map(str, row))}"
            raise ConfigError([f"{key}: braces must hold the name of a column and nothing else; {there}"])
        if name is not None and name not in row:
            raise ConfigError([f"{key}: {_name_absent_column(name, where, row)}"])
    if not any(name for _, name, *_ in parsed):
        raise ConfigError([f"{key}: names no column, so that all prompts would be the same; such as {{question}}"])
    return [(text, name) for text, name, *_ in parsed]


def _name_absent_column(name: str, where: str, row: dict[str, Any]) -> str:
    return f"there is no column {name} in {where}; its columns are {', '.join(map(str, row))}{suggest(name, row)}"


def _hold_prompts(task: "Keys", rows: list[FileRow]) -> bool:
    """Whether answers are messages, before which the prompt can stand."""
    return any(isinstance(rows[0].row.get(name), list) for name in task.answers)


def _name_needed(task: "Keys", fields: Fields, rows: list[FileRow]) -> dict[str, str]:
    """The columns that every row must have, each with the key that names it."""
    needed = {name: "a column of task.prompt_template" for _, name in fields if name}
    if not fields and not _hold_prompts(task, rows):
        needed["prompt"] = "the column of the prompts"
    named = {getattr(task, key): f"the column of task.{key}" for key in COLUMNS}
    return needed | {name: key for name, key in named.items() if name is not None}


def _fill_in(task: "Keys", row: FileRow, fields: Fields) -> bool:
    """Make the prompt, the answers and the key of a row; False for a pair whose answers have different histories."""
    prompt: Any = row.row.get("prompt")
    if fields:
        values = {name: _write_value(row, name) for _, name in fields if name}
        prompt, row.key = "".join(text + values.get(name or "", "") for text, name in fields), json.dumps(values)
    histories = _read_answers(task, row)
    if len({json.dumps(history) for name, history in histories.items() if name != task.completion_column}) > 1:
        return False
    row.prompt = _find_prompt(task, row, prompt, histories)
    validate_prompt(row.prompt, row.where)
    row.key = row.key or _name_prompt(row.prompt)
    return True


def _write_value(row: FileRow, name: str) -> str:
    """The value of a column as a text: a number or a date as JSON has it, a list of them too."""
    value = row.row[name]
    kinds = {type(item) for item in value} if isinstance(value, list) else {type(value)}
    if not kinds & {dict, list, bytes}:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str).strip('"')
    holds = "bytes" if bytes in kinds else "a list" if isinstance(value, list) else "a mapping"
    raise ConfigError([f"{row.where}: {name}, a column of task.prompt_template, holds {holds}; write it as a text"])


def _read_answers(task: "Keys", row: FileRow) -> dict[str, Messages]:
    """Read the text of each column to learn from into `row.answers`. Of TRL's conversational format the last message is
    the answer, and what stands before it, the history, is returned.

    Raises:
        ConfigError: it is no text, and no messages that end with the assistant's.
    """
    histories = {}
    for name in task.answers:
        place, value = f'{row.where}: "{name}"', row.row[name]
        if are_messages(value, last="assistant"):
            *history, answer = value
            row.answers[name] = answer["content"]
            histories |= {name: history} if history else {}
        elif isinstance(value, str):
            row.answers[name] = value
        else:
            form = "a text, or messages with a role and a text each, of which the last is the assistant's"
            raise ConfigError([f"{place} must be {form}, got {show(value, 60)}"])
        validate_characters(row.answers[name], place)
    return histories


def _find_prompt(task: "Keys", row: FileRow, prompt: Text | None, histories: dict[str, Messages]) -> Text | None:
    """The row's prompt, or where it has none, or goes on in its answers, their history, as TRL's `extract_prompt` makes
    it. A row's own prompt may be left out of its answers; else the history must begin with it.

    Raises:
        ConfigError: an answer's history that begins otherwise.
    """
    for name, history in histories.items():
        given = as_messages(prompt)
        if given is not None and not are_messages(given):
            return prompt  # which is refused as any other
        if given is None or _begins(history, given) and len(history) > len(given):
            prompt = history
        elif not _begins(history, given):
            way = "leave out task.prompt_template" if task.prompt_template else 'leave out the column "prompt"'
            line = f'"{name}" does not begin with the messages of its prompt; {way}, and what is before the answer'
            raise ConfigError([f"{row.where}: {line} is the prompt"])
    return prompt


def _begins(history: Messages, prompt: Any) -> bool:
    """Whether the history is the prompt, or goes on after it; a system's message before it may be left out."""
    texts = [[(m["role"], m["content"].strip()) for m in messages] for messages in (history, prompt)]
    if texts[0][0][0] == "system" != texts[1][0][0]:
        del texts[0][0]
    return texts[0][: len(texts[1])] == texts[1]
