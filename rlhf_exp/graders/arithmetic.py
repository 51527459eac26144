r"""Computes the exact value of a short piece of arithmetic, in plain text or LaTeX.

    >>> evaluate(r"2 \times \frac{3}{4}"), evaluate(r"\sqrt{2}")
    (Fraction(3, 2), None)

It reads decimals, `+ - *` and `/` with their signs and commands, parentheses, `\frac`, `\sqrt` (with an index), a power
with an exponent from -99 to 99, a product without a sign (`2\sqrt{9}`, `(1/2)3`) and a mixed number (`1\frac{1}{2}`,
`1 1/2`). Each root must be rational: `\sqrt{2}\sqrt{2}` has no value here.

LaTeX is rewritten as plain arithmetic, commands from the inside out, which Python's parser reads and does not evaluate.
math-verify does not replace this: its time is exponential in the depth of brackets, it reads `3(4)` as a sum, and it
imports sympy. Where it can be trusted, tests/graders/test_arithmetic.py compares both.
"""

import ast
import operator
import re
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction

MAX_CHARACTERS = 50
"""Longer texts have no value. This limits the depth of nesting, the digits of a value and the time."""

SPELLINGS = {
    **{sign: "*" for sign in ("×", "·", r"\times", r"\cdot")},
    **{sign: "/" for sign in ("÷", r"\div")},
    **{r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\left": "", r"\right": ""},
}
ALLOWED = re.compile(r"(?:[-+*/()0-9.\s^{}\[\]]|\\frac|\\sqrt)*")
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
EXPONENT = re.compile(r"\^\s*(?:(-?[0-9])(?![0-9.])|\{\s*(-?[0-9]{1,2})\s*\})")
GROUP, LAST = r"\s*(\{[^{}\\]*\}|[0-9])", r"\s*(\{[^{}\\]*\}|[0-9](?![0-9.]))"
FRACTION = re.compile(rf"(?:({NUMBER.pattern})\s*)?\\frac{GROUP}{LAST}")
ROOT = re.compile(rf"\\sqrt\s*(?:\[([2-9])\])?{LAST}")
PRODUCT = re.compile(r"(?<=[)0-9])\s*(?=\()|(?<=\))(?=[0-9.])")
MIXED = re.compile(r"(?<![0-9.])([0-9]+)\s+([0-9]+)\s*/\s*([0-9]++)(?!\s*(?:\*\*|\.))")
OPERATORS: dict[type, Callable[..., Fraction]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.Pow: operator.pow, ast.UAdd: operator.pos, ast.USub: operator.neg},
}


def evaluate(text: str) -> Fraction | None:
    """The value; None if there is none, if it is not rational, or if the text is longer than MAX_CHARACTERS."""
    for spelling, plain in SPELLINGS.items() if len(text) <= MAX_CHARACTERS else ():
        text = text.replace(spelling, plain)
    if len(text) > MAX_CHARACTERS or text.count("^") > 1 or "**" in text or "//" in text or not ALLOWED.fullmatch(text):
        return None
    with suppress(SyntaxError, ZeroDivisionError):
        return _read(EXPONENT.sub(r"**(\1\2)", text))
    return None


def _read(text: str) -> Fraction:
    """The value of arithmetic with commands, whose power is Python's `**`.

    Raises:
        SyntaxError: there is none.
    """
    while command := min(filter(None, (FRACTION.search(text), ROOT.search(text))), key=re.Match.start, default=None):
        worked_out = _divide(*command.groups()) if command.re is FRACTION else _take_root(*command.groups())
        before = text[: command.start()]
        if NUMBER.match(command[0]) and before.rstrip()[-1:].isdigit():  # 2 3\frac{1}{2}
            raise SyntaxError
        text = f"{before}{worked_out}{text[command.end() :]}"
    text = MIXED.sub(_add_fraction, PRODUCT.sub("*", text))
    text = NUMBER.sub(lambda found: _spell(Fraction(found[0])) if "." in found[0] else str(int(found[0])), text)
    return _walk(ast.parse(" ".join(text.split()), mode="eval").body)


def _divide(whole: str | None, above: str, below: str) -> str:
    """A fraction; after a whole number it is a mixed number, after a decimal a product."""
    value, number = _read(above.strip("{}")) / _read(below.strip("{}")), Fraction(whole or 0)
    return _spell(number + value) if number.denominator == 1 else f"{whole}*{_spell(value)}"


def _take_root(index: str | None, content: str) -> str:
    value, n = _read(content.strip("{}")), int(index or 2)
    if value < 0:
        raise SyntaxError
    return _spell(Fraction(_whole_root(value.numerator, n), _whole_root(value.denominator, n)))


def _whole_root(value: int, index: int) -> int:
    low, high = 0, 1 << (value.bit_length() // index + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle**index < value else (low, middle)
    if low**index != value:
        raise SyntaxError
    return low


def _add_fraction(mixed: re.Match[str]) -> str:
    whole, above, below = mixed.groups()
    return f"({whole}+{above}/{below})" if int(above) < int(below) else mixed[0]


def _spell(value: Fraction) -> str:
    return f"({value.numerator}/{value.denominator})"


def _walk(node: ast.AST) -> Fraction:
    match node:
        case ast.Constant(value=int() as value):
            return Fraction(value)
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in OPERATORS:
            return OPERATORS[type(sign)](_walk(operand))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
            return OPERATORS[type(sign)](_walk(left), _walk(right))
    raise SyntaxError
