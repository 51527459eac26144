"""Which rewards do not go with a task or an algorithm."""

from typing import TYPE_CHECKING

from rlhf_exp.checks import suggest
from rlhf_exp.combinations import ALGO_NEEDS, GRADED, PROMPTS, REWARDS

if TYPE_CHECKING:
    from rlhf_exp.schema import Config


def check_reward(cfg: "Config") -> list[str]:
    """Whether there is a reward where one is needed, and what each needs."""
    weights, task, problems = cfg.reward.weights, cfg.task.name, []
    for name in weights:
        if name not in REWARDS:
            known = f"must be one of {', '.join(REWARDS)}{suggest(name, REWARDS)}"
            problems.append(f"reward.weights.{name}: no such reward; {known}")
    by_model = "use reward=model reward.path=RUN_DIR, a run of algo=reward_model"
    if "outcome" in weights and task not in GRADED:
        problems.append(f"reward.weights.outcome: task={task} has no right answers to grade; {by_model}")
    if ALGO_NEEDS[cfg.algo.name] == PROMPTS and not weights:
        other = "" if task not in GRADED else "reward=outcome, or "
        problems.append(f"algo={cfg.algo.name}: needs a reward, and reward=none has none; use {other}{by_model[4:]}")
    if "model" in weights and cfg.reward.path is None:
        problems.append("reward=model: needs reward.path, the folder of a run of algo=reward_model, or a hub id")
    if "model" not in weights and cfg.reward.path is not None:
        problems.append(f"reward.path={cfg.reward.path}: not with these rewards; add +reward.weights.model=1.0")
    return problems
