r"""Countdown's process reward: scores whether the steps before the answer lead from the given numbers to the target.

    process(completions=["<think> 8 * 7 = 56 - 3 = 53 yes </think> ..."], numbers=[[8, 7, 3]], target=[53])    # [1.0]

| score | the think part |
|---|---|
| 1.0 | joins all the given numbers, step by right step, into the target, and does not go on to another value |
| 0.1 | joins all of them into another number |
| 0.05 | of three numbers, joins two; in general 0.1 times the joined share of the n - 1 steps that a solution takes |
| 0.0 | has no right step |

Each wrong step costs 0.1, but the score is never below 0. So arithmetic alone earns at most as much as a wrong answer
in the outcome, and a search is rewarded by where it ends: the last step that joins all the numbers counts, so that a
list of attempts earns no more than its last one. More right steps neither earn more nor hide a wrong one.

claims.py defines what a step is, and steps.py when it is right.

Training logs the mean number of steps, right or wrong, as `process/steps`.
"""

from collections.abc import Callable
from typing import Any

from rlhf_exp.graders import read_text

NEEDS = ("numbers", "target")


def process(
    completions: list[Any],
    numbers: list[list[int]],
    target: list[int],
    log_metric: Callable[[str, float], None] | None = None,
    **columns: Any,
) -> list[float]:
    """The score of each completion."""
    from rlhf_exp.rewards.steps import judge, weigh

    judged = [judge(read_text(c), *row) for c, *row in zip(completions, numbers, target, strict=True)]
    if log_metric is not None:
        log_metric("process/steps", sum(len(found.verdicts) for found in judged) / len(judged))
    return [weigh(found) for found in judged]
