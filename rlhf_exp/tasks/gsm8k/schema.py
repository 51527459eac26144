"""The keys of task=gsm8k."""

from dataclasses import dataclass
from typing import Literal

from rlhf_exp.tasks.schema import GradedKeys


@dataclass(frozen=True)
class Keys(GradedKeys):
    name: Literal["gsm8k"]

    columns = ("answer",)
    file = "a JSONL file with question and answer, or a folder with train.jsonl and test.jsonl"
    reads_folder = True
    budget = (512, "as verl's scripts for GSM8K; gold answers have up to 341 tokens of Qwen3")
