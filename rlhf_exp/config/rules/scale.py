"""Refuses what an engine for several processes cannot do, and groups that would span processes."""

import os

from rlhf_exp.algorithms import TRL_SAMPLING
from rlhf_exp.config.hardware import count_completions, count_processes, is_elsewhere
from rlhf_exp.config.schema import Config, Ppo
from rlhf_exp.config.values import show

SHARDED = ("fsdp2", "zero3")
"""Engines that leave each process only a part of the weights."""
ON_CPU = ("ddp",)
DEEPSPEED = ("zero2", "zero3")
SWITCHES = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
BY_SCALE = {"fsdp": ("fsdp2",), "fsdp_config": ("fsdp2",), "deepspeed": DEEPSPEED}
"""Arguments that choose an engine, and the values of `scale` that set them."""
BY_ACCELERATE = tuple(name for name in SWITCHES if os.environ.get(name, "false").lower() == "true")
"""What `accelerate launch` has set before anything else could: an engine that is chosen here sets the same."""


def check_scale(cfg: Config) -> list[str]:
    """Whether the engine fits the number of processes, the machine and the algorithm."""
    name, n, elsewhere = cfg.scale.name, count_processes(cfg), is_elsewhere(cfg)
    key, has = f"scale={name}", f"hardware={cfg.hardware.name} has {n} GPU{'s' * (n > 1)}"
    found = [
        f"algo.args.{argument}={show(cfg.algo.args[argument])}: is set by another key; use scale={' or '.join(scales)}"
        for argument, scales in BY_SCALE.items()
        if cfg.algo.args.get(argument) and name not in scales
    ]
    if found:
        return found
    if name == "none":
        there = has if elsewhere else f"here are {n}"
        return [f"{key}: is for one process, and {there}; use scale=ddp"] if n > 1 else _check_accelerate(cfg)
    problems = _check_accelerate(cfg)
    if n == 1 and elsewhere:
        problems.append(f"{key}: needs several processes, and {has}; use scale=none")
    elif n == 1 and not cfg.dry_run:
        problems.append(f"{key}: needs several processes; start with torchrun --nproc_per_node N, or use scale=none")
    if name not in ON_CPU and cfg.device.use_cpu and not elsewhere:
        problems.append(f"{key}: not on a CPU, where accelerate silently trains with DDP instead; use scale=ddp")
    if name in DEEPSPEED and isinstance(cfg.algo, Ppo):
        way = "DeepSpeed clips the gradients of policy and critic together; use scale=fsdp2 or scale=ddp"
        problems.append(f"{key}: not with algo=ppo, since {way}")
    return problems + (_check_sharded(cfg, key) if name in SHARDED else [])


def forget_engine() -> None:
    """Unset what the engine of an earlier job of a sweep has set, since accelerate does not."""
    for name in SWITCHES:
        os.environ.pop(name, None)


def check_span(cfg: Config) -> list[str]:
    """Whether each process holds whole groups of completions: rewards may compare those of a prompt."""
    args, n = cfg.algo.args, count_processes(cfg)
    group = args.get("num_generations") or 1
    if n == 1 or group == 1:
        return []
    own = count_completions(cfg)
    if own % group == 0:
        return []
    return [
        f"algo.args.num_generations={group}: a group would span processes, of which each samples {own} completions per"
        f" rollout; must divide {own}, or algo.args.per_device_train_batch_size must be a multiple of {group}"
    ]


def _check_accelerate(cfg: Config) -> list[str]:
    """`accelerate launch` with an engine of its own would set another one than the config says."""
    return [
        f"scale={cfg.scale.name}: {name} is set, by `accelerate launch`; leave its engine out, and choose by scale="
        for name in BY_ACCELERATE
    ]


def _check_sharded(cfg: Config, key: str) -> list[str]:
    args = cfg.algo.args
    partial = f"not with {key}, which leaves each process a part of the weights"
    problems = []
    if cfg.peft.quantization:
        problems.append(
            f"peft={cfg.peft.name}: {partial}, and 4-bit ones cannot be divided; use peft=lora or scale=ddp"
        )
    if not args.get("use_vllm"):
        problems += [f"generation=trl: {partial}; use generation=compact"] * (cfg.generation.method == "trl")
        problems += [
            f"algo.args.{name}={show(args[name])}: is read by generation=trl alone, {partial}; leave it out, or use"
            " scale=ddp"
            for name in TRL_SAMPLING
            if args.get(name) is not None
        ]
    if args.get("sync_ref_model"):
        problems.append(f"algo.args.sync_ref_model=true: {partial}; leave it out, or use scale=ddp")
    if isinstance(cfg.algo, Ppo):
        cut = {name: args[name] for name in ("top_p", "top_k") if args.get(name) not in (None, 1, 0)}
        exact = {f"algo.args.{name}": value for name, value in cut.items()}
        exact |= {"algo.target_kl": cfg.algo.target_kl} if cfg.algo.target_kl is not None else {}
        problems += [
            f"{name}={show(value)}: takes the exact KL, {partial}; use scale=ddp" for name, value in exact.items()
        ]
    return problems
