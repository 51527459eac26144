"""reasoning_gym: a data set of the package reasoning-gym, whose problems are generated (arXiv:2505.24760).

    python -m rlhf_exp task=reasoning_gym task.dataset=chain_sum +task.options.max_terms=3 model=qwen2_5_0_5b

A row: {"id": "17", "prompt": "State the final answer ... in <answer> </answer> tags.", "answer": "7"}; `answer` is None
for the data sets that have no gold answers.

`task.rows` problems are drawn with the data set's own seed (0, or +task.options.seed). Repeated questions are dropped,
and a hash of the question puts each into train, validation or test: two seeds would give overlapping rows, since
problem i of seed s is problem i - 1 of seed s + 1.

The answer is read from the last closed <answer>, and graded by the data set's own score_answer: 1 is correct, 0 is
failed, between them partial. An answer with which it raises an error, or that reaches a limit, is failed, and so is an
empty one, for which some graders give 0.01. docs/results/graders.md says how each grader can be fooled.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from rlhf_exp.config.values import ROWS, Within, show, suggest
from rlhf_exp.graders import Grade, Outcome, find_tags, keep_end
from rlhf_exp.graders.reasoning_gym import Child
from rlhf_exp.tasks.schema import GradedKeys
from rlhf_exp.tasks.sources import Item, Source
from rlhf_exp.tasks.splits import SHARES, split_of
from rlhf_exp.tasks.texts import Row

PROMPT = "{question}\n\nThink step by step. Then give the final answer, and nothing else, in <answer> </answer> tags."
start_child = lru_cache(maxsize=2)(Child)


@dataclass(frozen=True)
class Keys(GradedKeys):
    """The keys of task=reasoning_gym; `options` are those of the data set."""

    name: Literal["reasoning_gym"]
    source: Literal["generated"]  # type: ignore[assignment]
    hub_id: None  # type: ignore[assignment]
    dataset: str | None
    options: dict[str, Any]
    rows: Annotated[int, Within(ROWS)]

    columns = ("answer",)

    def find_problems(self, key: str) -> list[str]:
        if find_spec("reasoning_gym") is None:
            return [f"{key}=reasoning_gym: its package is not installed; pip install 'reasoning-gym>=0.1.25,<0.2'"]
        from reasoning_gym.factory import DATASETS

        if self.dataset not in DATASETS:
            known = "must be one of the data sets in docs/results/graders.md, such as chain_sum"
            return [f"{key}.dataset={show(self.dataset)}: {known}{suggest(self.dataset, DATASETS)}"]
        return super().find_problems(key)

    def start(self) -> Child:
        """The process that makes the rows and grades answers; the same one for the same keys."""
        return start_child(self.dataset or "", json.dumps(self.options, sort_keys=True), self.rows)


def read(keys: Keys) -> Source:
    """The problems of train, validation and test, without repeated questions.

    Raises:
        ConfigError: the data set refuses its options, or cannot make so many rows.
    """
    distinct = {question: (str(i), answer) for i, (question, answer) in enumerate(keys.start().rows)}
    items = [Item(i, {"answer": answer}, question) for question, (i, answer) in distinct.items()]
    splits = {name: [item for item in items if split_of(item.content) == name] for name in SHARES}
    return Source(splits, {"all": keys.rows}, "problems", facts={"drawn": keys.rows, "distinct": len(items)})


def prompt(item: Item, chat: bool) -> str:
    return PROMPT.format(question=item.content)


def demonstration(item: Item, keys: Keys, seed: str) -> str | None:
    """The gold answer alone, without the steps to it."""
    answer = item.columns["answer"]
    return None if answer is None else f"<answer>{answer}</answer>"


def build_grader(keys: Keys, source: Source | None) -> Callable[[str, Row], Grade]:
    child = keys.start()

    def grade(completion: str, row: Row) -> Grade:
        answer = find_tags(keep_end(completion))[1].strip()
        found = child.score(int(row["id"]), answer) if answer else 0.0
        score = 0.0 if isinstance(found, str) else found
        outcome: Outcome = "correct" if score == 1 else "partial" if score else "failed"
        return Grade(outcome, score, answer or None)

    return grade
