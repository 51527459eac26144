"""A task of your own in a Python file, with the functions that the tasks of the package have: docs/own_task.md.

    def read(keys):                # {"train": rows, "test": rows}, each row a dict with an id
    def prompt(row):               # a text, or messages; without it the column `prompt`
    def grade(completion, row):    # optional: a bool, a number in [0, 1] or a Grade
    def demonstration(row):        # optional: the text of an answer to learn from
    def pair(row):                 # optional: the better and the worse answer

What they return is checked, and a mistake is one line with the function and the row. Texts may stay texts: for a chat
model they become messages. A row passes its columns on to graders and rewards.
"""

import symtable
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal

from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError
from rlhf_exp.forms import DEMONSTRATIONS
from rlhf_exp.graders import PASSED
from rlhf_exp.graders.user_code import confine, describe_error, describe_value, import_file
from rlhf_exp.tasks.schema import GradedKeys
from rlhf_exp.tasks.sources import Item, Source
from rlhf_exp.tasks.splits import SHARES
from rlhf_exp.tasks.texts import Text, validate_characters, validate_prompt


@dataclass(frozen=True)
class Keys(GradedKeys):
    """The keys of task=module. Whether there are right answers, demonstrations or pairs depends on the functions of the
    file; `source`, `path`, `hub_id` and `options` are for the file to use."""

    name: Literal["module"]
    module: str | None
    options: dict[str, Any]
    hub_id: str | None  # type: ignore[assignment]  # others have one by default

    provided_by: ClassVar[dict[str, str]] = {
        DEMONSTRATIONS: "a function demonstration(row) in the file, or task.samples=self"
    }
    file = "a file or a folder"
    chooses_by_source = False
    reads_folder = True
    answers_apart = True
    graded_by = ("a function grade(completion, row) in the file of task.module",)

    def __post_init__(self) -> None:
        names = self._list_names()
        self.provide("grade" in names or not names, "demonstration" in names, "pair" in names)

    @property
    def functions(self) -> dict[str, str]:
        return {"module": f"{self.module}:read"} if str(self.module).endswith(".py") else {}

    def find_problems(self, key: str) -> list[str]:
        problems = super().find_problems(key)
        if not self.functions:
            problems.append(f"{key}.module={show(self.module)}: must be a Python file, such as {key}.module=mine.py")
        return problems

    def _list_names(self) -> frozenset[str]:
        """The names at the top of the file, of which nothing is run; none if it cannot be read, which is told
        elsewhere (config/rules/files.py)."""
        file = Path(self.module or "").expanduser()
        with suppress(OSError, SyntaxError, ValueError):
            if file.is_file():  # a pipe would be waited for
                text: Any = file.read_bytes()
                return frozenset(symbol.get_name() for symbol in symtable.symtable(text, "", "exec").get_symbols())
        return frozenset()


def read(keys: Keys) -> Source:
    """The rows of the file's `read`, with the texts of its other functions as their content.

    Raises:
        ConfigError: the file cannot be imported, raises an error, or returns something else than rows.
    """
    file, where = _open(keys.module or ""), f"task.module={keys.module}: read"
    found = _call(file, "read", keys)
    if not isinstance(found, dict) or not {"train"} <= {*found} <= {*SHARES}:
        allowed = "must be the rows of each split, {'train': [...], 'test': [...]}, or 'validation' too"
        raise ConfigError([f"{where} returned {describe_value(found)}; {allowed}"])
    splits = {name: _make_items(file, found.get(name, []), name, where) for name in SHARES}
    split_of: dict[str, str] = {}
    for name, items in splits.items():
        for item in items:
            if split_of.setdefault(str(item.content["prompt"]), name) != name:
                prompt = show(item.content["prompt"], 60)
                raise ConfigError([f"{where} returned a prompt in two splits, {prompt}; leave each in one"])
    sizes = {name: len(items) for name, items in splits.items()}
    return Source(splits, sizes, facts={"read": sizes})


def prompt(item: Item, chat: bool) -> Text:
    return item.content["prompt"]


def demonstration(item: Item, keys: Keys, seed: str) -> str | None:
    return item.content.get("demonstration")


def pair(item: Item, keys: Keys) -> tuple[str, str]:
    return item.content["pair"]


def build_grader(keys: Keys, source: Source | None) -> Any:
    from rlhf_exp.graders.checkers import guard

    path = keys.module or ""
    return guard(_open(path).grade, f"task.module={path}: grade", path)


@lru_cache
def _open(path: str) -> ModuleType:
    """The file as a module, imported once in a process."""
    return import_file(path, f"task.module={path}")


def _make_items(file: ModuleType, rows: Any, split: str, where: str) -> list[Item]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError([f"{where} returned {describe_value(rows)} for {split}; must be a list of rows, each a dict"])
    ids, items = set(), []
    for number, row in enumerate(rows, 1):
        place = f"{where}, row {number} of {split}"
        if not isinstance(row.get("id"), str) or row["id"] in ids:
            raise ConfigError([f"{place}: its id must be a text of its own, got {show(row.get('id'), 40)}"])
        ids.add(row["id"])
        names = [name for name in ("prompt", "demonstration", "pair") if name in vars(file)]
        content = {"prompt": row.get("prompt")} | {name: _call(file, name, row) for name in names}
        validate_prompt(content["prompt"], place)
        _validate_texts([content.get("demonstration", "")], 1, f"{place}: demonstration")
        _validate_texts(content.get("pair", ("", "")), 2, f"{place}: pair")
        columns = {name: value for name, value in row.items() if name not in ("id", "prompt", *PASSED)}
        items.append(Item(row["id"], columns, content))
    return items


def _validate_texts(texts: Sequence[Any], count: int, place: str) -> None:
    if not isinstance(texts, list | tuple) or [type(text) for text in texts] != [str] * count:
        raise ConfigError([f"{place} returned {describe_value(texts)}; must be {count} text{'s' * (count > 1)}"])
    for text in texts:
        validate_characters(text, place)


def _call(file: ModuleType, name: str, argument: Any) -> Any:
    """What the file's function returns.

    Raises:
        ConfigError: its own, or in one line with its place in the file whatever else it raises.
    """
    try:
        with confine(f"task.module={file.__file__}: {name}"):
            return getattr(file, name)(argument)
    except (ConfigError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the file can raise anything
        path = str(file.__file__)
        raise ConfigError([f"task.module={path}: {name} raised {describe_error(error, path)}"]) from error
