r"""Judges the steps of a completion of Countdown: which are right, and how far they lead.

    >>> judge("<think> 8 * 7 = 56 no 8 + 3 = 12 </think> <answer> ...", [8, 7, 3], 53)
    Judgement(verdicts=[True, False], joined=0.5, reached=False)

The **think part** is what stands between the first `<think>` and `</think>`, of which the end is read (`keep_end`). It
goes to the end of a completion that was cut off, and begins with one whose `<think>` is in the prompt. Without either
tag there is none, and the score is 0. What counts as a step there: claims.py.

A step is **right** if it is arithmetically right, exactly, and each number in it is available: a given number or the
value of an earlier right step, and neither used up by a step since. In the answer's grammar: a value that is negative
can be reached and not be used, `2.67` is not a third of eight.

A step may **go back** where a word or a line break parts it from the last: to any point that the search has reached,
the given numbers first of all. (The last MAX_POINTS points are kept.) Steps that are chained, or parted by no more than
`;` or `,`, go on from what is left:

    8 * 7 = 56 ; 8 - 3 = 5       the second is wrong, the 8 is used up
    8 * 7 = 56 no 8 - 3 = 5      right, a new attempt
    8 * 7 = 55 ; 55 - 3 = 52     both wrong: 55 is nobody's value
"""

from fractions import Fraction
from typing import NamedTuple

from rlhf_exp.rewards.claims import Claim, read_claims
from rlhf_exp.rewards.countdown import evaluate
from rlhf_exp.rewards.grade import keep_end

OPEN, CLOSE = "<think>", "</think>"
JOINED, WRONG = 0.1, 0.1
"""What joining all the numbers earns where the target is not reached, and what a wrong step costs."""
MAX_DIGITS = 30
"""Digits of the longest value that is converted: one that is longer is wrong, as no few given numbers reach it."""
MAX_POINTS = 32
"""The last points that a step may go back to; it bounds the time."""


class Judgement(NamedTuple):
    """Whether each step is right, in order; the share of the n - 1 joins that the longest path of right steps makes;
    and whether one that makes them all ends on the target."""

    verdicts: list[bool]
    joined: float
    reached: bool


def score(completion: str, numbers: list[int], target: int) -> float:
    """The score of a completion, 0 to 1."""
    return weigh(judge(completion, numbers, target))


def judge(completion: str, numbers: list[int], target: int) -> Judgement:
    """Judge each step of the think part."""
    start = tuple(sorted(map(str, numbers)))
    points: dict[tuple[str, ...], None] = {}  # what is available where the search has been, besides the start
    here = {start: None}  # where it may be now: of two equal numbers either may be meant
    verdicts, most, reached = [], 0, False
    for step in read_claims(keep_end(read_thought(completion))):
        if step.may_go_back:
            here = {start: None, **points}
        left = [rest for point in here if (rest := _take(step.numbers, point)) is not None]
        right = bool(left) and _holds(step)  # in this order: few numbers are available, and a step may hold many
        verdicts.append(right)
        if right:
            shortest = min(map(len, left))
            most = max(most, len(numbers) - 1 - shortest)
            reached = reached or (shortest == 0 and _value(step) == target)
            here = dict.fromkeys(tuple(sorted(rest if step.sign else [*rest, step.value])) for rest in left)
            points |= {point: None for point in here if len(point) > 1}
            for oldest in list(points)[:-MAX_POINTS]:
                del points[oldest]
    return Judgement(verdicts, most / max(1, len(numbers) - 1), reached)


def read_thought(completion: str) -> str:
    """The think part; empty where there is none."""
    before, closed, _ = completion.partition(CLOSE)
    _, opened, thought = before.partition(OPEN)
    return thought if opened else before if closed else ""


def weigh(judgement: Judgement) -> float:
    """The score of what was judged, by the table of process.py."""
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
    """What is left at a point without `numbers`; None where one is not available."""
    left = list(point)
    for number in numbers:
        if number not in left:
            return None
        left.remove(number)
    return left
