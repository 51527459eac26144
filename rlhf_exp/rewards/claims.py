r"""Reads the arithmetic that a thought claims, for the process reward: `expression = value`, in either order.

    >>> [(claim.expression.strip(), claim.value) for claim in read_claims("8 * 7 = 56 - 3 = 53 yes")]
    [('8 * 7', '56'), ('56 - 3', '53')]

A **step** is the longest sequence of numbers, operators and parentheses before an equal sign, with at least two
numbers, together with the whole number or decimal after the sign. In a chain, `7 - 3 = 4 * 8 = 32`, that value begins
the next step. But if the number after the sign is not the value and both sides are equal as a whole, `(8 * 7) - 3 = 56
- 3 = 53`, the right side only rewrites the left one, and this is one step. `56 = 8 * 7` is a step too, and so is a
value that is followed by another: `8 * 7 = 56 = 99`.

Read as an equal sign between numbers: `==`, `≈`, `~`, `＝`, `\approx`; words such as is, equals, gives, makes, totals,
would be, is about (not `is 3 too much`); an arrow or a colon before a lone number, and `11 <- 3 + 7`. As operators: x,
plus, minus, times, multiplied by and divided by; `\frac{8}{4}` is 8 / 4, `1,680` is 1680. A value may stand on the next
line, in a box, in brackets, in bold, in quotes or between dollars.

Anything else is plain text: a step cut off before its value, `x = 5`, `56 = 56`, a list's `1)` or `(1)`, the stars of
bold type, a parenthesis around a whole equation, numbers in words or in the digits of other scripts.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from rlhf_exp.graders.countdown import Evaluation, evaluate

OPERATORS = {"x": "*", "X": "*", "plus": "+", "minus": "-", "times": "*", "multiplied by": "*", "divided by": "/"}
# What may be between two numbers. Possessive (*+), so that no text makes it backtrack.
BETWEEN = r"(?<=[0-9)])[ \t]*+(?:{})[ \t]*+(?=[-−(]*+[0-9])"
OPERATOR_WORDS = re.compile(BETWEEN.format("|".join(OPERATORS)))
EQUAL_WORDS = re.compile(
    BETWEEN.format(
        "(?:is|are|was|(?:would|will|must|should) be)(?: equal to| about| around| roughly| approximately| exactly)?"
        "|equals?(?: to)?|gives?|makes?|yields?|becomes?|totals?|results in|comes to|amounts to|adds up to"
    )
    + r"(?![-−(]*+[0-9.]++[ \t]++(?:too|more|less|away|off|over|under|short|above|below|from|[a-z]{1,12}er)\b)"
)
LONE_NEXT = r"(?=[ \t]*+[-−]?+[ \t]*+[0-9.]++(?![ \t)]*+[-+*/×·⋅÷−0-9(]))"
ARROWS = re.compile(rf"(?:->|=>|[→⇒⟹]){LONE_NEXT}|(?<=[0-9])[ \t]*+(?:<-|[←⇐⟸])(?=[ \t]*+[-−(]*+[0-9])")
# Not in `8 * 7 = 56: 3 too much`, where the number before it is a value.
COLON = re.compile(rf"(?<=[0-9)])([ \t]*+[-+*/×·⋅÷−][ \t(]*+[0-9.]++[ \t)]*+):{LONE_NEXT}")
EQUAL_SIGNS = re.compile(r":=|(?<!~)~(?!~)|[≈≃≅≡＝]|\\approx|\\equiv")
REPEATED = re.compile(r"=(?:\s*+[=:+])++")
FRACTION = re.compile(r"\\[dt]?frac\{([^{}]*+)\}\{([^{}]*+)\}")
THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})++(?![0-9,])")
DRESS = re.compile(
    r"[$`{}&\"'“”‘’]|\*\*++|\\(?:boxed|left|right|mbox|text[a-z]*|math[a-z]+|[()\[\]])"
    r"|(?<!\w)_++(?=[-−0-9])|(?<=[0-9])_++(?!\w)"
)
BRACKETS = str.maketrans("[]", "()")
# A value may be on the next line, unless that line is a whole equation.
EQUAL = re.compile(r"(?<!\s)\s*+=[ \t]*+(?:\s++(?!(?=[^\n=]*+=[ \t]*+\S)[^\n=]*[0-9)][ \t]*+[-+*/×·⋅÷−]))?")

# One sign at a time, so that no text makes it backtrack; a point belongs to a number only inside it.
SIGNS = re.compile(r"(?:[-+*/×·⋅÷−()=0-9 \t]|(?<=[0-9])\.(?=[0-9])|\\times|\\cdot|\\div)+")
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
VALUE = re.compile(r"[\s(*]*+([-−]?)\s*+([0-9]++(?:\.[0-9]++)?)")
LONE = re.compile(rf"{VALUE.pattern}[\s)*]*")
NAMED = re.compile(r"\w[0-9]")  # n1 = 8 * 7
BULLET = re.compile(r"^[ \t]*[-*•][ \t]+", re.MULTILINE)
WORD = re.compile(r"[^\W\d_]|\n")
MARKS = re.compile(r"[*×·⋅÷/+)\s]*(?:[0-9]+\)\s+)?")
LISTED = re.compile(r"\s*+\([0-9]++\)[ \t]++(?=[(0-9])")
MAX_CLAIMS, MOST_NUMBERS, LONGEST_SIDE = 300, 8, 200
"""How many equal signs are read, the last ones, and the numbers and signs of the longest side that is evaluated: they
limit the time. No problem has more than six numbers."""


class Claim(NamedTuple):
    """One equation: an expression and the numbers in it, sign and value of the other side, and whether the step may go
    back to an earlier point (process.py)."""

    expression: str
    numbers: list[str]
    sign: str
    value: str
    may_go_back: bool


def read_claims(thought: str) -> Iterator[Claim]:
    """The last steps, in order, right or wrong. The dash or star that marks a list item is not an operator."""
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
    """`text` with its equal signs and operators as signs, and without markup around values."""
    text = text.replace(r"\\", "\n").replace("{,}", ",").replace("_{", "_")
    text = DRESS.sub(" ", FRACTION.sub(r" (\1)/(\2) ", text)).translate(BRACKETS)
    text = THOUSANDS.sub(lambda match: match.group().replace(",", ""), text)
    text = OPERATOR_WORDS.sub(lambda match: f" {OPERATORS[match.group().strip()]} ", text)
    text = COLON.sub(r"\1=", ARROWS.sub("=", EQUAL_WORDS.sub(" = ", text)))
    return EQUAL.sub(" = ", REPEATED.sub("=", EQUAL_SIGNS.sub("=", text)))


def _read_row(row: str, named: bool) -> Iterator[tuple[str, list[str], str, str]]:
    """The claims in one sequence of signs; `named`: its first number is part of a name. Each side is evaluated once."""
    first, *sides = row.split("=")
    left, stated, follows = _drop_marks(first), None, False
    on_left = _work_out(left)
    for right in sides:
        claimed = _drop_ends(right)
        on_right = _work_out(claimed)
        if _is_written_anew(on_left, on_right, right):
            continue  # the number that follows is the value of both sides
        value, numbers, others = VALUE.match(right), NUMBER.findall(left), NUMBER.findall(right)
        if value and len(numbers) > 1:
            if stated is None or stated != value.groups():  # not if 53 = 8 * 7 - 3 has claimed it before
                yield left, numbers, *value.groups()
            stated, follows = None, True
        elif (lone := LONE.fullmatch(left)) and not named:
            if on_right and not (follows and others[0] == numbers[0]):
                yield claimed, others, *lone.groups()
                right, stated = claimed, lone.groups()
            elif follows and value and len(others) == 1 and value.groups() != lone.groups():
                yield left, numbers, *value.groups()
        left, on_left, named = right, on_right, False


def _work_out(side: str) -> Evaluation | None:
    """The value of an expression; None if it is not one, or too long for any problem."""
    numbers = NUMBER.findall(side) if len(side) <= LONGEST_SIDE else []
    return evaluate(side, numbers) if 1 < len(numbers) <= MOST_NUMBERS else None


def _drop_ends(side: str) -> str:
    """The right side without the stars of bold type and the `)` around an equation."""
    side = side.rstrip("* \t")
    unopened = max(0, side.count(")") - side.count("("))
    return side[: len(side) - unopened] if side.endswith(")" * unopened) else side


def _drop_marks(side: str) -> str:
    """The left side without what precedes its expression: stars, the number of a list, `(` around an equation."""
    listed = LISTED.match(side)
    side = side[listed.end() :] if listed else side
    unclosed = side.count("(") - side.count(")")
    if unclosed > 0:
        inner = side.lstrip("( \t")
        opened = side[: len(side) - len(inner)].count("(")
        return "(" * max(0, opened - unclosed) + inner
    return side[MARKS.match(side).end() :] if unclosed < 0 or side.lstrip()[:1] in "*×·⋅÷/+" else side


def _is_written_anew(left: Evaluation | None, right: Evaluation | None, text: str) -> bool:
    """Whether both are expressions, of one value, and the right one, `text`, does not begin with it."""
    if left is None or right is None or left.value is None:
        return False
    return left.value == right.value != Fraction(NUMBER.search(text).group())
