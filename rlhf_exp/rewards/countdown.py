"""Countdown's own reward: how near an answer is.

    graduated(None, None, completions=["<answer> 8 * 7 + 3 </answer>"], numbers=[[8, 7, 3]], target=[60])    # [0.3]

The grader of Countdown is in graders/countdown.py; `grade` and what else users import of it stay available here.
"""

from typing import Any

from rlhf_exp.graders import read_text
from rlhf_exp.graders.countdown import evaluate, read_answer
from rlhf_exp.graders.countdown import grade as grade


def graduated(
    cfg: Any, task: Any, /, completions: list[Any], numbers: list[list[int]], target: list[int], **columns: Any
) -> list[float]:
    """How near each answer is to the target, while the outcome rewards only right answers.

    | score | the answer, read as in graders/countdown.py; distances are exact |
    |---|---|
    | 1.0 | is correct |
    | 0.3 | is valid, and at most 5% of the target, which is positive, away from it |
    | 0.2 | is valid, and at most 10% of the target away from it |
    | 0.1 | is valid: an expression of exactly the given numbers, each used once (also where it divides by zero) |
    | 0.05 | is there |
    | 0.0 | is missing |

    The scores for wrong answers are low, and need a distance that a fixed template such as "largest + middle -
    smallest" seldom reaches by chance (half of the problems within 50%, a fifth within 10%): its wrong answers earn
    0.1, as those of the start model do. `python bench/farmers.py` measures every template.
    """
    return [_score_distance(read_text(c), n, t) for c, n, t in zip(completions, numbers, target, strict=True)]


def _score_distance(completion: str, numbers: list[int], target: int) -> float:
    expression = read_answer(completion)
    if not expression:
        return 0.0
    found = evaluate(expression, [str(number) for number in numbers])
    if found is None or found.unused:
        return 0.05
    if found.value is None:
        return 0.1
    error: Any = abs(found.value - target)
    if error == 0:
        return 1.0
    if 20 * error <= target:
        return 0.3
    return 0.2 if 10 * error <= target else 0.1
