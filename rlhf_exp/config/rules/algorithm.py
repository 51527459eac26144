"""Refuses a task without the data that the algorithm needs, and values with which the algorithm could not learn.

Stays here: what TRL refuses only after minutes, or never.
"""

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

from rlhf_exp.algorithms import ALGORITHMS, TRL_SAMPLING
from rlhf_exp.config.device import count_processes
from rlhf_exp.config.overrides import name_key
from rlhf_exp.config.rules.files import check_function
from rlhf_exp.config.schema import TASKS, Config, Grpo, Ppo, conflict
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.config.values import one_of
from rlhf_exp.errors import Problem, show
from rlhf_exp.rewards.table import REWARDS

NOT_WITH_PPO = {
    "loss_type": "PPO has one loss; leave it out",
    "beta": "PPO has its KL in the reward; use algo.init_kl_coef",
    "scale_rewards": "PPO compares no group; use algo.whiten_advantages",
    "mask_truncated_completions": "PPO learns from every completion; use algo.missing_eos_penalty",
    "importance_sampling_level": "PPO's ratios are of single tokens; leave it out",
    "multi_objective_aggregation": "PPO adds the weighted rewards up; leave it out",
    "sync_ref_model": "PPO's reference is the start model; leave it out",
}
"""Arguments of GRPOConfig that PPO does not read, and what to use instead."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "min_p": (None, 0),
    "repetition_penalty": (None, 1),
    "generation_kwargs": (None, {}),
}
"""Values of other sampling arguments with which only temperature, top_p and top_k shape the distribution."""

DIVIDED_BY_BETA = ("ipo", "sppo_hard")
"""Losses of TRL's dpo."""

WEIGHTS = (("loss_weights",), ("desirable_weight", "undesirable_weight"))
"""Arguments that weigh the terms of one loss. One of several may be 0."""


def check_task(cfg: Config) -> Iterator[str]:
    """Whether the task provides the data that the algorithm needs, and its own keys fit together."""
    algo, task = cfg.algo.name, cfg.task.name
    row, gives = cfg.algo.row, cfg.task.provides
    need = row.learns_from
    if row.trains and need not in gives:
        tasks = [name for name, keys in TASKS.items() if need in keys.provides and name != task]
        fitting = [name for name, other in ALGORITHMS.items() if other.learns_from in gives]
        remedy = f" until you set {cfg.task.provided_by[need]}" if need in cfg.task.provided_by else ""
        yield conflict(
            cfg,
            "algo",
            f"needs {need}, and task={task} has none{remedy}; tasks with {need.split()[-1]}:"
            f" {', '.join(tasks) or 'none yet'}; algorithms for task={task}: {', '.join(fitting)}",
        )
    elif lacking := cfg.task.find_lacking(need):
        yield conflict(cfg, "algo", lacking)
    for key, source in cfg.task.list_sources():
        yield from source.find_problems(key)
    samples = getattr(cfg.task, "samples", None)
    if samples is not None and not row.trains:
        yield conflict(cfg, "task.samples", f"algo={algo} learns from no samples; leave it out")
    elif samples is not None and row.online:
        others = ", ".join(name for name, row in ALGORITHMS.items() if not row.online and row.trains)
        yield conflict(cfg, "task.samples", f"algo={algo} learns from samples of its own; allowed with {others}")


def check_algorithm(cfg: Config) -> Iterator[str]:
    """Whether the loss is one of the algorithm's, and its arguments fit together."""
    row, args = cfg.algo.row, cfg.algo.args
    losses = _list_losses(cfg)
    if row.losses:
        yield from (_explain_loss(loss, cfg.algo.name) for loss in losses if loss not in row.losses)
    if cfg.train_tokens is not None and not row.trains:
        yield conflict(cfg, "train_tokens", f", algo={cfg.algo.name} trains nothing; leave it out", "idle")
    if cfg.algo.trainer is not None and not row.trains:
        yield conflict(cfg, "algo.trainer", f", algo={cfg.algo.name} trains nothing; leave it out", "idle")
    elif cfg.algo.trainer is not None:
        yield from check_function("algo.trainer", cfg.algo.trainer)
    if cfg.generation.method == "compact":
        for name in [name for name in TRL_SAMPLING if args.get(name) is not None]:
            yield conflict(cfg, f"algo.args.{name}", "not with generation=compact; use generation=trl")
    if args.get("sync_ref_model"):
        yield from _check_sync(cfg)
    if row.unpaired and (not losses or "kto" in losses):
        # TRL's kto takes its KL from neighbouring rows of each batch, in the order in which it joined them.
        way = "or algo.args.loss_type=apo_zero_unpaired"
        if args.get("per_device_train_batch_size") == 1:
            line = "has no other row to take the KL from; must be at least 2"
            yield conflict(cfg, "algo.args.per_device_train_batch_size", f"{line}, {way}")
        if args.get("train_sampling_strategy") == "random":  # rules/arguments.py refuses the others
            line = "the KL is taken from neighbours in a fixed order; leave it out"
            yield conflict(cfg, "algo.args.train_sampling_strategy", f"{line}, {way}")


def _list_losses(cfg: Config) -> list[str]:
    """The losses that are named; none is TRL's default."""
    chosen = cfg.algo.args.get("loss_type", [])
    return chosen if isinstance(chosen, list) else [chosen]


def find_other_losses(cfg: Config, overrides: Sequence[str]) -> list[Problem]:
    """A typed loss of another algorithm that has one loss without a name: it leaves `loss_type` out."""
    typed = [text.partition("=")[2] for text in overrides if text.startswith("loss_type=")]
    unnamed = [name for name, row in ALGORITHMS.items() if not row.losses and name != cfg.algo.name]
    return [_explain_loss(loss, cfg.algo.name) for loss in typed if loss in unnamed]


def find_idle_arguments(algo: str, overrides: Sequence[str]) -> list[Problem]:
    """Each typed argument of TRL, or loss, of an algorithm that trains nothing."""
    if algo not in ALGORITHMS or ALGORITHMS[algo].trains:
        return []
    typed = [text.lstrip("+~") for text in overrides if name_key(text).startswith(("algo.args.", "loss_type"))]
    why = f", algo={algo} trains nothing; leave it out"
    return [Problem(name_key(text), "idle", text.partition("=")[2], why) for text in typed]


def _explain_loss(loss: object, algo: str) -> Problem:
    losses = ALGORITHMS[algo].losses
    allowed = one_of(loss, losses) if losses else "which has one loss; leave it out"
    return Problem("loss_type", "conflict", loss, f"not a loss of algo={algo}, {allowed}")


def _check_sync(cfg: Config) -> Iterator[Problem]:
    """Whether there is a separate reference that could follow the policy; TRL would refuse it late."""
    row, args, key = cfg.algo.row, cfg.algo.args, "algo.args.sync_ref_model"
    if cfg.peft.lora is not None:
        why = f"not with peft={cfg.peft.name}, whose reference is the base itself; use peft=none"
        yield conflict(cfg, key, why)
    if row.online and row.kl_price == "algo.args.beta" and not args.get("beta"):
        yield conflict(cfg, key, "not with algo.args.beta=0, which needs no reference; use algo.args.beta=0.05")
    if args.get("precompute_ref_log_probs"):
        other = "algo.args.precompute_ref_log_probs"
        yield conflict(cfg, key, f"not with {other}=true, which scores the reference once; use {other}=false")


def check_groups(cfg: Config) -> Iterator[Problem]:
    """Whether the number of completions per step is a multiple of `num_generations`, the size of a group. TRL refuses
    it too; a remedy of a finished run is tried without TRL."""
    if not cfg.algo.row.compares_groups:
        return
    args = {name: cfg.algo.args.get(name, item.default) for name, item in load_arguments(cfg.algo.name).items()}
    key, repeats = "per_device_train_batch_size", count_processes(cfg)
    repeats *= args["steps_per_generation"] or args["gradient_accumulation_steps"]
    if args["generation_batch_size"]:
        key, repeats = "generation_batch_size", 1
    batch, group = args[key], args["num_generations"]
    if group is None:
        yield Problem("algo.args.num_generations", "range", None, "a whole number >= 2")
    elif (total := batch * repeats) % group:
        step = group // gcd(group, repeats)
        nearest = " or ".join(str(n * step) for n in (batch // step, batch // step + 1) if n)
        why = f"makes {total} completions per step, not a multiple of algo.args.num_generations={group}"
        yield Problem(f"algo.args.{key}", "conflict", batch, f"{why}; nearest: {nearest}")


def check_grpo(cfg: Config) -> Iterator[Problem]:
    """Whether `alpha` is set only for the hybrid loss, and a curriculum rises from step 0, within budget and steps."""
    if not isinstance(cfg.algo, Grpo):
        return
    loss = cfg.algo.args.get("loss_type")
    if cfg.algo.hybrid.alpha is not None and loss != "hybrid":
        other = f"only with loss_type=hybrid, not with loss_type={show(loss)}"
        yield conflict(cfg, "algo.hybrid.alpha", f"{other}; use loss_type=hybrid, or algo.hybrid.alpha=null")
    if cfg.algo.curriculum is None:
        return
    budgets, steps = cfg.algo.curriculum.budgets, cfg.algo.curriculum.from_steps
    at_budgets, at_steps = "algo.curriculum.budgets", "algo.curriculum.from_steps"
    for key, stages in ((at_budgets, budgets), (at_steps, steps)):
        if stages != sorted(set(stages)):
            yield conflict(cfg, key, f"must rise, each above the one before; nearest: {show(sorted(set(stages)))}")
    if len(steps) != len(budgets):
        yield conflict(cfg, at_steps, f"must hold a step for each of the {len(budgets)} {at_budgets}")
    elif steps and steps[0] != 0:
        yield conflict(cfg, at_steps, f"must start at 0; nearest: {show([0, *steps[1:]])}")
    if (longest := max(budgets, default=0)) > cfg.max_tokens:
        yield conflict(cfg, at_budgets, f"must be at most max_tokens={cfg.max_tokens}; nearest: max_tokens={longest}")
    last = cfg.algo.args.get("max_steps")
    if type(last) is int and 0 < last <= max(steps, default=0):
        yield conflict(cfg, at_steps, f"must be below algo.args.max_steps={last}, or a stage never begins")


def check_ppo(cfg: Config) -> Iterator[Problem]:
    """Whether PPO has the given arguments of TRL, and its own keys fit together."""
    if not isinstance(cfg.algo, Ppo):
        return
    algo, args = cfg.algo, cfg.algo.args
    for name in [name for name in NOT_WITH_PPO if name in args]:
        yield conflict(cfg, f"algo.args.{name}", f"not with algo=ppo; {NOT_WITH_PPO[name]}")
    if algo.target_kl is not None:
        target = f"with algo.target_kl={algo.target_kl:g}"
        if algo.init_kl_coef == 0:
            yield conflict(cfg, "algo.init_kl_coef", f"must be > 0 {target}, which steers it by factors")
        known = "which is steered to by a KL of temperature, top_p and top_k alone; leave one of the two out"
        for name in [name for name, neutral in NEUTRAL.items() if args.get(name) not in neutral]:
            yield conflict(cfg, f"algo.args.{name}", f"not {target}, {known}")
    if algo.critic == "separate" and cfg.peft.quantization:
        why = "is trained in full, which 4-bit weights cannot be; use algo.critic=shared"
        yield conflict(cfg, "algo.critic", why)
    rounds, accumulated = args.get("steps_per_generation"), args.get("gradient_accumulation_steps", 1)
    if rounds is not None and rounds % accumulated:
        why = f"must be a multiple of algo.args.gradient_accumulation_steps={accumulated}"
        yield conflict(cfg, "algo.args.steps_per_generation", f"{why}, for a minibatch must not span two rollouts")
    if algo.critic_warmup_steps >= args.get("max_steps", -1) > 0:
        why = f"must be below algo.args.max_steps={args['max_steps']}, or the policy learns nothing"
        yield conflict(cfg, "algo.critic_warmup_steps", why)


def check_learning(cfg: Config) -> Iterator[Problem]:
    """Whether the loss depends on the policy, and the rewards on the completions, so that weights change."""
    row, args = cfg.algo.row, cfg.algo.args
    losses = set(_list_losses(cfg) or ([row.loss] if isinstance(row.loss, str) else row.loss or []))
    free = losses & set(row.losses_without_kl) and not losses & set(DIVIDED_BY_BETA)
    if row.has_implicit_rewards and args.get("beta") == 0 and not free:
        way = "".join(f", or use algo.args.loss_type=[{loss}], which is not" for loss in row.losses_without_kl)
        chosen = show(args.get("loss_type", row.loss))
        why = f"loss_type={chosen} is scaled by it, so that nothing would be learned; must be > 0, such as 0.1{way}"
        yield conflict(cfg, "algo.args.beta", why)
    for names in WEIGHTS:
        given = [args[name] for name in names if args.get(name) is not None]
        weights = [weight for value in given for weight in (value if isinstance(value, list) else [value])]
        if len(given) == len(names) and weights and not any(weights):
            both = "".join(f"with algo.args.{name}={show(args[name])} " for name in names[1:])
            why = f"{both}the loss would be 0, and nothing learned; one must be > 0"
            yield conflict(cfg, f"algo.args.{names[0]}", why)
    if not row.online:
        return
    clip = args.get("reward_clip_range")
    if clip is not None and clip[0] >= clip[1]:
        near = f"; nearest: {show(clip[::-1])}" if clip[0] > clip[1] else ""
        why = f"would make all rewards equal; must rise, the lower bound first{near}"
        yield conflict(cfg, "algo.args.reward_clip_range", why)
    graded = [name for name in cfg.reward.weights if name in REWARDS and "grade" in REWARDS[name].needs]
    if graded and cfg.max_tokens < cfg.task.least_tokens:
        why = f"no answer of task={cfg.task.name} is that short, so that nothing would earn reward.weights.{graded[0]}"
        yield conflict(cfg, "max_tokens", f"{why}; must be at least {cfg.task.least_tokens}")
