"""Countdown in steps: rewards how near an answer is to the target, while the outcome rewards only right answers.

    >>> score("<answer> 8 * 7 + 3 </answer>", [8, 7, 3], 56)  # 59 is within 10% of 56
    0.2

| score | the answer |
|---|---|
| 1.0 | is correct |
| 0.3 | is valid, and at most 5% of the target away from it |
| 0.2 | is valid, and at most 10% of the target away from it |
| 0.1 | is valid: an expression of exactly the given numbers, each used once (also where it divides by zero) |
| 0.05 | is there |
| 0.0 | is missing |

Answers are read as in countdown.py, and distances are exact. Numbers without operators between them are not valid, so
copying the prompt earns no more than any other answer.

The scores for wrong answers are low, and need a distance that a fixed template such as "largest + middle - smallest"
seldom reaches by chance (half of the problems within 50%, a fifth within 10%): its wrong answers earn 0.1, as
those of the start model do. `python bench/farmers.py` measures every template.
"""

from typing import Any

from rlhf_exp.graders import read_text

NEEDS = ("numbers", "target")


def score(completion: str, numbers: list[int], target: int) -> float:
    """The grade of one completion, by the table above; `target` is positive."""
    from rlhf_exp.graders.countdown import evaluate, read_answer  # every command imports this module, few that one

    expression = read_answer(completion)
    if not expression:
        return 0.0
    found = evaluate(expression, [str(number) for number in numbers])
    if found is None or found.unused:
        return 0.05
    if found.value is None:
        return 0.1
    error = abs(found.value - target)
    if error == 0:
        return 1.0
    return 0.3 if 20 * error <= target else 0.2 if 10 * error <= target else 0.1


def graduated(completions: list[Any], numbers: list[list[int]], target: list[int], **columns: Any) -> list[float]:
    """The score of each completion."""
    return [score(read_text(c), *row) for c, *row in zip(completions, numbers, target, strict=True)]
