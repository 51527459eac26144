"""Nested mappings with dotted keys.

flatten({"eval": {"rows": 512}})     # {"eval.rows": 512}
"""

from collections.abc import Mapping
from typing import Any


def flatten(values: Mapping[str, Any], prefix: str = "", separator: str = ".") -> dict[str, Any]:
    """Each value by the path to it. Lists are values, and so are empty mappings."""
    flat = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{name}{separator}", separator)
        else:
            flat[f"{prefix}{name}"] = value
    return flat
