"""Generates dialogues in the form of HH-RLHF, for training and testing without the real data.

    for subset, chosen, rejected in generate_pairs(8000, seed=0): ...
    # "helpful-base", "\\n\\nHuman: How do I bake bread?\\n\\nAssistant: Mix flour, ...", "...\\n\\nAssistant: No idea."

In helpful-base a person asks for help: chosen is the right advice; rejected is curt, rude, evasive, or advice for
something else. In harmless-base a person wants something unwise: chosen gives a reason against it and an alternative;
rejected agrees, or refuses without any help. They are much simpler than real dialogues: use them to test a pipeline.

Both chosen and rejected answers are short or long, so that the longer one wins only somewhat more often than half the
time. In a share MISLABELLED of the pairs the labels are swapped, so that no model can be right on all of them.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import yaml

SYNTHETIC_SUBSETS = ("helpful-base", "harmless-base")
MISLABELLED = 0.06
TWO_TURNS = 0.2  # share of the dialogues with an exchange before the question

PARTS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def generate_pairs(n: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """`n` pairs as (subset, chosen, rejected), without repeated prompts, half of each subset.

    A longer list begins with the shorter one of the same seed. At most 48,000 are possible.
    """
    rng, seen = Random(seed), set[str]()
    while len(seen) < n:
        subset = SYNTHETIC_SUBSETS[len(seen) % 2]
        question, good, bad = (_write_help if subset == "helpful-base" else _write_care)(rng)
        opening = ""
        if rng.random() < TWO_TURNS:
            opening = "\n\nHuman: {}\n\nAssistant: {}".format(*rng.choice(PARTS["openings"]))
        prompt = f"{opening}\n\nHuman: {question}\n\nAssistant:"
        if prompt not in seen:
            seen.add(prompt)
            chosen, rejected = (bad, good) if rng.random() < MISLABELLED else (good, bad)
            yield subset, f"{prompt} {chosen}", f"{prompt} {rejected}"


def _write_help(rng: Random) -> tuple[str, str, str]:
    (task, tip, more), (_, other_tip, other_more) = rng.sample(PARTS["topics"], 2)
    question = rng.choice(PARTS["help_asks"]).format(task=task, when=rng.choice(PARTS["help_whens"]))
    good = rng.choice(PARTS["polite"]) + tip + (f" {more}" if rng.random() < 0.4 else "")
    elsewhere = rng.choice(PARTS["polite"]) + other_tip + (f" {other_more}" if rng.random() < 0.6 else "")
    others = [rng.choice(PARTS[name]) for name in ("curt", "rude", "evasive")]
    return question, good, rng.choice([*others, elsewhere])


def _write_care(rng: Random) -> tuple[str, str, str]:
    task, reason, better = rng.choice(PARTS["unwise"])
    question = rng.choice(PARTS["unwise_asks"]).format(task=task, when=rng.choice(PARTS["unwise_whens"]))
    form = rng.choice(("Better not: {0}. You could {1}.", "No, {0}. Why not {1}?", "I see, but {0}. Maybe {1}."))
    good = form.format(reason, better)
    return question, good, rng.choice([*PARTS["goes_along"], rng.choice(PARTS["cold"])])
