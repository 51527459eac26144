"""Rules between keys: each module checks one subject, `check_<subject>(cfg)` -> one line for each problem."""

from rlhf_exp.config.rules.algo import check_algo, check_task
from rlhf_exp.config.rules.arguments import check_idle, check_owned, check_saving
from rlhf_exp.config.rules.eval import check_eval
from rlhf_exp.config.rules.hub import check_hub
from rlhf_exp.config.rules.labels import check_labels
from rlhf_exp.config.rules.learning import check_learning
from rlhf_exp.config.rules.machine import check_machine
from rlhf_exp.config.rules.model import check_model, check_peft, check_size
from rlhf_exp.config.rules.online import check_groups, check_grpo, check_ppo
from rlhf_exp.config.rules.packages import check_packages
from rlhf_exp.config.rules.reward import check_reward
from rlhf_exp.config.rules.scale import check_scale, check_span
from rlhf_exp.config.schema import Config


def find_conflicts(cfg: Config) -> list[str]:
    """Values that are each of their type and in their range, but not allowed together, one line for each problem."""
    if found := check_size(cfg):
        return found
    checks = (
        *(check_algo, check_ppo, check_grpo, check_groups, check_owned, check_idle, check_task, check_model),
        *(check_peft, check_reward, check_eval, check_labels, check_machine, check_scale, check_span, check_saving),
        check_learning,
        check_hub,  # last, since it may ask the hub
    )
    found = [problem for check in checks for problem in check(cfg)]
    return found or check_packages(cfg)  # of a config that can be run
