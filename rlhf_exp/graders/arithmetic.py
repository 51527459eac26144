r"""Computes the exact value of a short piece of arithmetic, in plain text or LaTeX.

    >>> evaluate(r"2 \times \frac{3}{4}"), evaluate(r"\sqrt{2}")
    (Fraction(3, 2), None)

It reads decimals, `+ - *` and `/` with their signs and commands, parentheses, `\frac`, `\sqrt` (with an index), a power
with an exponent below 100, a product without a sign (`2\sqrt{9}`, `(1/2)3`) and a mixed number (`1\frac{1}{2}`,
`1 1/2`). Each root must be rational: `\sqrt{2}\sqrt{2}` has no value here. Nothing is evaluated as code. Time is linear
in the text, except for one power; math-verify, with which the tests compare, takes time exponential in the depth of
brackets.
"""

import re
from fractions import Fraction

MAX_CHARACTERS = 50
"""Longer texts have no value. This limits the depth of nesting, the digits of a value and the time."""

SPELLINGS = {
    **{sign: "*" for sign in ("×", "·", r"\times", r"\cdot")},
    **{sign: "/" for sign in ("÷", r"\div")},
    **{r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\left": "", r"\right": ""},
}
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
EXPONENT = re.compile(r"\^\s*(?:([0-9])|\{\s*([0-9]{1,2})\s*\})")
MIXED = re.compile(r"([0-9]+)\s+([0-9]+)\s*/\s*([0-9]++)(?!\s*[\^.])")
DIGIT = re.compile("[0-9]")
AFTER_BRACKET = re.compile(r"(?<=[)}])(?=[0-9.])")
INDEX = re.compile(r"\[([2-9])\]")
SPACES = re.compile(r"\s*")


class _Unreadable(Exception):
    """The text is not arithmetic, or has no rational value."""


def evaluate(text: str) -> Fraction | None:
    """The value; None if there is none, if it is not rational, or if the text is longer than MAX_CHARACTERS."""
    if len(text) > MAX_CHARACTERS or text.count("^") > 1:
        return None
    for spelling, plain in SPELLINGS.items():
        text = text.replace(spelling, plain)
    reader = _Reader(text)
    try:
        value = reader.read_sum()
    except (_Unreadable, ZeroDivisionError):
        return None
    return value if reader.at == len(text) else None


class _Reader:
    """Recursive descent; every method reads from `at` on and moves `at` past what it has read."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self._skip_spaces()

    def read_sum(self) -> Fraction:
        value = self._read_product()
        while sign := self._take("+", "-"):
            right = self._read_product()
            value = value + right if sign == "+" else value - right
        return value

    def _read_product(self) -> Fraction:
        value = self._read_signed()
        while True:
            if self._take("*"):
                value *= self._read_signed()
            elif self._take("/"):
                value /= self._read_signed()
            elif self.text.startswith(("(", "\\"), self.at) or AFTER_BRACKET.match(self.text, self.at):
                value *= self._read_power()
            else:
                return value

    def _read_signed(self) -> Fraction:
        sign = 1
        while found := self._take("+", "-"):
            sign = -sign if found == "-" else sign
        return sign * self._read_power()

    def _read_power(self) -> Fraction:
        value = self._read_single()
        exponent = self._match(EXPONENT)
        return value ** int(exponent[1] or exponent[2]) if exponent else value

    def _read_single(self) -> Fraction:
        if self._take("("):
            return self._read_until(")")
        if self._take(r"\frac"):
            return self._read_argument() / self._read_argument()
        if self._take(r"\sqrt"):
            index = self._match(INDEX)
            return _root(self._read_argument(), int(index[1]) if index else 2)
        mixed = MIXED.match(self.text, self.at)
        if mixed and int(mixed[2]) < int(mixed[3]):
            self._match(MIXED)
            return int(mixed[1]) + Fraction(int(mixed[2]), int(mixed[3]))
        number = self._match(NUMBER)
        if not number:
            raise _Unreadable
        value = Fraction(number[0])
        if value.denominator == 1 and self._take(r"\frac"):  # a mixed number
            value += self._read_argument() / self._read_argument()
        return value

    def _read_argument(self) -> Fraction:
        """The content of braces, or a single digit: \\frac34."""
        if self._take("{"):
            return self._read_until("}")
        digit = self._match(DIGIT)
        if not digit:
            raise _Unreadable
        return Fraction(digit[0])

    def _read_until(self, bracket: str) -> Fraction:
        value = self.read_sum()
        if not self._take(bracket):
            raise _Unreadable
        return value

    def _take(self, *tokens: str) -> str:
        """The one of `tokens` that comes next; empty if none does."""
        token = next((token for token in tokens if self.text.startswith(token, self.at)), "")
        self.at += len(token)
        self._skip_spaces()
        return token

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
            self._skip_spaces()
        return match

    def _skip_spaces(self) -> None:
        self.at = SPACES.match(self.text, self.at).end()


def _root(value: Fraction, index: int) -> Fraction:
    """The root, if it is rational."""
    if value < 0:
        raise _Unreadable
    return Fraction(_whole_root(value.numerator, index), _whole_root(value.denominator, index))


def _whole_root(value: int, index: int) -> int:
    low, high = 0, 1 << (value.bit_length() // index + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle**index < value else (low, middle)
    if low**index != value:
        raise _Unreadable
    return low
