"""Refuses TRL's arguments that PPO does not have, and values of PPO's own keys that contradict each other."""

from typing import Any

from rlhf_exp.config.schema import Config, Ppo
from rlhf_exp.config.values import show

INSTEAD = {
    "loss_type": "PPO has one loss; leave it out",
    "beta": "PPO has its KL in the reward; use algo.init_kl_coef",
    "scale_rewards": "PPO compares no group; use algo.whiten_advantages",
    "mask_truncated_completions": "PPO learns from every completion; use algo.missing_eos_penalty",
    "importance_sampling_level": "PPO's ratios are of single tokens; leave it out",
    "multi_objective_aggregation": "PPO adds the weighted rewards up; leave it out",
    "sync_ref_model": "PPO's reference is the start model; leave it out",
}

PLAIN: dict[str, tuple[Any, ...]] = {
    "min_p": (None, 0),
    "repetition_penalty": (None, 1),
    "generation_kwargs": (None, {}),
}
"""Values of other sampling arguments with which only temperature, top_p and top_k shape the distribution."""


def check_ppo(cfg: Config) -> list[str]:
    """Whether PPO has the given arguments of TRL, and its own keys fit together."""
    if not isinstance(cfg.algo, Ppo):
        return []
    args = cfg.algo.args
    problems = [
        f"algo.args.{name}={args[name]}: not with algo=ppo; {way}" for name, way in INSTEAD.items() if name in args
    ]
    if cfg.algo.target_kl is not None and cfg.algo.init_kl_coef == 0:
        problems.append(
            f"algo.init_kl_coef=0: must be > 0 with algo.target_kl={cfg.algo.target_kl}, which steers it by factors"
        )
    if cfg.algo.target_kl is not None:
        problems += [
            f"algo.args.{name}={show(args[name])}: not with algo.target_kl={cfg.algo.target_kl:g}, which is steered to"
            " by a KL of temperature, top_p and top_k alone; leave one of the two out"
            for name, neutral in PLAIN.items()
            if args.get(name) not in neutral
        ]
    if cfg.algo.critic == "separate" and cfg.peft.quantization:
        problems.append(
            "algo.critic=separate: is trained in full, which 4-bit weights cannot be; use algo.critic=shared"
        )
    rounds, accumulated = args.get("steps_per_generation"), args.get("gradient_accumulation_steps", 1)
    if rounds is not None and rounds % accumulated:
        problems.append(
            f"algo.args.steps_per_generation={rounds}: must be a multiple of"
            f" algo.args.gradient_accumulation_steps={accumulated}, for a minibatch must not span two rollouts"
        )
    if cfg.algo.critic_warmup_steps >= args.get("max_steps", -1) > 0:
        problems.append(
            f"algo.critic_warmup_steps={cfg.algo.critic_warmup_steps}: must be below"
            f" algo.args.max_steps={args['max_steps']}, or the policy learns nothing"
        )
    return problems
