"""Ranges of config keys: `within` gives a dataclass field its bounds, which values.py checks.

    seed: Annotated[int, Within(SEED)]

Upper bounds are far above any value in use, so that a value beyond them is a typing mistake.
"""

from functools import cache
from typing import Any, NamedTuple, get_type_hints

SEED = ">= 0, <= 4294967295"  # the range that numpy accepts
TOKENS, ROWS, BATCH, STEPS = ">= 1, <= 1000000", ">= 1, <= 10000000", ">= 1, <= 65536", ">= 0, <= 10000000"
COMPLETIONS, PRICE, RATE = ">= 1, <= 1024", ">= 0, <= 1000", ">= 1e-12, <= 1"
"""Of a rate: with a smaller one no float32 weight of a usual size ever changes."""


class Within(NamedTuple):
    """The numbers of a key must lie in `bounds`; of a list or mapping, each number."""

    bounds: str


@cache
def list_bounds(schema: type) -> dict[str, str]:
    """The bounds of those keys of a dataclass that have some."""
    hints: dict[str, Any] = get_type_hints(schema, include_extras=True)
    parts = [(name, part) for name, hint in hints.items() for part in getattr(hint, "__metadata__", ())]
    return {name: part.bounds for name, part in parts if isinstance(part, Within)}
