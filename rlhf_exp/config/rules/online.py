"""Refuses values of GRPO's and PPO's own keys that contradict each other, and steps that do not hold whole groups."""

from math import gcd
from typing import Any

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.hardware import count_processes
from rlhf_exp.config.schema import Config, Grpo, Ppo
from rlhf_exp.config.trl_arguments import load_arguments
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


def check_groups(cfg: Config) -> list[str]:
    """Whether the number of completions per step is a multiple of `num_generations`, the size of a group."""
    if not ALGORITHMS[cfg.algo.name].compares_groups:
        return []
    args = {name: cfg.algo.args.get(name, item.default) for name, item in load_arguments(cfg.algo.name).items()}
    key, repeats = "per_device_train_batch_size", count_processes(cfg)
    repeats *= args["steps_per_generation"] or args["gradient_accumulation_steps"]
    if args["generation_batch_size"]:
        key, repeats = "generation_batch_size", 1
    batch, group = args[key], args["num_generations"]
    if group is None:
        return ["algo.args.num_generations=null: must be a whole number >= 2"]
    total = batch * repeats
    if total % group == 0:
        return []
    step = group // gcd(group, repeats)
    batches = [n * step for n in (batch // step, batch // step + 1) if n]
    groups = sorted((n for n in range(2, total + 1) if total % n == 0), key=lambda n: abs(n - group))[:2]
    remedies = [f"{key}={' or '.join(map(str, batches))}"]
    remedies += [f"num_generations={' or '.join(map(str, sorted(groups)))}"] if groups else []
    return [
        f"algo.args.{key}={batch}: makes {total} completions per step, not a multiple of"
        f" algo.args.num_generations={group}; nearest: {', or '.join(remedies)}"
    ]


def check_grpo(cfg: Config) -> list[str]:
    """Whether `alpha` is set only for the hybrid loss, and a curriculum rises from step 0, within budget and steps."""
    if not isinstance(cfg.algo, Grpo):
        return []
    problems, alpha, loss = [], cfg.algo.hybrid.alpha, cfg.algo.args.get("loss_type")
    if alpha is not None and loss != "hybrid":
        problems.append(
            f"algo.hybrid.alpha={alpha}: only with loss_type=hybrid, not with loss_type={show(loss)};"
            " use loss_type=hybrid, or algo.hybrid.alpha=null"
        )
    curriculum = cfg.algo.curriculum
    if curriculum is not None and (curriculum.budgets or curriculum.from_steps):
        problems += _check_curriculum(cfg, curriculum.budgets, curriculum.from_steps)
    return problems


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


def _check_curriculum(cfg: Config, budgets: list[int], steps: list[int]) -> list[str]:
    at_budgets = f"algo.curriculum.budgets={show(budgets)}"
    at_steps = f"algo.curriculum.from_steps={show(steps)}"
    problems = [
        f"{key}: must rise, each above the one before; nearest: {show(sorted(set(stages)))}"
        for key, stages in ((at_budgets, budgets), (at_steps, steps))
        if stages != sorted(set(stages))
    ]
    if len(steps) != len(budgets):
        problems.append(f"{at_steps}: must hold a step for each of the {len(budgets)} algo.curriculum.budgets")
    elif steps[0] != 0:
        problems.append(f"{at_steps}: must start at 0; nearest: {show([0, *steps[1:]])}")
    if (longest := max(budgets, default=0)) > cfg.max_tokens:
        problems.append(f"{at_budgets}: must be at most max_tokens={cfg.max_tokens}; nearest: max_tokens={longest}")
    last = cfg.algo.args.get("max_steps")
    if type(last) is int and 0 < last <= max(steps, default=0):
        problems.append(f"{at_steps}: must be below algo.args.max_steps={last}, or a stage never begins")
    return problems
