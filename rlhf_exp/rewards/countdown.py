"""Countdown's own rewards: how near an answer is (graduated), and where the steps before it lead (process).

    process(None, None, completions=["<think> 8 * 7 = 56 - 3 = 53 yes </think> ..."], numbers=[[8, 7, 3]],
            target=[53])    # [1.0]

The grader of Countdown is in graders/countdown.py; `grade` and what else users import of it stay available here.

The **think part** of a completion is the text between the first `<think>` and `</think>`, of which the end is read
(`keep_end`). If the completion was cut off, it ends with the completion; if `<think>` is in the prompt, it begins with
the completion. Without either tag there is no think part, and the score of process is 0.

A **step** is `expression = value` on one line: an expression of at least two numbers in `+ - * / ( )`, and a whole
number. The value may begin the next step, `8 * 7 = 56 - 3 = 53`. Anything else is plain text, which earns and costs
nothing: a step cut off before its value, `56 = 8 * 7`, `8 * 7 is 56`.

A step is **right** if it is arithmetically right, exactly, and each number in it is available: a given number or the
value of an earlier right step, and neither used up by a step since. As in answers, a negative value can be reached but
not used. A step may **go back** if a word or a line break separates it from the
previous one: to any point that the search has reached, above all to the given numbers. Steps that are chained, or
separated only by `;` or `,`, continue with the numbers that are left:

    8 * 7 = 56 ; 8 - 3 = 5       the second is wrong, the 8 is used up
    8 * 7 = 56 no 8 - 3 = 5      right, a new attempt
    8 * 7 = 55 ; 55 - 3 = 52     both wrong: 55 is not the value of a right step
"""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from rlhf_exp.graders import keep_end, read_text
from rlhf_exp.graders.countdown import evaluate, read_answer
from rlhf_exp.graders.countdown import grade as grade

OPEN, CLOSE = "<think>", "</think>"
JOINED, WRONG = 0.1, 0.1
"""The reward for joining all the numbers without reaching the target, and the cost of a wrong step."""
MAX_STEPS, MAX_POINTS, MAX_DIGITS = 300, 32, 30
"""How many steps are read, and to how many points they may go back, of both the last ones: they limit the time. And the
digits of the longest value that is converted; a longer one is wrong, since the given numbers cannot reach it."""

LINE = re.compile(r"[-+*/()=0-9 \t]+")
NUMBER = re.compile(r"[0-9]+")
VALUE = re.compile(r"[ \t]*+(-?)[ \t]*+([0-9]++)")
WORD = re.compile(r"[^\W\d_]|\n")


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
    return 0.3 if 20 * error <= target else 0.2 if 10 * error <= target else 0.1


def process(
    cfg: Any, task: Any, /, completions: list[Any], numbers: list[list[int]], target: list[int],
    log_metric: Callable[[str, float], None] | None = None, **columns: Any,
) -> list[float]:  # fmt: skip
    """Whether the steps before the answer lead from the given numbers to the target.

    | score | the think part |
    |---|---|
    | 1.0 | joins all the given numbers, step by right step, into the target, and does not go on to another value |
    | 0.1 | joins all of them into another number |
    | 0.05 | of three numbers, joins two; in general 0.1 times the joined share of the n - 1 steps of a solution |
    | 0.0 | has no right step |

    Each wrong step costs 0.1, but the score is never below 0. So arithmetic alone earns at most as much as a wrong
    answer in the outcome, and a search is rewarded by where it ends: the last step that joins all the numbers counts,
    so that a list of attempts earns no more than its last one. More right steps neither earn more nor hide a wrong one.

    Training logs the mean number of steps, right or wrong, as `process/steps`.
    """
    judged = [judge(read_text(c), n, t) for c, n, t in zip(completions, numbers, target, strict=True)]
    if log_metric is not None:
        log_metric("process/steps", sum(len(found.verdicts) for found in judged) / len(judged))
    return [weigh(found) for found in judged]


class Judgement(NamedTuple):
    """Whether each step is right, in order; which share of the n - 1 joins the longest path of right steps makes; and
    whether the last path that makes all of them ends at the target, with no wrong step to the target behind it."""

    verdicts: list[bool]
    joined: float
    reached: bool


class Step(NamedTuple):
    """An expression and the numbers in it, its value as written, and whether it may go back to an earlier point."""

    expression: str
    numbers: list[str]
    sign: str
    digits: str
    may_go_back: bool

    @property
    def value(self) -> int | None:
        return int(self.sign + self.digits) if len(self.digits) <= MAX_DIGITS else None

    def is_right(self) -> bool:
        """Whether it is arithmetically right."""
        found = evaluate(self.expression, self.numbers)
        return found is not None and found.value is not None and found.value == self.value


def judge(completion: str, numbers: list[int], target: int) -> Judgement:
    """Judge each step of the think part."""
    start = tuple(sorted(map(str, numbers)))
    points: dict[tuple[str, ...], None] = {}  # the numbers available at each point that was reached, except the start
    here = {start: None}  # possible points now: of two equal numbers either may be meant
    verdicts, most, reached = [], 0, False
    for step in list(read_steps(keep_end(read_thought(completion))))[-MAX_STEPS:]:
        if step.may_go_back:
            here = {start: None, **points}
        left = [rest for point in here if (rest := _take(step.numbers, point)) is not None]
        right = bool(left) and step.is_right()  # checked second: a step may hold many numbers but few are available
        verdicts.append(right)
        if right:
            shortest = min(map(len, left))
            most = max(most, len(numbers) - 1 - shortest)
            if shortest == 0:
                reached = step.value == target
            here = dict.fromkeys(tuple(sorted(rest if step.sign else [*rest, step.digits])) for rest in left)
            points |= {point: None for point in here if len(point) > 1}
            points = dict.fromkeys(list(points)[-MAX_POINTS:])
        elif step.value == target:
            reached = False
    return Judgement(verdicts, most / max(1, len(numbers) - 1), reached)


def read_steps(thought: str) -> Iterator[Step]:
    """The steps in order, right or wrong."""
    end, may_go_back = 0, False
    for line in LINE.finditer(thought):
        if "=" in line[0]:
            may_go_back, end = may_go_back or WORD.search(thought, end, line.start()) is not None, line.end()
            for left, right in pairwise(line[0].split("=")):
                value, numbers = VALUE.match(right), NUMBER.findall(left)
                if value and len(numbers) > 1:
                    yield Step(left, numbers, value[1], value[2], may_go_back)
                    may_go_back = False


def read_thought(completion: str) -> str:
    """The think part; empty if there is none."""
    before, closed, _ = completion.partition(CLOSE)
    _, opened, thought = before.partition(OPEN)
    return thought if opened else before if closed else ""


def weigh(judgement: Judgement) -> float:
    """The score of process by its table, 0 to 1."""
    earned = 1.0 if judgement.reached else JOINED * judgement.joined
    return max(0.0, round(earned - WRONG * judgement.verdicts.count(False), 6))


def _take(numbers: list[str], point: tuple[str, ...]) -> list[str] | None:
    """The numbers left at a point without `numbers`; None if one of them is not available."""
    left = list(point)
    for number in numbers:
        if number not in left:
            return None
        left.remove(number)
    return left
