"""A task of your own: a class in a Python file, with the methods that the tasks of the package have (docs/own_task.md).

    class Sums(OwnTask):
        def rows(self):                       # {"train": items, "test": items}, or a Source
        def write_prompt(self, item, chat):   # a text, or messages; without it the column `prompt`
        def grade(self, completion, row):     # optional: a bool, a number in [0, 1] or a Grade
        def demonstration(self, item, seed):  # optional: the text of an answer to learn from
        def pair(self, item):                 # optional: the better and the worse answer

`Module` holds an object of it, and checks what it returns: a mistake is one line with the method and the row.
"""

import ast
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError, refusing
from rlhf_exp.forms import DEMONSTRATIONS
from rlhf_exp.graders import PASSED
from rlhf_exp.graders.user_code import RewardError, confine, describe_value, import_function
from rlhf_exp.tasks.splits import SHARES
from rlhf_exp.tasks.task import GradedTask, Grader, Item, Source
from rlhf_exp.tasks.texts import Text, validate_characters, validate_prompt


@dataclass(frozen=True)
class OwnTask(GradedTask):
    """The keys of task=module, and what a class of yours is derived from. `source`, `path`, `hub_id` and `options` are
    for it to use."""

    name: Literal["module"]
    module: str | None
    options: dict[str, Any]
    hub_id: str | None  # type: ignore[assignment]  # others have one by default

    def write_prompt(self, item: Item, chat: bool) -> Text:
        return item.columns["prompt"]


@dataclass(frozen=True)
class Module(OwnTask):
    """Which data it provides depends on the methods of the class in the file, of which nothing is run before its rows
    are read."""

    provided_by: ClassVar[dict[str, str]] = {
        DEMONSTRATIONS: "a method demonstration(self, item, seed) in the file, or task.samples=self"
    }
    path_form = "a file or a folder"
    reads_folder = True
    answers_apart = True
    graded_by = ("a method grade(self, completion, row) in the file of task.module",)

    def __post_init__(self) -> None:
        found = self._class
        names = {node.name for node in found.body if isinstance(node, ast.FunctionDef)} if found else {"grade"}
        self.limit("grade" in names, "demonstration" in names, "pair" in names)

    @property
    def functions(self) -> dict[str, str]:
        found = self._class
        named = str(self.module).endswith(".py")
        return {"module": f"{self.module}:{found.name if found else 'OwnTask'}"} if named else {}

    def find_path_problems(self, key: str) -> list[str]:
        return []  # the user's class may read a path as it likes

    def find_problems(self, key: str) -> list[str]:
        problems = super().find_problems(key)
        if not str(self.module).endswith(".py"):
            problems.append(f"{key}.module={show(self.module)}: must be a Python file, such as {key}.module=mine.py")
        return problems

    def rows(self) -> Source:
        """The rows of the class in the file.

        Raises:
            ConfigError: the file cannot be imported, raises an error, or returns something else than rows.
        """
        where, found = f"{self.place}.module={self.module}: rows", self._call("rows")
        source = found if isinstance(found, Source) else None
        splits = source.splits if source else found
        if not isinstance(splits, dict) or not {"train"} <= {*splits} <= {*SHARES}:
            allowed = "must be the rows of each split, {'train': [...], 'test': [...]}, or 'validation' too"
            raise ConfigError([f"{where} returned {describe_value(splits)}; {allowed}"])
        splits = {name: self._check_items(splits.get(name, []), name, where) for name in SHARES}
        split_of: dict[str, str] = {}
        for name, items in splits.items():
            for item in items:
                prompt = str(self.write_prompt(item, chat=True))
                if split_of.setdefault(prompt, name) != name:
                    raise ConfigError(
                        [f"{where} returned a prompt in two splits, {show(prompt, 60)}; leave each in one"]
                    )
        sizes = {name: len(items) for name, items in splits.items()}
        return Source(splits, sizes, facts=source.facts if source else {"read": sizes})

    def write_prompt(self, item: Item, chat: bool) -> Text:
        return self._call("write_prompt", item.content, chat)

    def demonstration(self, item: Item, seed: str) -> str | None:
        return self._call("demonstration", item.content, seed) if self.demonstrates else None

    def pair(self, item: Item) -> tuple[str, str]:
        return self._call("pair", item.content)

    def build_grader(self, source: Source | None = None) -> Grader | None:
        from rlhf_exp.graders.checkers import guard

        path = self.module or ""
        return guard(self._own.grade, f"{self.place}.module={path}: grade", path) if self.graded else None

    @cached_property
    def _class(self) -> ast.ClassDef | None:
        """The last class at the top of the file with a method rows; None if there is none, or no file."""
        file = Path(self.module or "").expanduser()
        with suppress(OSError, SyntaxError, ValueError):  # which is told elsewhere (config/rules/files.py)
            if file.is_file():  # a pipe would be waited for
                for node in reversed(ast.parse(file.read_bytes()).body):
                    if isinstance(node, ast.ClassDef) and any(
                        isinstance(part, ast.FunctionDef) and part.name == "rows" for part in node.body
                    ):
                        return node
        return None

    @cached_property
    def _own(self) -> Any:
        """An object of the class in the file, which is imported."""
        key = f"{self.place}.module={self.module}"
        own = import_function(self.functions["module"], key)
        if own is OwnTask or not (isinstance(own, type) and issubclass(own, OwnTask)):
            raise ConfigError([f"{key}: holds no class that derives from OwnTask and has a method rows(self)"])
        return own(**{key.name: getattr(self, key.name) for key in fields(OwnTask)})

    def _call(self, name: str, *arguments: Any) -> Any:
        """What a method of the user's class returns.

        Raises:
            ConfigError: its own, or in one line with its place in the file whatever else it raises.
        """
        own, path = self._own, self.module or ""
        place = f"{self.place}.module={path}: {name}"
        with refusing(f"{place} failed", RewardError), confine(place, path):
            return getattr(own, name)(*arguments)

    def _check_items(self, items: Any, split: str, where: str) -> list[Item]:
        """The items, with the user's own as content and the columns that rewards may read."""
        if not isinstance(items, list) or not all(isinstance(item, Item) for item in items):
            raise ConfigError([f"{where} returned {describe_value(items)} for {split}; must be a list of Item"])
        ids: set[str] = set()
        checked = []
        for number, own in enumerate(items, 1):
            place = f"{where}, row {number} of {split}"
            if not isinstance(own.id, str) or own.id in ids:
                raise ConfigError([f"{place}: its id must be a text of its own, got {show(own.id, 40)}"])
            ids.add(own.id)
            columns = {name: value for name, value in own.columns.items() if name not in ("id", "prompt", *PASSED)}
            item = Item(own.id, columns, own, own.subset)
            validate_prompt(self.write_prompt(item, chat=True), place)
            if self.demonstrates:
                _validate_texts([self.demonstration(item, "0")], 1, f"{place}: demonstration")
            if self.gives_pairs:
                _validate_texts(self.pair(item), 2, f"{place}: pair")
            checked.append(item)
        return checked


def _validate_texts(texts: Sequence[Any], count: int, place: str) -> None:
    if not isinstance(texts, list | tuple) or [type(text) for text in texts] != [str] * count:
        raise ConfigError([f"{place} returned {describe_value(texts)}; must be {count} text{'s' * (count > 1)}"])
    for text in texts:
        validate_characters(text, place)
