"""Countdown search: finds which values a set of numbers can reach, and writes traces of a search for one of them.

    >>> 53 in reachable([8, 7, 3]), 54 in reachable([8, 7, 3])
    (True, False)
    >>> novice, skilled = Searcher(None, [2, 8, 1, 2]), Searcher(5, [1, 1, 1, 1])
    >>> write_trace([8, 3], 24, Traces([2], 0.0, 0.0, 8, [24, 96], 0.5, skilled, novice), Random(0))
    '<think> 8 - 3 = 5 no 8 * 3 = 24 yes </think> <answer> 8 * 3 </answer>'

A trace has no errors: every equation is right, every `no` and `yes` is true, and an answer after `yes` is correct. What
a policy trained on the traces can learn is designed. The order of attempts decides how many problems are solved within
a budget, and a novice's order is poor. A searcher has patience for so many tokens. After a failed attempt it gives up
with probability `give_up`, and before a correct answer it writes the solution again with probability `check`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import permutations
from random import Random
from typing import Annotated, NamedTuple

from pydantic import Field

from rlhf_exp.config.values import KEPT, Count, Group, Positive, Share, Tokens
from rlhf_exp.graders.countdown import LARGEST_STEP

OPERATIONS = "+-*/"


@dataclass(frozen=True)
class Searcher(Group):
    """The order of a searcher's attempts: drawn without replacement, each weighted by exp(-|value - target| /
    temperature), null for no such weight, and by the weights of its operations, which are those of + - * / in turn.
    With a negative temperature what is far from the target comes first."""

    temperature: Annotated[float, Field(ge=-1000, lt=0), KEPT] | Positive | None
    operations: Annotated[list[Positive], Field(min_length=4, max_length=4)]


@dataclass(frozen=True)
class Traces(Group):
    """The synthetic searches that demonstrations consist of: on how many numbers, by which searchers, with which
    habits. `skilled_share` of the traces are by the skilled searcher, the others by the novice."""

    numbers: list[Annotated[int, Field(ge=2, le=3)]]
    give_up: Share
    check: Share
    max_attempts: Count
    patience: Annotated[list[Tokens], Field(min_length=2, max_length=2)] | None
    skilled_share: Share
    skilled: Searcher
    novice: Searcher


class Attempt(NamedTuple):
    """One way to use all the numbers: its equations as written, its value, its expression, and its operations in the
    order in which they are done."""

    steps: str
    value: int
    expression: str
    operations: str


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
        for op in OPERATIONS:
            value = _step(a, op, b)
            if value is not None:
                first = Attempt(f"{a} {op} {b} = {value}", value, f"{a} {op} {b}", op)
                for attempt in _extend(first, rest[0]) if rest else [first]:
                    found[attempt.steps] = attempt
    return list(found.values())


def order_attempts(attempts: list[Attempt], target: int, searcher: Searcher, rng: Random) -> list[Attempt]:
    """The attempts in the searcher's order: each next one is drawn with a probability in proportion to its weight.

    Sorting by E / weight with E exponential draws in this order (Efraimidis and Spirakis 2006); here by its logarithm,
    since a weight may be smaller than any float.
    """

    def draw(attempt: Attempt) -> float:
        distance = 0 if searcher.temperature is None else abs(attempt.value - target) / searcher.temperature
        weight = math.prod(searcher.operations[OPERATIONS.index(op)] for op in attempt.operations)
        return math.log(rng.expovariate(1.0) or math.ulp(0.0)) + distance - math.log(weight)

    return sorted(attempts, key=draw)


def write_trace(numbers: list[int], target: int, habits: Traces, rng: Random) -> str:
    """Write one search by one of the two searchers: its attempts, until one hits or the searcher stops."""
    searcher = habits.skilled if rng.random() < habits.skilled_share else habits.novice
    return write_search(order_attempts(list_attempts(numbers), target, searcher, rng), target, habits, rng)


def write_search(attempts: list[Attempt], target: int, habits: Traces, rng: Random) -> str:
    """Write a search that makes these attempts in their order.

    It stops after `habits.max_attempts` attempts, after a failed one with probability `habits.give_up`, and when its
    patience does not suffice for the next attempt and an answer: so many tokens, a word each and one for the end, drawn
    uniformly between the two bounds of `habits.patience`. It makes one attempt at least, for which 26 tokens suffice.
    """
    patience = math.inf if habits.patience is None else rng.randint(*habits.patience)
    words = ["<think>"]
    tried: list[Attempt] = []
    for attempt in attempts[: habits.max_attempts]:
        if tried and _count([*words, attempt.steps, "no", _answer(attempt, found=False)]) >= patience:
            break
        tried.append(attempt)
        words.append(attempt.steps)
        if attempt.value == target:
            words.append("yes")
            check = f"check {attempt.expression} = {target} yes"
            if rng.random() < habits.check and _count([*words, check, _answer(attempt, found=True)]) < patience:
                words.append(check)
            break
        words.append("no")
        if rng.random() < habits.give_up:
            break
    closest = min(tried, key=lambda attempt: abs(attempt.value - target))
    return " ".join([*words, _answer(closest, found=closest.value == target)])


def _count(parts: list[str]) -> int:
    """The words of a trace, which are its tokens without the end token."""
    return sum(part.count(" ") + 1 for part in parts)


def _answer(attempt: Attempt, found: bool) -> str:
    return f"{'' if found else 'give up '}</think> <answer> {attempt.expression} </answer>"


def _extend(first: Attempt, c: int) -> Iterator[Attempt]:
    """The attempts that continue a first step with the last number."""
    steps, v, expression, done = first
    for op in OPERATIONS:
        if (value := _step(v, op, c, ordered=False)) is not None:
            yield Attempt(f"{steps} {op} {c} = {value}", value, f"( {expression} ) {op} {c}", done + op)
        if op in "-/" and (value := _step(c, op, v)) is not None:
            yield Attempt(f"{steps} ; {c} {op} {v} = {value}", value, f"{c} {op} ( {expression} )", done + op)


def _step(a: int, op: str, b: int, ordered: bool = True) -> int | None:
    """`a op b`, or None if a trace must not hold it: a sum or product with the smaller number first (if `ordered`), a
    negative or fractional result, or one above LARGEST_STEP."""
    if op in "+*" and ordered and a < b:
        return None
    if op == "/" and (b == 0 or a % b):
        return None
    value = {"+": a + b, "-": a - b, "*": a * b, "/": a // b if b else 0}[op]
    return value if 0 <= value <= LARGEST_STEP else None
