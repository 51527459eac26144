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

from rlhf_exp.tasks.schema import TaskKeys, find_keys, list_tasks
from rlhf_exp.tasks.sources import Item, OddKind, Source, read_lines
from rlhf_exp.tasks.splits import SHARES, hash_text, split_of
from rlhf_exp.tasks.texts import Text, validate_prompt

OTHERS = tuple(find_keys(name) for name in list_tasks() if name != "brevity")


@dataclass(frozen=True)
class Keys(TaskKeys):
    """The keys of task=brevity. `of` is read where `source` says task."""

    name: Literal["brevity"]
    source: Literal["task", "file"]  # type: ignore[assignment]  # it alone has "task"
    of: Annotated[Union[OTHERS], Field(discriminator="name")]  # type: ignore[valid-type]  # noqa: UP007

    file = "a JSONL file with prompt"
    shuffles_fitting = True
    budget = (32, "the reward, 2 - words / 16, is below 0 beyond 32 words")

    def list_sources(self) -> list[tuple[str, Any]]:
        return [("task", self), *([("task.of", self.of)] if self.source == "task" else [])]


def read(keys: Keys) -> Source:
    """The rows of `task.path`, each prompt once; their content is the prompt.

    Raises:
        ConfigError: a row that cannot be read.
    """
    distinct, count = {}, 0
    for count, (where, row) in enumerate(read_lines(Path(keys.path or "")), 1):  # noqa: B007
        prompt = row.get("prompt") if isinstance(row, dict) else None
        validate_prompt(prompt, where)
        own = hash_text(json.dumps(prompt))
        distinct[own] = Item(own, {}, prompt)
    items = [distinct[own] for own in sorted(distinct)]
    splits = {name: [item for item in items if split_of(item.id) == name] for name in SHARES}
    repeated = count - len(items)
    sizes = {name: len(members) for name, members in splits.items()}
    facts = {"read": {"all": count}, "duplicates": repeated, "splits": sizes}
    odd = OddKind("repeated", "the prompt was read before", False, {"all": repeated})
    return Source(splits, {"all": count}, "prompts", (odd,), facts)


def prompt(item: Item, chat: bool) -> Text:
    return item.content
