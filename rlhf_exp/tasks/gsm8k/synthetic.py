"""Generates word problems in the form of GSM8K, for training and testing without the real data.

    for question, answer in generate_problems(10_000, seed=0): ...
    # "Ann has 12 pens. Tom gives Ann 5 more. How many pens does Ann have now?"
    # "Ann has 12 + 5 = <<12+5=17>>17 pens now.\\n#### 17"

Each has one or two steps of + - * / over whole numbers, and every result is a whole number of at least 2. They are much
simpler and shorter than the real ones (byte-level models have to read them): use them to test a pipeline.
"""

import operator
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

APPLY = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}
NAMES = "Ann Ben Cleo Dan Eva Finn Gina Hugo Ida Jack Kim Leo Mia Noah Olga Paul Rosa Sam Tara Will".split()
THINGS = (
    "apples beads books buttons cards coins cookies eggs leaves marbles nuts pens plums shells stamps stones".split()
)
BOXES = "bags boxes bowls crates jars trays".split()
WARES = "bike chair clock coat desk kite lamp radio tent ticket".split()

SMALL, MEDIUM, LARGE, THOUSANDS = (2, 12), (2, 99), (2, 999), (1000, 9999)


class Template(NamedTuple):
    """A kind of problem.

    Attributes:
        question: with {a}, {b} and {c} for its numbers.
        ranges: of a, b and c.
        steps: the sentences that answer it, each with its calculation "a + b" in place of {}; the result of the first
            is x.
    """

    question: str
    ranges: tuple[tuple[int, int], ...]
    steps: tuple[tuple[str, str], ...]


TEMPLATES = (
    Template(
        "{A} has {a} {things}. {B} gives {A} {b} more. How many {things} does {A} have now?",
        (LARGE, LARGE),
        (("{A} has {} {things} now.", "a + b"),),
    ),
    Template(
        "{A} has {a} {things} and gives {b} of them to {B}. How many {things} does {A} have left?",
        (LARGE, LARGE),
        (("{A} has {} {things} left.", "a - b"),),
    ),
    Template(
        "{A} has {a} {boxes} with {b} {things} in each. How many {things} does {A} have?",
        (MEDIUM, SMALL),
        (("{A} has {} {things}.", "a * b"),),
    ),
    Template(
        "{A} shares {a} {things} equally among {b} friends. How many {things} does each friend get?",
        (LARGE, SMALL),
        (("Each friend gets {} {things}.", "a / b"),),
    ),
    Template(
        "A {ware} costs ${a}. How many dollars do {b} {ware}s cost?",
        (MEDIUM, SMALL),
        (("They cost {} dollars.", "a * b"),),
    ),
    Template(
        "A shop has {a} {things} and sells {b} of them. How many {things} are left?",
        (THOUSANDS, THOUSANDS),
        (("{} {things} are left.", "a - b"),),
    ),
    Template(
        "{A} has {a} {things}, finds {b} more and loses {c}. How many {things} does {A} have now?",
        (MEDIUM, MEDIUM, MEDIUM),
        (("With the new ones {A} has {} {things}.", "a + b"), ("{A} has {} {things} now.", "x - c")),
    ),
    Template(
        "{A} has {a} {boxes} with {b} {things} in each and {c} loose {things}. How many {things} does {A} have?",
        (SMALL, SMALL, MEDIUM),
        (("In the {boxes} are {} {things}.", "a * b"), ("{A} has {} {things}.", "x + c")),
    ),
    Template(
        "{A} has {a} {things}. {B} has {b} times as many. How many {things} do they have together?",
        (MEDIUM, (3, 9)),
        (("{B} has {} {things}.", "a * b"), ("Together they have {} {things}.", "a + x")),
    ),
    Template(
        "{A} buys {a} {ware}s for ${b} each and pays with ${c}. How many dollars does {A} get back?",
        (SMALL, MEDIUM, LARGE),
        (("The {ware}s cost {} dollars.", "a * b"), ("{A} gets back {} dollars.", "c - x")),
    ),
    Template(
        "{A} earns ${a} an hour and works {b} hours a day. How many dollars does {A} earn in {c} days?",
        (MEDIUM, (2, 9), SMALL),
        (("{A} earns {} dollars a day.", "a * b"), ("In {c} days that is {} dollars.", "x * c")),
    ),
    Template(
        "{A} has {a} {things} and {B} has {b}. They put them all into {c} {boxes}, the same number in each."
        " How many {things} are in each?",
        (MEDIUM, MEDIUM, SMALL),
        (("Together they have {} {things}.", "a + b"), ("In each are {} {things}.", "x / c")),
    ),
)


def generate_problems(n: int, seed: int) -> Iterator[tuple[str, str]]:
    """`n` problems as (question, gold answer), without repeated questions, the templates in turn.

    A longer list begins with the shorter one of the same seed. Hundreds of thousands are possible.
    """
    rng, seen = Random(seed), set()
    while len(seen) < n:
        question, answer = _write(TEMPLATES[len(seen) % len(TEMPLATES)], rng)
        if question not in seen:
            seen.add(question)
            yield question, answer


def _write(template: Template, rng: Random) -> tuple[str, str]:
    while True:
        numbers = dict(zip("abc", (rng.randint(*bounds) for bounds in template.ranges), strict=False))
        calculations = _calculate(template, numbers)
        if calculations:
            break
    name, other = rng.sample(NAMES, 2)
    words = {"A": name, "B": other, "things": rng.choice(THINGS), "boxes": rng.choice(BOXES), "ware": rng.choice(WARES)}
    words |= {key: f"{value:,}" for key, value in numbers.items()}
    steps = [
        sentence.format(f"{left:,} {sign} {right:,} = <<{left}{sign}{right}={result}>>{result:,}", **words)
        for (sentence, _), (left, sign, right, result) in zip(template.steps, calculations, strict=True)
    ]
    return template.question.format(**words), "\n".join([*steps, f"#### {calculations[-1][-1]:,}"])


def _calculate(template: Template, numbers: dict[str, int]) -> list[tuple[int, str, int, int]]:
    """The calculation of each step with its result; empty if a result is below 2 (`1 apples`) or not whole."""
    values, calculations = dict(numbers), []
    for _, calculation in template.steps:
        left, sign, right = calculation.split()
        a, b = values[left], values[right]
        values["x"] = APPLY[sign](a, b)
        if values["x"] < 2 or (sign == "/" and a % b):
            return []
        calculations.append((a, sign, b, values["x"]))
    return calculations
