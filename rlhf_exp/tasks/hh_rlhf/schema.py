"""The keys of task=hh_rlhf."""

from dataclasses import dataclass
from typing import Literal

from rlhf_exp.algorithms import DEMONSTRATIONS, PAIRS, PROMPTS
from rlhf_exp.config.ranges import within
from rlhf_exp.tasks.schema import TaskKeys

SUBSETS = ("harmless-base", "helpful-base", "helpful-online", "helpful-rejection-sampled")


@dataclass(frozen=True)
class Keys(TaskKeys):
    name: Literal["hh_rlhf"]
    hub_id: str
    subsets: list[Literal[SUBSETS]]
    max_length: int | None = within(">= 2, <= 10000000")

    provides = (PROMPTS, DEMONSTRATIONS, PAIRS)
    file = "a .jsonl or .jsonl.gz file with chosen and rejected, or a folder of them"
    reads_folder = True
    budget = (128, "half of the 256 tokens that experiment=hh_rlhf_gpt2_* allows a prompt with its answer")

    def find_problems(self, key: str) -> list[str]:
        empty = f"{key}.subsets=[]: must hold one of harmless-base, helpful-base, ...; see --help"
        return [*([] if self.subsets else [empty]), *super().find_problems(key)]
