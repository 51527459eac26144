"""Rules between keys: each module checks one subject, `check_<subject>(cfg)` -> one problem for each mistake."""

from rlhf_exp.config.device import targets_other_hardware
from rlhf_exp.config.rules import algorithm, arguments, experiment, machine
from rlhf_exp.config.schema import Config

CHECKS = (
    *(algorithm.check_task, algorithm.check_algorithm, algorithm.check_sft, algorithm.check_ppo, algorithm.check_grpo),
    *(algorithm.check_late, algorithm.check_groups, algorithm.check_teacher, arguments.check_arguments),
    *(experiment.check_model, experiment.check_reward, experiment.check_eval, experiment.check_labels),
    *(experiment.check_monitor, machine.check_machine, machine.check_hardware, machine.check_scale),
    machine.check_span,
    experiment.check_hub,  # last, since it may ask the hub
)


def find_conflicts(cfg: Config) -> list[str]:
    """Values that are each of their type and in their range, but not allowed together; then packages of a config that
    can be run, unless it is of a dry run about another machine."""
    found: list[str] = [*experiment.check_size(cfg)] or [problem for check in CHECKS for problem in check(cfg)]
    return found or ([] if targets_other_hardware(cfg) else [*machine.find_missing(cfg)])
