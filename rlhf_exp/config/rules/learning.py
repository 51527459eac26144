"""Refuses values with which no weight would change: the loss would be constant, or every reward the same."""

from typing import Any

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import show
from rlhf_exp.rewards.table import REWARDS

BY_BETA = ("ipo", "sppo_hard")
"""Losses of TRL's dpo that divide by beta."""

WEIGHTS = (("loss_weights",), ("desirable_weight", "undesirable_weight"))
"""Arguments that weigh the terms of one loss. One of several may be 0."""


def check_learning(cfg: Config) -> list[str]:
    """Whether the loss depends on the policy, and the rewards on the completions."""
    if not ALGORITHMS[cfg.algo.name].trains:
        return []
    return [*_check_beta(cfg), *_check_weights(cfg.algo.args), *_check_rewards(cfg)]


def _check_beta(cfg: Config) -> list[str]:
    """Implicit rewards are beta times what is learned; only a loss without them may have a beta of 0."""
    row, args = ALGORITHMS[cfg.algo.name], cfg.algo.args
    if not row.has_implicit_rewards or args.get("beta") != 0:
        return []
    chosen = args.get("loss_type", row.loss)
    losses = chosen if isinstance(chosen, list) else [chosen]
    if set(losses) & set(row.losses_without_kl) and not set(losses) & set(BY_BETA):
        return []
    way = "".join(f", or use algo.args.loss_type=[{loss}], which is not" for loss in row.losses_without_kl)
    scaled = f"loss_type={show(chosen)} is scaled by it, so that nothing would be learned"
    return [f"algo.args.beta=0: {scaled}; must be > 0, such as 0.1{way}"]


def _check_weights(args: dict[str, Any]) -> list[str]:
    problems = []
    for names in WEIGHTS:
        given = {f"algo.args.{name}={show(args[name])}": args[name] for name in names if args.get(name) is not None}
        weights = [weight for value in given.values() for weight in (value if isinstance(value, list) else [value])]
        if len(given) == len(names) and weights and not any(weights):
            problems.append(f"{' and '.join(given)}: the loss would be 0, and nothing learned; one must be > 0")
    return problems


def _check_rewards(cfg: Config) -> list[str]:
    if not ALGORITHMS[cfg.algo.name].online:
        return []
    problems, clip = [], cfg.algo.args.get("reward_clip_range")
    if clip is not None and clip[0] >= clip[1]:
        near = f"; nearest: {show(clip[::-1])}" if clip[0] > clip[1] else ""
        problems.append(
            f"algo.args.reward_clip_range={show(clip)}: would make all rewards equal; must rise, the lower bound"
            f" first{near}"
        )
    graded = [name for name in cfg.reward.weights if name in REWARDS and "grade" in REWARDS[name].needs]
    if graded and cfg.max_tokens < cfg.task.least_tokens:
        problems.append(
            f"max_tokens={cfg.max_tokens}: no answer of task={cfg.task.name} is that short, so that nothing would earn"
            f" reward.weights.{graded[0]}; must be at least {cfg.task.least_tokens}"
        )
    return problems
