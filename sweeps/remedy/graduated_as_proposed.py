"""The reward of remedy=graduated_as_proposed."""

from typing import Any

from rlhf_exp.graders.countdown import evaluate, read_answer


def steps(completions: list[str], numbers: list[list[int]], target: list[int], **columns: Any) -> list[float]:
    """1 for a correct answer; 0.7 and 0.5 for exactly the given numbers within 10% and 50% of the target, 0.3 for them
    alone; 0.1 for another answer, 0 for none."""
    return [_score(*row) for row in zip(completions, numbers, target, strict=True)]


def _score(completion: str, numbers: list[int], target: int) -> float:
    expression = read_answer(completion)
    found = evaluate(expression, [str(number) for number in numbers]) if expression else None
    if found is None or found.unused:
        return 0.1 if expression else 0.0
    if found.value is None:  # divides by zero
        return 0.3
    error = abs(found.value - target)
    return 1.0 if error == 0 else 0.7 if 10 * error <= target else 0.5 if 2 * error <= target else 0.3
