"""Generates word problems in the form of GSM8K, for training and testing without the real data.

    for question, answer in generate_problems(10_000, seed=0): ...
    # "Ann has 12 pens. Tom gives Ann 5 more. How many pens does Ann have now?"
    # "Ann has 12 + 5 = <<12+5=17>>17 pens now.\\n#### 17"

Each has one or two steps of + - * / over whole numbers, and every result is a whole number of at least 2. They are much
simpler and shorter than the real ones (byte-level models have to read them): use them to test a pipeline.
"""

import operator
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import yaml

APPLY = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}
PARTS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def generate_problems(n: int, seed: int) -> Iterator[tuple[str, str]]:
    """`n` problems as (question, gold answer), without repeated questions, the templates in turn.

    A longer list begins with the shorter one of the same seed. Hundreds of thousands are possible.
    """
    rng, seen, templates = Random(seed), set[str](), PARTS["templates"]
    while len(seen) < n:
        question, answer = _write(templates[len(seen) % len(templates)], rng)
        if question not in seen:
            seen.add(question)
            yield question, answer


def _write(template: dict[str, Any], rng: Random) -> tuple[str, str]:
    calculations: list[tuple[int, str, int, int]] = []
    while not calculations:
        numbers = dict(zip("abc", (rng.randint(*bounds) for bounds in template["ranges"]), strict=False))
        calculations = _calculate(template, numbers)
    name, other = rng.sample(PARTS["names"], 2)
    words = {
        "A": name,
        "B": other,
        "things": rng.choice(PARTS["things"]),
        "boxes": rng.choice(PARTS["boxes"]),
        "ware": rng.choice(PARTS["wares"]),
    }
    words |= {key: f"{value:,}" for key, value in numbers.items()}
    steps = [
        sentence.format(f"{left:,} {sign} {right:,} = <<{left}{sign}{right}={result}>>{result:,}", **words)
        for (sentence, _), (left, sign, right, result) in zip(template["steps"], calculations, strict=True)
    ]
    return template["question"].format(**words), "\n".join([*steps, f"#### {calculations[-1][-1]:,}"])


def _calculate(template: dict[str, Any], numbers: dict[str, int]) -> list[tuple[int, str, int, int]]:
    """The calculation of each step with its result; empty if a result is below 2 (`1 apples`) or not whole."""
    values, calculations = dict(numbers), []
    for _, calculation in template["steps"]:
        left, sign, right = calculation.split()
        a, b = values[left], values[right]
        values["x"] = APPLY[sign](a, b)
        if values["x"] < 2 or (sign == "/" and a % b):
            return []
        calculations.append((a, sign, b, values["x"]))
    return calculations
