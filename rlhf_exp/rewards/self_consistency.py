"""Rewards agreement with the majority: 1.0 for an answer that no other answer of its group outvotes, else 0.0.

    >>> agree(["a prompt"] * 4, ["1 + 2", "1 + 2", "3", None])
    [1.0, 1.0, 0.0, 0.0]

No gold answer is used (Zuo et al. 2025, arXiv:2504.16084): the policy's most frequent answer is rewarded, right or
wrong.

- A **group** is the completions of one prompt in the batch; a prompt that is drawn twice has one group.
- An **answer** is the grader's `extracted` in its spelling, as in majority@k of the evaluation: `18` and `18.0` are two
  answers, and so are two expressions of the same value. A completion without an answer has no vote and scores 0.0.
- In a **tie**, every answer with the most votes scores 1.0, so that the order does not matter. If all answers differ,
  all score 1.0, and the group teaches nothing.
- **Alone**, as in an evaluation with one completion per row, an answer agrees with itself: the score then only says
  whether there is one. To measure agreement set eval.completions above 1 (eval=full); a greedy completion is always
  alone.
"""

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders import NumberGrade
from rlhf_exp.rewards import RewardFunction, grade_completions

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config
    from rlhf_exp.tasks import Task

NEEDS = ("grade",)


def agree(groups: list[str], answers: list[str | None]) -> list[float]:
    """For each answer (None if missing), in the group of that name: 1.0 if it is the majority's, else 0.0."""
    pairs = list(zip(groups, answers, strict=True))
    votes = Counter(pair for pair in pairs if pair[1] is not None)
    most = {group: n for (group, _), n in reversed(votes.most_common())}  # the largest comes last, and stays
    return [float(answer is not None and votes[group, answer] == most[group]) for group, answer in pairs]


def check(cfg: "Config") -> list[str]:
    """Whether a policy that learns by it samples more than one completion of a prompt."""
    online = ALGORITHMS[cfg.algo.name].online
    if "self_consistency" not in cfg.reward.weights or not online or cfg.algo.args.get("num_generations", 1) != 1:
        return []
    alone = "compares the completions of one prompt, and num_generations is 1"
    return [f"reward.weights.self_consistency: {alone}; use ++algo.args.num_generations=8"]


def build(cfg: "Config", task: "Task") -> RewardFunction:
    """The reward function.

    Raises:
        ConfigError: the task's grader returns numbers, which say nothing about the answer to vote on.
    """
    _refuse_numbers(task)

    def self_consistency(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float]:
        grades = grade_completions(task, prompts, completions, columns)
        return agree([json.dumps(prompt) for prompt in prompts], [grade.extracted for grade in grades])

    return self_consistency


def _refuse_numbers(task: "Task") -> None:
    """Try the grader on a few rows, with the texts that a row holds: one of them may be the right answer."""
    tries = [(text, row) for row in task.eval[:4] for text in ("", "0", *map(str, row.values()))]
    if tries and all(isinstance(task.grade(text, row), NumberGrade) for text, row in tries):
        line = "compares answers, and the checker returns numbers, which do not say what the answer was"
        remedy = "return rlhf_exp.rewards.grade.Grade(outcome, score, extracted), or use reward=outcome"
        raise ConfigError([f"reward.weights.self_consistency: {line}; {remedy}"])
