"""Ranges of config keys: `within` gives a dataclass field its bounds, which values.py checks.

    seed: int = within(SEED)

Upper bounds are far above any value in use, so that a value beyond them is a typing mistake.
"""

from dataclasses import field
from typing import Any

SEED = ">= 0, <= 4294967295"  # the range that numpy accepts
TOKENS, ROWS, BATCH, STEPS = ">= 1, <= 1000000", ">= 1, <= 10000000", ">= 1, <= 65536", ">= 0, <= 10000000"
COMPLETIONS, PRICE, RATE = ">= 1, <= 1024", ">= 0, <= 1000", ">= 1e-12, <= 1"
"""Of a rate: with a smaller one no float32 weight of a usual size ever changes."""


def within(bounds: str) -> Any:
    """A key whose numbers must lie in `bounds`; of a list or mapping, each number."""
    return field(metadata={"range": bounds})
