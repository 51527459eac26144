r"""The arithmetic that a thought claims, for the process reward: `expression = value`, in either order.

    [claim.value for claim in read_claims("8 * 7 = 56 - 3 = 53 yes")]    # ["56", "53"]

A **step** is the longest row of numbers, operators and parentheses before an equal sign that holds two numbers or more,
and the whole number or decimal after it. In a chain, `7 - 3 = 4 * 8 = 32`, that value begins the next step; but where
it is another one and both sides are equal in whole, `(8 * 7) - 3 = 56 - 3 = 53`, the right one only writes the left one
anew, and this is one step. A step too are `56 = 8 * 7`, and a value that another follows: `8 * 7 = 56 = 99`.

Read as an equal sign between numbers: `==`, `≈`, `＝`, `\approx`; the words is, are, equals, gives, makes, yields,
becomes (not `is 3 too much`); an arrow before a lone number. As operators: x, plus, minus, times, multiplied by and
divided by. A value may stand on the next line, in a box, in bold or between dollars.

Anything else is text: a step cut off before its value, `x = 5`, `56 = 56`, a list's `1)`, the stars of bold type, a
parenthesis around a whole equation, numbers in words or in the digits of other scripts.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from rlhf_exp.rewards.countdown import evaluate

OPERATORS = {"x": "*", "X": "*", "plus": "+", "minus": "-", "times": "*", "multiplied by": "*", "divided by": "/"}
# What stands between two numbers. Possessive (*+), so that no text makes it try twice.
BETWEEN = r"(?<=[0-9)])[ \t]*+(?:{})[ \t]*+(?=[-−(]*+[0-9])"
OPERATOR_WORDS = re.compile(BETWEEN.format("|".join(OPERATORS)))
EQUAL_WORDS = re.compile(
    BETWEEN.format("(?:is|are)(?: equal to)?|equals?|gives?|makes?|yields?|becomes?")
    + r"(?![-−(]*+[0-9.]++[ \t]++(?:too|more|less|away|off|over|under|short|above|below|from|[a-z]{1,12}er)\b)"
)
ARROWS = re.compile(r"(?:->|=>|[→⇒⟹])(?=[ \t]*+[-−]?+[ \t]*+[0-9.]++(?![ \t)]*+[-+*/×·⋅÷−0-9(]))")
EQUAL_SIGNS = re.compile(r"==|:=|[≈≃≅≡＝]|\\approx|\\equiv")
DRESS = re.compile(r"[$`{}]|\\(?:boxed|left|right|[()\[\]])")
EQUAL = re.compile(r"(?<!\s)\s*+=\s*+")

# One sign at a time, so that no text makes it try twice; a point belongs to a number only inside it.
SIGNS = re.compile(r"(?:[-+*/×·⋅÷−()=0-9 \t]|(?<=[0-9])\.(?=[0-9])|\\times|\\cdot|\\div)+")
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
VALUE = re.compile(r"[\s(*]*+([-−]?)\s*+([0-9]++(?:\.[0-9]++)?)")
LONE = re.compile(rf"{VALUE.pattern}[\s)*]*")
NAMED = re.compile(r"[^\W_][0-9]")  # n1 = 8 * 7
BULLET = re.compile(r"^[ \t]*[-*•][ \t]+", re.MULTILINE)
WORD = re.compile(r"[^\W\d_]|\n")
MARKS = re.compile(r"[*×·⋅÷/+)\s]*(?:[0-9]+\)\s+)?")
MAX_CLAIMS = 500
"""The last equal signs that are read; it bounds the time."""
LONGEST_SIDE = 200
"""Signs of the longest side that is compared with what it may be written anew as."""


class Claim(NamedTuple):
    """One equation: an expression and the numbers in it, sign and value of the other side, and whether it may go
    back."""

    expression: str
    numbers: list[str]
    sign: str
    value: str
    may_go_back: bool


def read_claims(thought: str) -> Iterator[Claim]:
    """The last steps, in order, right or wrong; the dash or star that marks a line of a list is no sign of it."""
    text, end, moved = _respell(BULLET.sub("", thought)), 0, False
    if text.count("=") > MAX_CLAIMS:
        text = text.split("=", text.count("=") - MAX_CLAIMS)[-1]
    for row in SIGNS.finditer(text):
        signs = row.group()
        if "=" not in signs:
            continue
        moved, end = moved or WORD.search(text, end, row.start()) is not None, row.end()
        named = row.start() > 0 and NAMED.match(text, row.start() - 1) is not None
        for claim in _read_row(signs, named):
            yield Claim(*claim, moved)
            moved = False


def _respell(text: str) -> str:
    """`text` with its equal signs and operators as signs, and without dress around values."""
    text = DRESS.sub(" ", text)
    text = OPERATOR_WORDS.sub(lambda match: f" {OPERATORS[match.group().strip()]} ", text)
    text = EQUAL_SIGNS.sub("=", ARROWS.sub("=", EQUAL_WORDS.sub(" = ", text)))
    return EQUAL.sub(" = ", text)


def _read_row(row: str, named: bool) -> Iterator[tuple[str, list[str], str, str]]:
    """The claims of one row of signs; `named` where its first number is part of a name."""
    first, *sides = row.split("=")
    left, stated, follows = _drop_marks(first), None, False
    for right in sides:
        if _is_written_anew(left, right):
            continue  # what follows is a value of both
        value, numbers, others = VALUE.match(right), NUMBER.findall(left), NUMBER.findall(right)
        if value and len(numbers) > 1:
            if stated is None or stated != value.groups():  # not where 53 = 8 * 7 - 3 has said it
                yield left, numbers, *value.groups()
            stated, follows = None, True
        elif (lone := LONE.fullmatch(left)) and not named:
            claimed = _drop_ends(right)
            if len(others) > 1 and not (follows and others[0] == numbers[0]) and evaluate(claimed, others):
                yield claimed, others, *lone.groups()
                right, stated = claimed, lone.groups()
            elif follows and value and len(others) == 1 and value.groups() != lone.groups():
                yield left, numbers, *value.groups()
        left, named = right, False


def _drop_ends(side: str) -> str:
    """The right side without the stars of bold type and the `)` around an equation."""
    side = side.rstrip("* \t")
    unopened = max(0, side.count(")") - side.count("("))
    return side[: len(side) - unopened] if side.endswith(")" * unopened) else side


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
