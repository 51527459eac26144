"""The keys of task=brevity: the prompts of another task, or of a file."""

from dataclasses import dataclass
from typing import Literal, Union

from rlhf_exp.tasks.schema import TaskKeys, find_keys, list_tasks


@dataclass(frozen=True)
class Keys(TaskKeys):
    """`of` is read where `source` says task."""

    name: Literal["brevity"]
    source: Literal["task", "file"]
    of: Union[tuple(find_keys(name) for name in list_tasks() if name != "brevity")]  # noqa: UP007

    file = "a JSONL file with prompt"
    budget = (32, "the reward, 2 - words / 16, is below 0 beyond 32 words")

    def list_sources(self) -> list[tuple[str, TaskKeys]]:
        return [("task", self), *([("task.of", self.of)] if self.source == "task" else [])]
