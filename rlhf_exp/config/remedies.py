"""Chooses a remedy that a next run would accept: each override is tried on the run's own config before it is printed.

    choose_remedy(config, ["+algo.args.entropy_coef=0.01", "algo.args.learning_rate=5e-05"])    # the first that passes

A remedy passes if the checks find no problem in the config with it that they do not also find without it.
"""

from collections.abc import Iterable
from typing import Any

from omegaconf import OmegaConf

from rlhf_exp.config.rules.arguments import COPIES


def choose_remedy(config: dict[str, Any], candidates: Iterable[str]) -> str | None:
    """The first of the overrides that the config's checks accept; None if they refuse all.

    Args:
        config: the resolved config as plain dicts.
        candidates: overrides of one key, `key=value` or `+key=value`, the best first. The choice of a group, such as
            algo=sft, is taken without a check, since a resolved config does not hold its other options.
    """
    from rlhf_exp.config.compose import check_values  # imports Hydra, which a report of finished runs does not need

    before = set(check_values(config))
    for text in candidates:
        chooses = isinstance(config.get(text.partition("=")[0]), dict)
        if chooses or set(check_values(apply(config, text))) <= before:
            return text
    return None


def apply(config: dict[str, Any], override: str) -> dict[str, Any]:
    """A copy of the resolved config with the override, which the arguments that are copies of its key follow."""
    key, _, value = override.lstrip("+").partition("=")
    copies = [copy for copy, original in COPIES.items() if original == key and copy in config["algo"]["args"]]
    changes = [f"{place}={value}" for place in (key, *(f"algo.args.{copy}" for copy in copies))]
    return _merge(config, OmegaConf.to_container(OmegaConf.from_dotlist(changes)))


def _merge(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """What OmegaConf.merge gives on plain dicts, of which it copies only what changes: hundreds may be tried."""
    merged = values | changes
    for key, item in changes.items():
        if isinstance(item, dict) and isinstance(values.get(key), dict):
            merged[key] = _merge(values[key], item)
    return merged
