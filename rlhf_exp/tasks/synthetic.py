"""Generates word problems in the form of GSM8K and dialogues in the form of HH-RLHF, for training and testing without
the real data.

    for question, answer in generate_problems(10_000, seed=0): ...
    # "Ann has 12 pens. Tom gives Ann 5 more. How many pens does Ann have now?"
    # "Ann has 12 + 5 = <<12+5=17>>17 pens now.\\n#### 17"

    for subset, chosen, rejected in generate_pairs(8000, seed=0): ...
    # "helpful-base", "\\n\\nHuman: How do I bake bread?\\n\\nAssistant: Mix flour, ...", "...\\n\\nAssistant: No idea."

A problem has one or two steps of + - * / over whole numbers, and every result is a whole number of at least 2. In
helpful-base a person asks for help: chosen is the right advice; rejected is curt, rude, evasive, or advice for
something else. In harmless-base a person wants something unwise: chosen gives a reason against it and an alternative;
rejected agrees, or refuses without any help. Both answers are short or long, so that the longer one wins only somewhat
more often than half the time. In a share MISLABELLED of the pairs the labels are swapped, so that no model can be right
on all of them. All are much simpler and shorter than the real ones (byte-level models have to read them).
"""

import operator
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import yaml

APPLY = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}
SUBSETS = ("helpful-base", "harmless-base")
MISLABELLED = 0.06
TWO_TURNS = 0.2  # share of the dialogues with an exchange before the question

PROBLEMS, DIALOGUES = (
    yaml.safe_load(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    for name in ("gsm8k_synthetic.yaml", "hh_rlhf_synthetic.yaml")
)


def generate_problems(n: int, seed: int, largest: int | None = None) -> Iterator[tuple[str, str]]:
    """`n` problems as (question, gold answer), without repeated questions, the templates in turn; the numbers of a
    question are at most `largest`.

    A longer list begins with the shorter one of the same seed. Hundreds of thousands are possible.
    """
    rng, seen, templates = Random(seed), set[str](), PROBLEMS["templates"]
    while len(seen) < n:
        question, answer = _write(templates[len(seen) % len(templates)], rng, largest)
        if question not in seen:
            seen.add(question)
            yield question, answer


def _write(template: Mapping[str, Any], rng: Random, largest: int | None) -> tuple[str, str]:
    calculations: list[tuple[int, str, int, int]] = []
    ranges = [(2, min(high, largest)) if largest else (low, high) for low, high in template["ranges"]]
    while not calculations:
        numbers = dict(zip("abc", (rng.randint(*bounds) for bounds in ranges), strict=False))
        calculations = _calculate(template, numbers)
    name, other = rng.sample(PROBLEMS["names"], 2)
    words = {
        "A": name,
        "B": other,
        "things": rng.choice(PROBLEMS["things"]),
        "boxes": rng.choice(PROBLEMS["boxes"]),
        "ware": rng.choice(PROBLEMS["wares"]),
    }
    words |= {key: f"{value:,}" for key, value in numbers.items()}
    steps = [
        sentence.format(f"{left:,} {sign} {right:,} = <<{left}{sign}{right}={result}>>{result:,}", **words)
        for (sentence, _), (left, sign, right, result) in zip(template["steps"], calculations, strict=True)
    ]
    return template["question"].format(**words), "\n".join([*steps, f"#### {calculations[-1][-1]:,}"])


def _calculate(template: Mapping[str, Any], numbers: dict[str, int]) -> list[tuple[int, str, int, int]]:
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


def generate_pairs(n: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """`n` pairs as (subset, chosen, rejected), without repeated prompts, half of each subset.

    A longer list begins with the shorter one of the same seed. At most 48,000 are possible.
    """
    rng, seen = Random(seed), set[str]()
    while len(seen) < n:
        subset = SUBSETS[len(seen) % 2]
        question, good, bad = (_write_help if subset == "helpful-base" else _write_care)(rng)
        opening = ""
        if rng.random() < TWO_TURNS:
            opening = "\n\nHuman: {}\n\nAssistant: {}".format(*rng.choice(DIALOGUES["openings"]))
        prompt = f"{opening}\n\nHuman: {question}\n\nAssistant:"
        if prompt not in seen:
            seen.add(prompt)
            chosen, rejected = (bad, good) if rng.random() < MISLABELLED else (good, bad)
            yield subset, f"{prompt} {chosen}", f"{prompt} {rejected}"


def _write_help(rng: Random) -> tuple[str, str, str]:
    (task, tip, more), (_, other_tip, other_more) = rng.sample(DIALOGUES["topics"], 2)
    question = rng.choice(DIALOGUES["help_asks"]).format(task=task, when=rng.choice(DIALOGUES["help_whens"]))
    good = rng.choice(DIALOGUES["polite"]) + tip + (f" {more}" if rng.random() < 0.4 else "")
    elsewhere = rng.choice(DIALOGUES["polite"]) + other_tip + (f" {other_more}" if rng.random() < 0.6 else "")
    others = [rng.choice(DIALOGUES[name]) for name in ("curt", "rude", "evasive")]
    return question, good, rng.choice([*others, elsewhere])


def _write_care(rng: Random) -> tuple[str, str, str]:
    task, reason, better = rng.choice(DIALOGUES["unwise"])
    question = rng.choice(DIALOGUES["unwise_asks"]).format(task=task, when=rng.choice(DIALOGUES["unwise_whens"]))
    form = rng.choice(("Better not: {0}. You could {1}.", "No, {0}. Why not {1}?", "I see, but {0}. Maybe {1}."))
    good = form.format(reason, better)
    return question, good, rng.choice([*DIALOGUES["goes_along"], rng.choice(DIALOGUES["cold"])])
