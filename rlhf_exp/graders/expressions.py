r"""Compares an answer in LaTeX or plain arithmetic with a gold answer by value, with math-verify, in bounded time.

    >>> grade(r"So it is $\boxed{0.5}$.", r"\frac{1}{2}").outcome
    'correct'

Read of a completion is the last closed `\boxed{}` or `<answer>`; without one, its last line (with the whole of a
formula that ends in it), in which math-verify finds the answer; of a longer line its last MAX_CHARACTERS, or the
formula that ends in them if nothing else there can be an answer. It reads neither `\$18` nor `1.5e6`, so the sign is
left out, and such a number is written with all its digits; `2e-5` is always a number, `2e - 5` a difference.

math-verify limits itself by a clock, 5 s for parsing and 5 s for comparing, so that a grade would depend on how busy
the machine is. Here the work is limited instead: its parser, which takes time exponential in the depth of brackets,
gets at most MAX_CHARACTERS and MAX_DEPTH; and expressions with more than MAX_NODES, with values of more than MAX_DIGITS
digits (powers, factorials), or with sums, products, integrals or limits are not compared. An answer beyond a limit is
not read: it is wrong in a completion, and refused in a row. The clock is set to TIMEOUT_S, which nothing within the
limits comes near.
"""

import math
import re
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from typing import Any

from rlhf_exp.graders import Grade, compare, find_tags, write_answer
from rlhf_exp.graders.gsm8k import DIGITS, find_box

MAX_CHARACTERS = 300
MAX_DEPTH = 6
MAX_NODES = 100
MAX_DIGITS = 4000
TIMEOUT_S = 60

DOLLAR = re.compile(r"(?<!\\)\\\$")
SCIENTIFIC = re.compile(
    r"(?<![\w.,/^}])(?<![/^÷0-9] )([0-9]++(?:\.[0-9]++)?|\.[0-9]++)(?:[eE]([-+]?[0-9]++)"
    r"| ?(?:[x×*·]|\\times|\\cdot) ?10(?:\^(?:\{([-+]?[0-9]++)\}|([-+]?[0-9]++))|([⁻⁰¹²³⁴-⁹]++)))(?![\w^]|\.[0-9])"
)
FORMULA = re.compile(r"\$\$?[^$]++\$\$?|\\([\[(])[^\\]*+(?>(?:\\(?![()\[\]])[^\\]*+)*)\\[\])]")
ANSWER = re.compile(r"[0-9$\\]")
BRACKET = re.compile(r"[(\[{]|[)\]}]")
BINOMIAL = re.compile(r"binom|\\choose|\\brack")  # the parser computes their value
LARGE = re.compile(r"[0-9]{4}|[!^]")


def grade(completion: str, answer: Any) -> Grade:
    """Grade one completion.

    Raises:
        ValueError: `answer` cannot be read.
    """
    from math_verify import verify

    gold, found = read_gold(answer), _parse(_find_answer(_respell(completion)))
    if not found:
        return compare(False, None)
    return compare(verify(list(gold), list(found), timeout_seconds=TIMEOUT_S), found[-1])


def read_gold(answer: Any) -> tuple[Any, ...]:
    """A gold answer as an expression and as its text.

    Raises:
        ValueError: it cannot be read, or is beyond a limit.
    """
    found = () if isinstance(answer, bool) else _parse(_delimit(_respell(write_answer(answer))))
    if not found or isinstance(found[0], str):
        raise ValueError(f"not an expression that math-verify can compare: {str(answer)[:80]!r}")
    return found


def _respell(text: str) -> str:
    """Without escaped dollar signs, and with numbers such as 1.5e6 and 1.5 x 10^6 as 1500000."""
    return SCIENTIFIC.sub(_write_digits, DOLLAR.sub("", text))


def _write_digits(number: re.Match[str]) -> str:
    exponent = next(filter(None, number.groups()[1:])).translate(DIGITS)
    is_short = len(exponent) < 4 and abs(int(exponent)) < MAX_CHARACTERS // 2
    return f"{Decimal(f'{number[1]}e{exponent}'):f}" if is_short else r"\infty"  # which equals no number


def _find_answer(text: str) -> str:
    """The part of a completion that holds its answer; empty if it is too long."""
    start, content = max(find_box(text), find_tags(text))
    if start >= 0:
        return _delimit(content)
    text = text.rstrip()
    cut = max(text.rfind("\n") + 1, len(text) - MAX_CHARACTERS)
    across = next((f for f in FORMULA.finditer(text) if f.start() < cut < f.end()), None)
    if across is None or len(text) - across.start() <= MAX_CHARACTERS:
        return text[across.start() if across else cut :]
    return text[cut:] if ANSWER.search(text, across.end()) else across[0]


def _delimit(text: str) -> str:
    """As a formula, which math-verify reads whole; of other text it takes the last number, such as 1 of x^2+1."""
    return text if FORMULA.search(text) or r"\boxed" in text else f"${text.strip()}$"


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[Any, ...]:
    """What math-verify reads of a text: an expression and its text, or the text alone; () if there is none."""
    from math_verify import parse

    if not _is_short(text):
        return ()
    found = parse(text, parsing_timeout=TIMEOUT_S)
    return tuple(part for part in found if isinstance(part, str) or is_small(part))


def _is_short(text: str) -> bool:
    depth = deepest = 0
    for bracket in BRACKET.finditer(text):
        depth += 1 if bracket[0] in "([{" else -1
        deepest = max(deepest, depth)
    computed = BINOMIAL.search(text) and LARGE.search(text)
    return len(text) <= MAX_CHARACTERS and deepest <= MAX_DEPTH and not computed


def is_small(expression: Any) -> bool:
    """Whether an expression of sympy is within the limits."""
    import sympy

    nodes = list(islice(sympy.preorder_traversal(expression), MAX_NODES + 1))
    refused = (sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.Derivative)
    if len(nodes) > MAX_NODES or any(isinstance(node, refused) for node in nodes):
        return False
    with suppress(OverflowError):  # beyond what a float holds
        return _count_digits(expression) <= MAX_DIGITS
    return False


def _count_digits(node: Any) -> float:
    """An upper bound of log10(1 + |value|) of an expression whose variables are 1."""
    import sympy

    if isinstance(node, sympy.Number):
        return math.log10(1.0 + abs(float(max(abs(node.p), node.q) if isinstance(node, sympy.Rational) else node)))
    args = node if isinstance(node, sympy.MatrixBase) else getattr(node, "args", ())
    parts = [_count_digits(part) for part in args]
    if isinstance(node, (sympy.Pow, sympy.exp)):
        return (parts[0] if len(parts) > 1 else 1) * 10 ** parts[-1]
    if isinstance(node, sympy.functions.combinatorial.factorials.CombinatorialFunction):
        return 10 ** (2 * sum(parts))
    return max(math.log10(2), sum(parts))
