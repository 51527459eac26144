"""A mixture: rows of several tasks in given shares, each with the prompt, the columns and the grader of its task.

    python -m rlhf_exp task=mixture 'task.of={countdown: {}, gsm8k: {source: generated}}' \\
      'task.shares={countdown: 0.7, gsm8k: 0.3}'

A part is called by its task, or has a name of its own: `task.of={easy: {name: gsm8k, largest: 20}, ...}`. Its rows have
the columns of all parts, None where their task has no such column, and `task`, the name of the part:

    {"id": "gsm8k 53b0c5e2a1f94d77", "prompt": ..., "task": "gsm8k", "answer": "...", "numbers": None, "target": None}

Each split holds as many rows as the parts have in these shares. Of rows that are drawn there are
DRAWN of each part to choose from.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from random import Random
from typing import Annotated, Any, ClassVar, Literal, Union

from pydantic import Field

from rlhf_exp.config.values import PositiveShare
from rlhf_exp.errors import ConfigError, within
from rlhf_exp.forms import ASK
from rlhf_exp.tasks.splits import SHARES
from rlhf_exp.tasks.task import GradedTask, Grader, Item, Source, find_task
from rlhf_exp.tasks.texts import Row, Text

PARTS = ("countdown", "file", "gsm8k", "module")
"""The tasks that a part can be of: those whose completions are right or wrong."""
COMMON = ("train_rows", "data_seed", "prompt", "system_prompt", "samples", "sampling", "baselines")
"""Keys of the mixture, which its parts have from it (`fill_parts` in compose.py)."""
FEWEST = {1: "a part", 2: "two parts"}
DRAWN = {"train": 4_096, "validation": 512, "test": 1_024}


@dataclass(frozen=True)
class Mixture(GradedTask):
    """The keys of task=mixture. `of`: the parts by name; `shares`: of the rows, by the same names. The
    content of a row is its part's name and its Item there."""

    name: Literal["mixture"]
    source: Literal["tasks"]  # type: ignore[assignment]  # it alone has "tasks"
    hub_id: None  # type: ignore[assignment]
    of: dict[str, Annotated[Union[tuple(map(find_task, PARTS))], Field(discriminator="name")]]  # type: ignore[valid-type]  # noqa: UP007
    shares: dict[str, PositiveShare]

    columns: ClassVar[tuple[str, ...]] = ("task",)
    least: ClassVar[int] = 2
    """So many parts at least."""

    def __post_init__(self) -> None:
        self.limit(True, all(part.demonstrates for part in self.of.values()), pairs=False)
        self.move("task")

    def move(self, place: str) -> None:
        super().move(place)
        for name, part in self.of.items():
            part.move(f"{place}.of.{name}")

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.of) if len(self.of) > 1 else ()

    def list_sources(self) -> list[tuple[str, Any]]:
        return [*((part.place, part) for part in self.of.values()), (self.place, self)]

    def find_problems(self, key: str) -> list[str]:
        problems = super().find_problems(key)
        if len(self.of) < self.least:
            example = f"{key}.of={{countdown: {{}}, gsm8k: {{source: generated}}}}"
            problems.append(f"{key}.of: needs {FEWEST[self.least]} or more, such as '{example}'")
        if {*self.shares} != {*self.of}:
            problems.append(f"{key}.shares: must name the parts, {', '.join(self.of)}; got {', '.join(self.shares)}")
        if self.of and not math.isclose(total := sum(self.shares.values()), 1, abs_tol=1e-6):
            problems.append(f"{key}.shares: must sum to 1, and sum to {total:g}")
        for name, part in self.of.items():
            if not part.graded:
                needed = " or ".join(part.graded_by).replace("task.", f"{key}.of.{name}.")
                problems.append(f"{key}.of.{name}: its answers are not right or wrong; set {needed}")
            own = [common for common in COMMON if getattr(part, common) != getattr(self, common)]
            problems += [f"{key}.of.{name}.{common}: is the same for all parts; set {key}.{common}" for common in own]
        return problems

    def rows(self) -> Source:
        """The rows of all parts.

        Raises:
            ConfigError: those of a part, in lines that begin with its name; a part without rows, or a column with
                values of two types.
        """
        read = {name: self._read(name) for name in self.of}
        blank = self._list_columns(read)
        splits: dict[str, list[Item]] = {split: [] for split in SHARES}
        for split, items in splits.items():
            total = min(len(read[name].splits[split]) / share for name, share in self.shares.items())
            if split == "train" and self.train_rows is not None:
                total = min(total, self.train_rows)
            for name, share in self.shares.items():
                own = sorted(read[name].splits[split], key=attrgetter("id"))
                Random(self.data_seed if split == "train" else 0).shuffle(own)
                items += [Item(f"{name} {item.id}", blank | item.columns | {"task": name}, (name, item), name)
                          for item in own[: round(total * share)]]  # fmt: skip
        repeated = frozenset(f"{name} {own}" for name, source in read.items() for own in source.repeated)
        counts = {name: sum(source.read.values()) for name, source in read.items()}
        facts = {"read": counts, "parts": {name: source.facts for name, source in read.items()}}
        return Source(splits, counts, facts=facts, repeated=repeated)

    def write_prompt(self, item: Item, chat: bool) -> Text:
        name, own = item.content
        return self.of[name].write_prompt(own, chat)

    def demonstration(self, item: Item, seed: str) -> str | None:
        name, own = item.content
        part: Any = self.of[name]
        return part.demonstration(own, seed) if part.demonstrates else None

    def gold(self, item: Item) -> str | None:
        name, own = item.content
        part: Any = self.of[name]
        return part.gold(own) if hasattr(part, "gold") else self.demonstration(item, "0")

    def build_grader(self, source: Source | None = None) -> Grader:
        """Grades a row by its part's grader."""
        graders: dict[str, Any] = {}
        for name, part in self.of.items():
            splits = {split: [item.content[1] for item in items if item.subset == name]
                      for split, items in (source.splits if source else {}).items()}  # fmt: skip
            graders[name] = part.build_grader(Source(splits, {}))

        def grade(completion: str, row: Row) -> Any:
            name = row["task"]
            return graders[name](completion, {**row, "id": row.get("id", "").removeprefix(f"{name} ")})

        return grade

    def _read(self, name: str) -> Source:
        """The rows of a part. Those that are drawn depend on `data_seed` only where they are trained on."""
        part: Any = self.of[name]
        with within(part.place, is_key=True):
            if not part.draws_rows or part.source != "generated":
                source = part.rows()
            else:
                seeds = {"train": self.data_seed, "validation": 0, "test": 0}
                wanted = DRAWN | ({"train": self.train_rows} if self.train_rows else {})
                drawn = {split: part.draw(ASK, split, n, seeds[split], distinct=True, fewer=True)
                         for split, n in wanted.items()}  # fmt: skip
                source = Source(drawn, {split: len(items) for split, items in drawn.items()})
        if empty := [split for split in ("train", "test") if not source.splits[split]]:
            raise ConfigError([f"{part.place}: has no rows in its {empty[0]} split"])
        return source

    def _list_columns(self, read: Mapping[str, Source]) -> Row:
        """Each column of a part with None."""
        types: dict[str, dict[type, str]] = {}
        for name, source in read.items():
            for column, value in source.splits["train"][0].columns.items():
                types.setdefault(column, {}).setdefault(type(value), name)
        for column, kinds in types.items():
            if len(kinds) > 1:
                found = ", ".join(f"{kind.__name__} in {name}" for kind, name in kinds.items())
                line = f"the column {column} has values of two types, {found}; rename one"
                raise ConfigError([f"{self.place}.of: {line}"])
        return dict.fromkeys(types)
