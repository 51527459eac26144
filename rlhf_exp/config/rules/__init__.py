"""Rules between keys: each module checks one subject, `check_<subject>(cfg)` -> one problem for each mistake."""

from rlhf_exp.config.device import targets_other_hardware
from rlhf_exp.config.rules.algorithm import (
    check_algorithm,
    check_groups,
    check_grpo,
    check_learning,
    check_ppo,
    check_task,
)
from rlhf_exp.config.rules.arguments import check_idle, check_owned
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
    found: list[str] = [*check_size(cfg)] or [problem for check in CHECKS for problem in check(cfg)]
    return found or ([] if targets_other_hardware(cfg) else [*find_missing(cfg)])
