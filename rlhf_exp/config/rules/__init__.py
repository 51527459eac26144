"""Rules between keys: each module checks one subject, `check_<subject>(cfg)` -> one problem for each mistake.

A remedy is a change of a finished run's config that these rules accept:

    choose_remedy(config, ["+algo.args.entropy_coef=0.01", "algo.args.learning_rate=5e-05"])    # the first that passes
"""

from collections.abc import Iterable
from typing import Any

from omegaconf import OmegaConf

from rlhf_exp.config.device import targets_other_hardware
from rlhf_exp.config.rules.algorithm import (
    check_algorithm,
    check_groups,
    check_grpo,
    check_learning,
    check_ppo,
    check_task,
)
from rlhf_exp.config.rules.arguments import COPIES, check_idle, check_owned
from rlhf_exp.config.rules.experiment import (
    check_eval,
    check_hub,
    check_labels,
    check_model,
    check_peft,
    check_reward,
    check_size,
)
from rlhf_exp.config.rules.machine import check_machine, check_scale, check_span, find_missing
from rlhf_exp.config.schema import Config

CHECKS = (
    *(check_task, check_algorithm, check_ppo, check_grpo, check_groups, check_owned, check_idle, check_model),
    *(check_peft, check_reward, check_eval, check_labels, check_machine, check_scale, check_span, check_learning),
    check_hub,  # last, since it may ask the hub
)


def find_conflicts(cfg: Config) -> list[str]:
    """Values that are each of their type and in their range, but not allowed together; then packages of a config that
    can be run, unless it is of a dry run about another machine."""
    found = check_size(cfg) or [problem for check in CHECKS for problem in check(cfg)]
    return found or ([] if targets_other_hardware(cfg) else [*find_missing(cfg)])


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
