"""The form of rows in which describe/ measures every task, and the kinds of odd rows that a task counts.

A task's rows.py may have `read_examples(cfg, tokenizer) -> Data`; without it, describe/examples.py takes the loaded
rows.
"""

from dataclasses import dataclass
from typing import NamedTuple

from rlhf_exp.tasks import Text


class Example(NamedTuple):
    """One row. `prompt_words` counts no words of a template or speakers' names; `answers` may be empty."""

    subset: str
    split: str
    turns: int
    prompt_words: int
    prompt: Text
    answers: tuple[Text, ...]


class Odd(NamedTuple):
    """A kind of odd row: its rule, whether it is kept, and how many there are in each part."""

    kind: str
    rule: str
    kept: bool
    counts: dict[str, int]


@dataclass(frozen=True)
class Data:
    """The data of a task. `answers` names the answers of a row; `read` counts the rows that were read, by part."""

    source: str
    answers: tuple[str, ...]
    examples: list[Example]
    read: dict[str, int]
    odd: list[Odd]
