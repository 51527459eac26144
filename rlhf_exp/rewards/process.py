r"""Countdown's process reward: the share of the steps before the answer that are right.

    score("<think> 8 * 7 = 56 - 3 = 53 yes </think> <answer> ...", [8, 7, 3])    # 1.0, two of two

The **think part** is what stands between the first `<think>` and `</think>`. It goes to the end of a completion that
was cut off, and begins with one whose `<think>` is in the prompt. Without either tag there is none, and the score is 0.

A **step** is `expression = value` there: the longest row of numbers, operators and parentheses before an equal sign
that holds two numbers or more, and the whole number or decimal after it. In a chain, `7 - 3 = 4 * 8 = 32`, that value
begins the next step; but where it is another one and both sides are equal in whole, `(8 * 7) - 3 = 56 - 3 = 53`, the
right one only writes the left one anew, and this is one step. Anything else is text: a step cut off before its value,
`x = 5`, `56 = 56`, a list's `1)`, the stars of bold type, a parenthesis around a whole equation.

A step is **right** if it is arithmetically right, exactly, and each number in it is available: a given number or the
value of an earlier right step, and neither used up by a step since. In the answer's grammar: a value that is negative
can be reached and not be used, `2.67` is not a third of eight.

A step may **go back** where a word or a line break parts it from the last: to any point that the search has reached,
the given numbers first of all. Steps that are chained, or parted by no more than `;` or `,`, go on from what is left:

    8 * 7 = 56 ; 8 - 3 = 5       the second is wrong, the 8 is used up
    8 * 7 = 56 no 8 - 3 = 5      right, a new attempt
    8 * 7 = 55 ; 55 - 3 = 52     both wrong: 55 is nobody's value

Without a step the score is 0. A share does not grow with more steps: one that is right and easy earns it all, so it
wants the outcome beside it. Training logs the mean number of steps as `process/steps`.
"""

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from rlhf_exp.rewards import RewardFunction, read_text
from rlhf_exp.rewards.countdown import evaluate

if TYPE_CHECKING:
    from rlhf_exp.config import Config
    from rlhf_exp.tasks import Task

OPEN, CLOSE = "<think>", "</think>"
# One sign at a time, so that no text makes it try twice; a point belongs to a number only inside it.
SIGNS = re.compile(r"(?:[-+*/×·⋅÷−()=0-9 \t]|(?<=[0-9])\.(?=[0-9])|\\times|\\cdot|\\div)+")
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
VALUE = re.compile(r"\s*([-−]?)\s*([0-9]+(?:\.[0-9]+)?)")
BULLET = re.compile(r"^[ \t]*[-*•][ \t]+", re.MULTILINE)
WORD = re.compile(r"[^\W\d_]|\n")
MARKS = re.compile(r"[*×·⋅÷/+)\s]*(?:[0-9]+\)\s+)?")
LONGEST = 30
"""Digits of the longest value that is converted: one that is longer is wrong, as no few given numbers reach it."""
LONGEST_SIDE = 200
"""Signs of the longest side that is compared with what it may be written anew as."""


class Step(NamedTuple):
    """One equation: its left side and the numbers there, sign and value on its right, and whether it may go back."""

    expression: str
    numbers: list[str]
    sign: str
    value: str
    may_go_back: bool


def score(completion: str, numbers: list[int]) -> float:
    """The share of the steps that are right, 0 to 1."""
    return _share(judge_steps(completion, numbers))


def judge_steps(completion: str, numbers: list[int]) -> list[bool]:
    """Whether each step of the think part is right, in their order."""
    points = dict.fromkeys([tuple(sorted(map(str, numbers)))])  # what is available where the search has been
    here, verdicts = points, []  # where it may be now: of two equal numbers either may be meant
    for step in read_steps(read_thought(completion)):
        if step.may_go_back:
            here = points
        left = [rest for point in here if (rest := _take(step.numbers, point)) is not None]
        right = bool(left) and _holds(step)  # in this order: few numbers are available, and a step may hold many
        if right:
            result = [] if step.sign else [step.value]
            here = dict.fromkeys(tuple(sorted([*rest, *result])) for rest in left)
            points |= here
        verdicts.append(right)
    return verdicts


def read_thought(completion: str) -> str:
    """The think part; empty where there is none."""
    before, closed, _ = completion.partition(CLOSE)
    _, opened, thought = before.partition(OPEN)
    return thought if opened else before if closed else ""


def read_steps(thought: str) -> Iterator[Step]:
    """Every step, in order, right or wrong; the dash or star that marks a line of a list is no sign of it."""
    thought = BULLET.sub("", thought)
    end = 0  # of the last step
    for row in SIGNS.finditer(thought):
        may_go_back = WORD.search(thought, end, row.start()) is not None
        first, *sides = row.group().split("=")
        left = _drop_marks(first)
        for right in sides:
            if _is_written_anew(left, right):
                continue  # written anew: what follows is a value of both
            value, numbers = VALUE.match(right), NUMBER.findall(left)
            if value and len(numbers) > 1:
                yield Step(left, numbers, *value.groups(), may_go_back)
                may_go_back, end = False, row.end()
            left = right


def _drop_marks(side: str) -> str:
    """The left side without what stands before its expression: stars, the number of a list, `(` around an equation."""
    unclosed = side.count("(") - side.count(")")
    if unclosed > 0:
        inner = side.lstrip("( \t")
        opened = side[: len(side) - len(inner)].count("(")
        return "(" * max(0, opened - unclosed) + inner
    return side[MARKS.match(side).end() :] if unclosed < 0 or side.lstrip()[:1] in "*×·⋅÷/+" else side


def _is_written_anew(left: str, right: str) -> bool:
    """Whether both are expressions, of one value, and the right one does not begin with it."""
    values = []
    for side in (left, right):
        numbers = NUMBER.findall(side)
        if len(numbers) < 2 or len(side) > LONGEST_SIDE:
            return False
        found = evaluate(side, numbers)
        values.append(found and found.value)
    return values[0] is not None and values[0] == values[1] != Fraction(NUMBER.search(right).group())


def _share(verdicts: list[bool]) -> float:
    return sum(verdicts) / len(verdicts) if verdicts else 0.0


def _holds(step: Step) -> bool:
    """Whether the equation is arithmetically right."""
    if len(step.value) > LONGEST:
        return False
    found = evaluate(step.expression, step.numbers)
    value = -Fraction(step.value) if step.sign else Fraction(step.value)
    return found is not None and found.value == value


def _take(numbers: list[str], point: tuple[str, ...]) -> list[str] | None:
    """What is left at a point without `numbers`; None where one is not available."""
    left = list(point)
    for number in numbers:
        if number not in left:
            return None
        left.remove(number)
    return left


def build(cfg: "Config", task: "Task") -> RewardFunction:
    """The reward function `process`, of Countdown alone."""

    def process(
        completions: list[Any],
        numbers: list[list[int]],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float]:
        judged = [judge_steps(read_text(c), given) for c, given in zip(completions, numbers, strict=True)]
        if log_metric is not None:
            log_metric("process/steps", sum(map(len, judged)) / len(judged))
        return [_share(verdicts) for verdicts in judged]

    return process
