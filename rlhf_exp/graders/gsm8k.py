r"""Grades a completion of a GSM8K word problem: its answer is one number, compared exactly.

In: the completion's text, of which the end is read (`keep_end`), and the gold answer. Out: a `Gsm8kGrade`. Pure, and
linear in the length of any text: nothing is evaluated as code, and there is no timeout.

    >>> grade("48 / 2 = 24 and 48 + 24 = 72. #### 72", "72")
    Gsm8kGrade(outcome='correct', score=1.0, extracted='72', strict=True, lenient=True)
    >>> grade("48 + 24 = 72 clips", "72").outcome
    'partial'

Strict reading: the last marker in the text that begins an answer.

- `#### 72`, `####: 72` and `\boxed 72`: the number (or the expression) directly after it, as in the code of Cobbe et
  al. 2021. A `####` before anything else is a heading. Text after the number on its line is ignored: `#### 72 clips
  (48 + 24)` is 72; but `5 or 6`, `5, 6`, `2(36)` and `5!` are not 5.
- `\boxed{72}` and `<answer>72</answer>`, closed (an empty one is no answer): the one number in it, with any words
  around (`x = 72 \text{ clips}`); after an `=` if there is one. Several numbers without an operator are a wrong answer,
  so listing guesses does not pay.

Lenient reading: the strict one if it gives a number, else the last number in the text; where that is in a fraction, a
root or a power in LaTeX, the value of the whole expression.

A number has its thousands' commas or spaces, currency sign, percent sign, plus and trailing point dropped: `$1,234.50`,
`1 234`, `50%` is 50, `18.0` is 18, `3/4` is 0.75, `1.5e6` is 1,500,000, `−5` and `–5` are -5. The comma of `1000,99`,
`1 000,99` and `1.000,99` is a decimal comma; that of `1,000` divides thousands, that of `12,5` two numbers. Digits of
other scripts are no digits, `1/0` and a number of more than 300 digits equal nothing. What this cannot read inside a
strict answer is worked out by arithmetic.py, at most 50 characters: `\frac{3}{4}`, `2\sqrt{9}`, `10^3`, `1.5 x 10⁶`,
`3 1/2`.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

from rlhf_exp.graders import SCORES, Grade, Outcome, find_tags, keep_end
from rlhf_exp.graders.arithmetic import evaluate

MAX_DIGITS = 300

SPELLINGS = {"{,}": ",", r"\!": "", r"\,": "", r"\$": "$", r"\%": "%", "−": "-", "–": "-"} | dict.fromkeys(
    (r"\(", r"\)", r"\[", r"\]"), ""
)

TIMES_TEN = re.compile(r"(?<=[0-9]) ?[xX] ?(?=10(?: ?\^|[⁺⁻⁰¹²³⁴-⁹]))")
RAISED = re.compile(r"(?<=10)⁻?[⁰¹²³⁴-⁹]+")
DIGITS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")

# Possessive quantifiers (++) and atomic groups (?>...) never backtrack, which keeps the search linear; a group is not
# repeated possessively, which Python below 3.11.5 does wrongly (tests/graders/test_patterns.py). A minus after a word,
# a bracket or another minus is an operator or a dash, not a sign.
SPACED = r"[1-9][0-9]{0,2}(?>(?:[ \u00a0\u2009\u202f][0-9]{3}(?![0-9])){1,9})(?!\s*+/)"
POINTED = r"[1-9][0-9]{0,2}(?>(?:\.[0-9]{3}(?![0-9])){1,9})"
WITH_COMMA = rf"(?<![0-9],)(?:{SPACED}|{POINTED}|[0-9]{{4,}}+),[0-9]{{1,2}}(?![0-9]|[,.][0-9])"
EXPONENT = r"(?>(?:[eE][-+]?[0-9]++)?)"
PLAIN = rf"(?:[0-9]++(?>(?:,[0-9]{{3}}(?![0-9]))*)(?:\.[0-9]++)?|(?<![0-9.])\.[0-9]++){EXPONENT}"
DECIMAL = rf"(?:(?:{WITH_COMMA}|{SPACED}(?:\.[0-9]++)?){EXPONENT}|{PLAIN})"
NUMBER = re.compile(rf"((?<![\w)\]}}%-])-)?[$€£¥₹]?({DECIMAL})(?:/({PLAIN}))?")

DECORATION = " \t\r\n$€£¥₹*_~="
HASHES = re.compile(r"(?:####|\\boxed(?=[ \t]))(?=[ \t$€£¥₹*_~=(+:-]*+(?:\.?[0-9]|\\[a-z]))")
PLUS = re.compile(r"^\+\s*+(?=[$€£¥₹]?[.0-9])")
BRACES = re.compile(r"\\boxed ?\{|[{}]")
UNIT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox)\{[^{}0-9]*\}(?:\^(?:[23]|\{[23]\}))?|\^(?:\\circ|\{\\circ\})")

# A command or sign that turns the number next to it into another one: \frac12, \sqrt{16}, 2^4, 18\pi.
COMPUTES = re.compile(r"\\(?!(?:text|textbf|mathrm|mathbf|mbox|left|right|approx|quad)(?![a-z]))[a-zA-Z]|[\^√]")
# After a number: that is not the whole number, or the first of several. A parenthesis after a space is a remark.
GOES_ON = re.compile(
    rf"[.,eE][0-9]|!|[-(][0-9]|\s*(?:{COMPUTES.pattern})"
    rf"|[%)*_~]*+\s*+(?:[,;&|+×·÷/x]|or|and|to)?[\s$€£¥₹*_~]*+(?:{DECIMAL})"
)
# In unmarked text: a sequence of numbers, operators and commands of arithmetic, and what makes one value of it.
ARGUMENT = r"\{[^{}]*+(?>(?:\{[^{}]*+(?>(?:\{[^{}]*+\}[^{}]*+)*)\}[^{}]*+)*)\}"
SIGN = (
    r"(?:[0-9.]|,(?=[0-9]{3})|(?<=[0-9])[eE](?=[-+]?[0-9])|[-+*/×·÷^√() \t]"
    r"|\\(?:[dtc]?frac|sqrt(?:\[[0-9]\])?|times|cdot|div|pi|left|right)(?![a-z]))"
)
FORMULA = re.compile(rf"{SIGN}(?>(?:{SIGN}|{ARGUMENT})*)")
JOINS = re.compile(r"\\(?:[dtc]?frac|sqrt|pi)|[√^]")
SQUARED = re.compile(r"(?<=[a-zA-Z])\^(?:[23](?![0-9])|\{[23]\})|\^(?:\\prime|\{(?>(?:\s|\\prime)*)\})")
SIGN_BEFORE_GROUP = re.compile(r"[-+*/×·÷]\s*\(\s*[$€£¥₹]?[0-9.]")
OPERATOR = re.compile(r"[-+*/^×·÷]|\\[a-z]")
# Digits, operators and commands of arithmetic: no letters, no power above 99, and no root in a root.
EXPRESSION = re.compile(
    r"(?>(?:[-+*/×·÷=(){}\s]|[0-9.]|\\(?:[dt]?frac|times|cdot|div|left(?=\()|right(?=\)))(?![a-z])"
    r"|\\sqrt(?:\[[0-9]\])?\{[-+*/0-9. ]*+\}|\^(?:-?[0-9](?![0-9])|\{-?[0-9]{1,2}\}))*)"
)


@dataclass(frozen=True)
class Gsm8kGrade(Grade):
    """The verdict on one completion, by both readings.

    Attributes:
        outcome: "correct": the strict answer is right, since the reward should teach the form too. "partial": a marked
            answer that is wrong, or a right number without a mark. "failed": no marked answer and no right number. A
            wrong last number without a mark is no answer, since nearly every text, even if cut off, holds a number.
        extracted: the answer as read: the strict one, else the last number in the text; None if there is neither.
        strict: whether the strict reading is right.
        lenient: whether the lenient reading is right; always true if `strict` is.
    """

    strict: bool
    lenient: bool


def grade(completion: str, answer: str) -> Gsm8kGrade:
    """Grade one completion.

    Args:
        completion: any text, of any length.
        answer: a row's gold answer with its `#### 72`, or the number alone.

    Raises:
        ValueError: `answer` has no number.
    """
    gold, text = read_gold(answer), _respell(keep_end(completion))
    extracted, value = _read_strict(text)
    marked, strict = extracted is not None, value == gold
    lenient = strict
    if value is None:
        last, number = _read_last(text)
        extracted, lenient = extracted or last, number == gold
    outcome: Outcome = "partial" if marked or lenient else "failed"
    if strict:
        outcome = "correct"
    return Gsm8kGrade(outcome, SCORES[outcome], extracted, strict, lenient)


def read_gold(answer: str) -> Fraction:
    """The number of a gold answer: after its last `####`, or all of it.

    Raises:
        ValueError: there is none.
    """
    number = _match_whole(_respell(answer.rpartition("####")[2]))
    value = _evaluate(number) if number else None
    if value is None:
        raise ValueError(f"not a number, nor an answer that ends with #### and a number: {answer[-80:]!r}")
    return value


def _respell(text: str) -> str:
    for spelling, plain in SPELLINGS.items():
        text = text.replace(spelling, plain)
    return RAISED.sub(lambda ten: f"^{{{ten[0].translate(DIGITS)}}}", TIMES_TEN.sub(" × ", text))


def _read_strict(text: str) -> tuple[str | None, Fraction | None]:
    """The marked answer and its value; the value is None if it is not a number, the text if nothing is marked."""
    hashes = deque(HASHES.finditer(text), maxlen=1)
    enclosed = max(find_box(text), find_tags(text))
    if hashes and hashes[0].start() > enclosed[0]:
        line = text[hashes[0].end() :].partition("\n")[0].partition("</answer>")[0]
        return _read_line(line.lstrip(" \t:"))
    return _read_enclosed(enclosed[1]) if enclosed[1].strip(DECORATION) else (None, None)


def find_box(text: str) -> tuple[int, str]:
    """Where the last closed box begins and what it holds; (-1, "") without one."""
    found, opened = (-1, -1, -1), []
    for match in BRACES.finditer(text) if r"\boxed" in text else ():
        if match.group() != "}":
            opened.append(match)
        elif opened and (box := opened.pop()).group() != "{":
            found = max(found, (box.start(), box.end(), match.start()))
    return found[0], text[found[1] : found[2]]


def _read_line(line: str) -> tuple[str, Fraction | None]:
    """The answer after `####`: the value of an expression, else the number at its beginning."""
    left, _, right = line.rpartition("=")
    if OPERATOR.search(left) and EXPRESSION.fullmatch(left):  # 48 + 24 = 72
        line = right
    bare = UNIT.sub(" ", line)
    number = _match_whole(bare)
    if number is None and (value := _compute(bare)) is not None:
        return line.strip(), value
    if number is None:
        bare = PLUS.sub("", bare.lstrip(DECORATION + "("))
        number = NUMBER.match(bare)
        if number and (_touches_numeral(number) or GOES_ON.match(bare, number.end())):
            number = None
    return (_spell(number), _evaluate(number)) if number else (line.strip(), None)


def _read_enclosed(content: str) -> tuple[str, Fraction | None]:
    """The answer in a box or in tags: the one number in it, else the value of an expression."""
    right = content.rpartition("=")[2]
    bare = UNIT.sub(" ", right if re.search("[0-9]", right) else content)
    number = _match_whole(bare)
    if number is None and not COMPUTES.search(bare) and not SIGN_BEFORE_GROUP.search(_undecorate(bare)):
        numbers = list(islice(_find_numbers(bare), 2))
        number = numbers[0] if len(numbers) == 1 else None
    return (_spell(number), _evaluate(number)) if number else (content.strip(), _compute(bare))


def _read_last(text: str) -> tuple[str | None, Fraction | None]:
    """The last number in the text, or the expression that it is a part of, and its value."""
    text = SQUARED.sub(" ", UNIT.sub(" ", text))
    last = deque(_find_numbers(text), maxlen=1)
    if not last:
        return None, None
    for formula in FORMULA.finditer(text):
        if formula.start() <= last[0].start(2) < formula.end() and JOINS.search(formula[0]):
            return _undecorate(formula[0]), _compute(formula[0])
    return _spell(last[0]), _evaluate(last[0])


def _find_numbers(text: str) -> Iterator[re.Match[str]]:
    return (number for number in NUMBER.finditer(text) if not _touches_numeral(number))


def _touches_numeral(number: re.Match[str]) -> bool:
    """Whether a digit of another kind next to it makes it another number: 4², 3½, 1٢."""
    text, start, end = number.string, number.start(), number.end()
    return text[start - 1 : start].isnumeric() or text[end : end + 1].isnumeric()


def _match_whole(content: str) -> re.Match[str] | None:
    """The number, if `content` is nothing else, except decoration around it."""
    return NUMBER.fullmatch(PLUS.sub("", re.sub(r"^-\s+", "-", _undecorate(content))))


def _undecorate(content: str) -> str:
    return content.strip(DECORATION).rstrip(DECORATION + ".%")


def _spell(number: re.Match[str]) -> str:
    """The number as spelled in the text, without its currency sign."""
    sign, numerator, denominator = number.groups(default="")
    return f"{sign}{numerator}/{denominator}" if denominator else sign + numerator


def _evaluate(number: re.Match[str]) -> Fraction | None:
    """The number's value; None if it has none, or more than MAX_DIGITS digits."""
    sign, numerator, denominator = number.groups(default="")
    above, below = _to_fraction(numerator), _to_fraction(denominator or "1")
    if above is None or not below:
        return None
    return -above / below if sign else above / below


def _to_fraction(decimal: str) -> Fraction | None:
    decimal, _, exponent = decimal.lower().partition("e")
    whole, comma, part = decimal.rpartition(",")
    if comma and len(part) < 3:
        decimal = f"{whole.replace('.', '')}.{part}"
    whole, _, part = re.sub(r"[,\s]", "", decimal).partition(".")
    whole, part = whole.lstrip("0"), part.rstrip("0")
    power = int(exponent or 0) if len(exponent) < 6 else MAX_DIGITS
    if len(whole) + len(part) + abs(power) > MAX_DIGITS:
        return None
    return Fraction(int(whole + part or "0"), 10 ** len(part)) * Fraction(10) ** power


def _compute(content: str) -> Fraction | None:
    """The value of an arithmetic expression; None if there is none, or it is not rational."""
    content = _undecorate(content)
    return evaluate(re.sub("(?<=[0-9]),(?=[0-9]{3})", "", content)) if OPERATOR.search(content) else None
