"""Chooses a remedy that a next run would accept: each override is tried on the run's own config before it is printed.

    choose_remedy(config, ["+algo.args.entropy_coef=0.01", "algo.args.learning_rate=5e-05"])    # the first that passes

A remedy passes if the checks find no problem in the config with it that they do not also find without it.
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import yaml

from rlhf_exp.config.rules.arguments import COPIES


def choose_remedy(config: dict[str, Any], candidates: Iterable[str]) -> str | None:
    """The first of the overrides that the config's checks accept; None if they refuse all.

    Args:
        config: the resolved config as plain dicts.
        candidates: overrides of one key, `key=value` or `+key=value`, the best first.
    """
    from rlhf_exp.config.compose import check_values  # imports Hydra, which a report of finished runs does not need

    before = set(check_values(config))
    return next((text for text in candidates if set(check_values(apply(config, text))) <= before), None)


def apply(config: dict[str, Any], override: str) -> dict[str, Any]:
    """A copy of the resolved config with the override, which the arguments that are copies of its key follow."""
    changed = deepcopy(config)
    key, _, text = override.lstrip("+").partition("=")
    *place, name = key.split(".")
    values = changed
    for part in place:
        values = values[part]
    values[name] = _read_value(text)
    args = changed["algo"]["args"]
    args.update({copy: values[name] for copy, original in COPIES.items() if original == key and copy in args})
    return changed


def _read_value(text: str) -> Any:
    """The value as Hydra reads it: 5e-05 is a number, where YAML would read text."""
    try:
        return float(text) if "e" in text else yaml.safe_load(text)
    except ValueError:
        return text
