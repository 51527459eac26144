"""Countdown search: finds which values a set of numbers can reach, and writes traces of a search for one of them.

    >>> 53 in reachable([8, 7, 3]), 54 in reachable([8, 7, 3])
    (True, False)
    >>> write_trace([8, 3], 24, Traces([2], give_up=0.0, check=0.0, max_attempts=8), Random(0))
    '<think> 8 + 3 = 11 no 8 * 3 = 24 yes </think> <answer> 8 * 3 </answer>'

A trace has no errors: every equation is right, every `no` and `yes` is true, and an answer after `yes` is correct. The
searcher has two bad habits: after a failed attempt it gives up with probability `give_up` and answers with its closest
attempt, and before a correct answer it writes the solution again with probability `check`. Both are designed, so that a
policy trained on the traces has something to unlearn.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from itertools import permutations
from random import Random
from typing import NamedTuple

from rlhf_exp.tasks.countdown.schema import LARGEST_STEP, Traces


class Attempt(NamedTuple):
    """One way to use all the numbers: its equations as written, its value, and its expression."""

    steps: str
    value: int
    expression: str


def reachable(numbers: Sequence[int]) -> frozenset[int]:
    """All positive integers that equal some expression over all of `numbers`, each used once.

    Exact: all pairs of partial results are combined by + - * / over the rationals. 2 to 6 numbers; six take seconds.
    """
    return _reachable(tuple(sorted(numbers)))


@cache
def _reachable(numbers: tuple[int, ...]) -> frozenset[int]:
    return frozenset(int(v) for v in _values(numbers) if v.denominator == 1 and v > 0)


@lru_cache(500)  # pairs come again most often; thousands of sets of fractions slow down garbage collection
def _values(numbers: tuple[int, ...]) -> frozenset[int | Fraction]:
    """Every value of every expression over all of the sorted `numbers`."""
    if len(numbers) == 1:
        return frozenset(numbers)
    found: set[int | Fraction] = set()
    for mask in range(1, 2 ** (len(numbers) - 1)):  # the last number stays on the right: each division once
        left = tuple(n for i, n in enumerate(numbers) if mask >> i & 1)
        right = tuple(n for i, n in enumerate(numbers) if not mask >> i & 1)
        for a in _values(left):
            for b in _values(right):
                found.update((a + b, a - b, b - a, a * b))
                if b:
                    found.add(_divide(a, b))
                if a:
                    found.add(_divide(b, a))
    return frozenset(found)


def _divide(a: int | Fraction, b: int | Fraction) -> int | Fraction:
    """a / b, exact; as an integer if possible, since arithmetic on fractions is many times slower."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if a % b == 0 else Fraction(a, b)
    return Fraction(a) / b


def list_attempts(numbers: list[int]) -> list[Attempt]:
    """Every attempt a trace can hold on two or three numbers: (a op b), then with c on either side, each written once.

    Steps are integers from 0 to LARGEST_STEP; sums and products have the larger number, or the earlier result, first.
    """
    found = {}
    for i, j in permutations(range(len(numbers)), 2):
        a, b, rest = numbers[i], numbers[j], [n for k, n in enumerate(numbers) if k not in (i, j)]
        for op in "+-*/":
            value = _step(a, op, b)
            if value is not None:
                first = Attempt(f"{a} {op} {b} = {value}", value, f"{a} {op} {b}")
                for attempt in _extend(first, rest[0]) if rest else [first]:
                    found[attempt.steps] = attempt
    return list(found.values())


def write_trace(numbers: list[int], target: int, habits: Traces, rng: Random) -> str:
    """Write one search: attempts in uniform random order without replacement, until one hits or the searcher stops.

    The searcher stops after `habits.max_attempts` attempts, or after a failed one with probability `habits.give_up`.
    """
    attempts = list_attempts(numbers)
    rng.shuffle(attempts)
    words = ["<think>"]
    tried: list[Attempt] = []
    for attempt in attempts[: habits.max_attempts]:
        tried.append(attempt)
        words.append(attempt.steps)
        if attempt.value == target:
            words.append("yes")
            if rng.random() < habits.check:
                words.append(f"check {attempt.expression} = {target} yes")
            break
        words.append("no")
        if rng.random() < habits.give_up:
            break
    answer = min(tried, key=lambda attempt: abs(attempt.value - target))
    if answer.value != target:
        words.append("give up")
    return " ".join([*words, f"</think> <answer> {answer.expression} </answer>"])


def _extend(first: Attempt, c: int) -> Iterator[Attempt]:
    """The attempts that continue a first step with the last number."""
    steps, v, expression = first
    for op in "+-*/":
        if (value := _step(v, op, c, ordered=False)) is not None:
            yield Attempt(f"{steps} {op} {c} = {value}", value, f"( {expression} ) {op} {c}")
        if op in "-/" and (value := _step(c, op, v)) is not None:
            yield Attempt(f"{steps} ; {c} {op} {v} = {value}", value, f"{c} {op} ( {expression} )")


def _step(a: int, op: str, b: int, ordered: bool = True) -> int | None:
    """`a op b`, or None if a trace must not hold it: a sum or product with the smaller number first (if `ordered`), a
    negative or fractional result, or one above LARGEST_STEP."""
    if op in "+*" and ordered and a < b:
        return None
    if op == "/" and (b == 0 or a % b):
        return None
    value = {"+": a + b, "-": a - b, "*": a * b, "/": a // b if b else 0}[op]
    return value if 0 <= value <= LARGEST_STEP else None
