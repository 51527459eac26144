r"""Judges the steps of a completion of Countdown: which are right, and how far they lead.

    >>> judge("<think> 8 * 7 = 56 no 8 + 3 = 12 </think> <answer> ...", [8, 7, 3], 53)
    Judgement(verdicts=[True, False], joined=0.5, reached=False)

The **think part** is the text between the first `<think>` and `</think>`, of which the end is read (`keep_end`). If the
completion was cut off, it ends with the completion; if `<think>` is in the prompt, it begins with the completion.
Without either tag there is no think part, and the score is 0. claims.py defines what counts as a step.

A step is **right** if it is arithmetically right, exactly, and each number in it is available: a given number or the
value of an earlier right step, and neither used up by a step since. As in answers, a negative
value can be reached but not used, and `2.67` is not a third of eight.

The **target** is reached if the last step that joins all the numbers has its value, and no later step wrongly claims
it. So attempts that are written without a look at the target earn what the last of them earns.

A step may **go back** if a word or a line break separates it from the previous one: to any point that the search has
reached, above all to the given numbers. (The last MAX_POINTS points are kept.) Steps that are chained, or separated
only by `;` or `,`, continue with the numbers that are left:

    8 * 7 = 56 ; 8 - 3 = 5       the second is wrong, the 8 is used up
    8 * 7 = 56 no 8 - 3 = 5      right, a new attempt
    8 * 7 = 55 ; 55 - 3 = 52     both wrong: 55 is not the value of a right step
"""

from fractions import Fraction
from typing import NamedTuple

from rlhf_exp.graders import keep_end
from rlhf_exp.graders.countdown import evaluate
from rlhf_exp.rewards.claims import Claim, read_claims

OPEN, CLOSE = "<think>", "</think>"
JOINED, WRONG = 0.1, 0.1
"""The reward for joining all the numbers without reaching the target, and the cost of a wrong step."""
MAX_DIGITS = 30
"""Digits of the longest value that is converted; a longer one is wrong, since the given numbers cannot reach it."""
MAX_POINTS = 32
"""How many points, the last ones, a step may go back to; it limits the time."""


class Judgement(NamedTuple):
    """Whether each step is right, in order; which share of the n - 1 joins the longest path of right steps makes; and
    whether the last path that makes all of them ends at the target, with no wrong step to the target behind it."""

    verdicts: list[bool]
    joined: float
    reached: bool


def judge(completion: str, numbers: list[int], target: int) -> Judgement:
    """Judge each step of the think part."""
    start = tuple(sorted(map(str, numbers)))
    points: dict[tuple[str, ...], None] = {}  # the numbers available at each point that was reached, except the start
    here = {start: None}  # possible points now: of two equal numbers either may be meant
    verdicts, most, reached = [], 0, False
    for step in read_claims(keep_end(read_thought(completion))):
        if step.may_go_back:
            here = {start: None, **points}
        left = [rest for point in here if (rest := _take(step.numbers, point)) is not None]
        right = bool(left) and _holds(step)  # checked second, since a step may hold many numbers but few are available
        verdicts.append(right)
        if right:
            shortest = min(map(len, left))
            most = max(most, len(numbers) - 1 - shortest)
            if shortest == 0:
                reached = _value(step) == target
            here = dict.fromkeys(tuple(sorted(rest if step.sign else [*rest, step.value])) for rest in left)
            points |= {point: None for point in here if len(point) > 1}
            for oldest in list(points)[:-MAX_POINTS]:
                del points[oldest]
        elif len(step.value) <= MAX_DIGITS and _value(step) == target:
            reached = False
    return Judgement(verdicts, most / max(1, len(numbers) - 1), reached)


def read_thought(completion: str) -> str:
    """The think part; empty if there is none."""
    before, closed, _ = completion.partition(CLOSE)
    _, opened, thought = before.partition(OPEN)
    return thought if opened else before if closed else ""


def weigh(judgement: Judgement) -> float:
    """The score by the table in process.py, 0 to 1."""
    earned = 1.0 if judgement.reached else JOINED * judgement.joined
    return max(0.0, round(earned - WRONG * judgement.verdicts.count(False), 6))


def _value(step: Claim) -> Fraction:
    return -Fraction(step.value) if step.sign else Fraction(step.value)


def _holds(step: Claim) -> bool:
    """Whether the equation is arithmetically right."""
    if len(step.value) > MAX_DIGITS:
        return False
    found = evaluate(step.expression, step.numbers)
    return found is not None and found.value == _value(step)


def _take(numbers: list[str], point: tuple[str, ...]) -> list[str] | None:
    """The numbers left at a point without `numbers`; None if one of them is not available."""
    left = list(point)
    for number in numbers:
        if number not in left:
            return None
        left.remove(number)
    return left
