"""Your own rows, as each algorithm learns from them, with all their columns.

A row as it is read, with prompt_template="Question: {question}", and as prompt, demonstration and pair:

    {"question": "What is 2 + 2?", "answer": "4", "good": "It is 4.", "bad": "It is 5."}
    {"id": "53b0c5e2a1f94d77", "prompt": "Question: What is 2 + 2?", "question": ..., "answer": "4", ...}
    {"prompt": "Question: What is 2 + 2?", "completion": " It is 4."}                 # completion_column=good
    {"id": ..., "subset": "all", "prompt": ..., "chosen": " It is 4.", "rejected": " It is 5."}

Rows for which the model's context is too short are dropped and counted: prompts together with max_tokens, and whole
demonstrations and pairs. Only as many rows as needed are tokenized, so the count covers only these. file_rows.py reads
the rows.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from rlhf_exp.config.values import find_pattern_problem
from rlhf_exp.forms import DEMONSTRATIONS, PAIRS, PROMPTS
from rlhf_exp.graders import PASSED
from rlhf_exp.graders.checkers import Checker, build_checker, find_answer_problem
from rlhf_exp.tasks.file_rows import read_source
from rlhf_exp.tasks.schema import GradedKeys
from rlhf_exp.tasks.sources import Item, Source
from rlhf_exp.tasks.texts import Text, shape_prompt

SPLITS = ("train", "validation", "test")

READY = ("exact", "numeric", "math", "choice", "regex")
"""Checkers of the package (rewards/checkers.py)."""


@dataclass(frozen=True)
class Keys(GradedKeys):
    """The keys of task=file. Which columns they name decides whether there are right answers, demonstrations, pairs."""

    name: Literal["file"]
    source: Literal["file", "hub"]
    hub_id: str | None
    hub_config: str | None
    prompt_template: str | None
    answer_column: str | None
    checker: str | None
    pattern: str | None
    completion_column: str | None
    chosen_column: str | None
    rejected_column: str | None
    split_column: str | None
    splits: dict[Literal[SPLITS], str | int | bool | None]

    file = "a .jsonl, .jsonl.gz, .csv, .csv.gz or .parquet file, or a folder with train and test files"
    reads_folder = True
    answers_apart = True
    first_look = "rlhf_exp.tasks.file_rows:look_at_columns"
    provided_by: ClassVar[dict[str, str]] = {
        DEMONSTRATIONS: "task.completion_column (or a checker, with task.samples=self)",
        PAIRS: "task.chosen_column and task.rejected_column (or a checker, to make them of samples)",
    }
    ready_functions = READY
    graded_by = ("task.answer_column", "task.checker=FILE.py:FUNCTION")

    def __post_init__(self) -> None:
        graded = self.checker is not None or self.answer_column is not None
        paired = self.chosen_column is not None
        provides = [PROMPTS]
        provides += [DEMONSTRATIONS] if graded or self.completion_column is not None else []
        provides += [PAIRS] if graded or paired else []
        for name, value in {"graded": graded, "gives_pairs": paired, "provides": tuple(provides)}.items():
            object.__setattr__(self, name, value)  # the class says what such a task may have, an instance what it has

    @property
    def answers(self) -> tuple[str, ...]:
        """The columns with demonstrations and pairs."""
        named = (self.completion_column, self.chosen_column, self.rejected_column)
        return tuple(name for name in named if name is not None)

    @property
    def named_splits(self) -> dict[str, str]:
        """What the source calls each split."""
        named = {name: str(self.splits[name]) for name in SPLITS if self.splits.get(name) is not None}
        return named or dict(zip(SPLITS, SPLITS, strict=True))

    @property
    def names_splits(self) -> bool:
        """Whether `splits` names any, so that others are left out."""
        return any(name is not None for name in self.splits.values())

    @property
    def ready_checker(self) -> str | None:
        """The name of the package's checker; None if there is none, or a function of the user's."""
        return self.checker if self.checker in READY else "exact" if self.checker is None and self.graded else None

    @property
    def functions(self) -> dict[str, str]:
        return {"checker": self.checker} if self.checker not in (None, *READY) else {}

    def find_problems(self, key: str) -> list[str]:
        other = f"{key}.source=hub, since {key}.hub_id={self.hub_id}" if self.hub_id else None
        other = other or f"{key}.hub_id, a data set on the hub"
        problems = [f"{line}; or {other}" for line in super().find_problems(key)]
        if self.source == "hub" and self.hub_id is None:
            problems.append(f"{key}.source=hub: needs {key}.hub_id, a data set such as openai/gsm8k")
        if "train" not in self.named_splits:
            problems.append(f"{key}.splits: names no train, the rows to learn from; such as {{train: a, test: b}}")
        elif len(set(self.named_splits.values())) < len(self.named_splits):
            problems.append(f"{key}.splits: has one name for two splits; leave one out, and a hash makes it of train")
        if (self.chosen_column is None) != (self.rejected_column is None):
            problems.append(f"{key}.chosen_column and {key}.rejected_column: must both be set, or neither")
        if self.ready_checker and self.answer_column is None:
            problems.append(f"{key}.checker={self.checker}: needs {key}.answer_column, the column with the answer")
        if (self.ready_checker == "regex") != (self.pattern is not None):
            problems.append(f"{key}.pattern: belongs to {key}.checker=regex, which needs one, such as 'Answer: (.*)'")
        elif self.pattern is not None and (problem := _find_pattern_problem(self.pattern)):
            problems.append(f"{key}.pattern={self.pattern}: {problem}")
        if self.graded and self.answer_column in ("prompt", *PASSED):
            problems.append(f"{key}.answer_column={self.answer_column}: training has another meaning for it; rename it")
        if self.samples is not None and not self.graded:
            needed = " or ".join(self.graded_by)
            problems.append(f"{key}.samples={self.samples}: samples must be graded to be learned from; set {needed}")
        return problems

    def find_lacking(self, need: str) -> str | None:
        if need != DEMONSTRATIONS or self.completion_column is not None or self.samples is not None:
            return None
        return "needs task.completion_column, or task.samples=self for its own correct samples"


def _find_pattern_problem(pattern: str) -> str | None:
    if problem := find_pattern_problem(pattern):
        return problem
    groups = re.compile(pattern).groups
    return None if groups <= 1 else f"has {groups} groups; must have one, or none"


def read(keys: Keys) -> Source:
    """The rows that the keys name. The content of each is its FileRow (file_rows.py), with its prompt and answers.

    Raises:
        ConfigError: a file or row that cannot be read, a column that is missing, a prompt in two splits, or an answer
            that the checker cannot read.
    """
    return read_source(keys, lambda answer: find_answer_problem(keys, answer))


def prompt(item: Item, chat: bool) -> Text:
    return shape_prompt(item.content.prompt, item.content.where, chat)


def demonstration(item: Item, keys: Keys, seed: str) -> str | None:
    """The answer to learn from; without one, to describe the data, the right answer."""
    name = keys.completion_column
    if name is not None:
        return item.content.answers[name]
    return None if keys.answer_column is None else str(item.columns[keys.answer_column])


def pair(item: Item, keys: Keys) -> tuple[str, str]:
    return item.content.answers[keys.chosen_column], item.content.answers[keys.rejected_column]


def build_grader(keys: Keys, source: Source | None) -> Checker:
    return build_checker(keys, source.originals if source else {})
