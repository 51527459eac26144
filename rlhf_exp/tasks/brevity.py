"""Brevity: prompts of any kind; the reward (rewards/brevity.py) depends only on the number of words.

A row, with id and prompt of another task:

    {"id": "3 7 8 > 53", "prompt": "use 8 7 3 make 53 ."}

`task.source=task` takes prompts and splits from another task, `task@task.of=countdown`, whose keys are `task.of.low`,
`task.of.source`, ... There are no right answers, so the reward is measured, but no accuracy.

`task.source=file` reads a JSONL file, one object per line: a text, or a list of messages of which the last is the
user's:

    {"prompt": "Write a note to the milkman."}
    {"prompt": [{"role": "user", "content": "Write a note to the milkman."}]}

A row's id is then a hash of its prompt, and the same hash puts it into train, validation or test (80, 8 and 12 of 100).
Repeated prompts, and prompts that leave no room for max_tokens in the model's context, are dropped and counted.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from pydantic import Field

from rlhf_exp.tasks.sources import read_lines
from rlhf_exp.tasks.splits import SHARES, hash_text, split_of
from rlhf_exp.tasks.task import PARTED, TASKS, Item, OddKind, Source, Task, find_task
from rlhf_exp.tasks.texts import Text, validate_prompt

OTHERS = tuple(find_task(name) for name in TASKS if name not in ("brevity", *PARTED))


@dataclass(frozen=True)
class Brevity(Task):
    """The keys of task=brevity. `of` is read where `source` says task; else the content of a row is its prompt."""

    name: Literal["brevity"]
    source: Literal["task", "file"]  # type: ignore[assignment]  # it alone has "task"
    of: Annotated[Union[OTHERS], Field(discriminator="name")]  # type: ignore[valid-type]  # noqa: UP007

    path_form = "a JSONL file with prompt"
    budget = (32, "the reward, 2 - words / 16, is below 0 beyond 32 words")

    def __post_init__(self) -> None:
        self.move("task")

    def move(self, place: str) -> None:
        super().move(place)
        inner: Any = self.of
        inner.move(f"{place}.of")

    def list_sources(self) -> list[tuple[str, Any]]:
        return [(self.place, self), *([(f"{self.place}.of", self.of)] if self.source == "task" else [])]

    def rows(self) -> Source:
        """The rows of `path`, each prompt once."""
        distinct: dict[str, Item] = {}
        count = 0
        for where, row in read_lines(Path(self.path or "")):
            prompt = row.get("prompt") if isinstance(row, dict) else None
            validate_prompt(prompt, where)
            own = hash_text(json.dumps(prompt))
            distinct[own] = Item(own, {}, prompt)
            count += 1
        splits: dict[str, list[Item]] = {name: [] for name in SHARES}
        for own in sorted(distinct):
            splits[split_of(own)].append(distinct[own])
        repeated = count - len(distinct)
        sizes = {name: len(items) for name, items in splits.items()}
        odd = OddKind("repeated", "the prompt was read before", repeated)
        facts = {"read": {"all": count}, "duplicates": repeated, "splits": sizes}
        return Source(splits, {"all": count}, "prompts", (odd,), facts)

    def write_prompt(self, item: Item, chat: bool) -> Text:
        return item.content
