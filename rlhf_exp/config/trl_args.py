"""`algo.args` -> a checked config object of the installed TRL.

    args = build_args(cfg)     # a GRPOConfig, SFTConfig, ...

compose.py has checked names, types and ranges before, without importing TRL. Here the installed TRL itself decides.
"""

import os
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from rlhf_exp import processes
from rlhf_exp.config.device import targets_other_hardware
from rlhf_exp.config.rules.machine import forget_engine
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.config.values import one_of
from rlhf_exp.errors import ConfigError, collecting, refusing, show

REFUSALS = (ValueError, TypeError, AttributeError, NotImplementedError, ImportError, OSError)
"""What the installed libraries raise at an argument."""
BACKEND, SAMPLING = ("torch_compile_backend",), ("cache_implementation", "generation_kwargs")
OPTIMIZER, SCHEDULE = ("optim", "optim_args"), ("lr_scheduler_type", "lr_scheduler_kwargs")

if TYPE_CHECKING:
    from transformers import TrainingArguments


def build_args(cfg: Config) -> "TrainingArguments":
    """The TRL config object for `cfg`; for another machine without the argument that looks for its GPU here. With
    several processes the group must be open (`processes.connect`), since TRL's arguments look for it.

    Raises:
        ConfigError: a GPU is missing, or TRL itself refuses the arguments.
    """
    elsewhere = targets_other_hardware(cfg)
    if problems := [] if elsewhere else _check_gpus(cfg):
        raise ConfigError(problems)
    forget_engine()
    config_class = resolve_name(cfg.algo.row.config_class)
    args = fill_args(cfg) | ({"use_cpu": True} if elsewhere else {})
    known = load_arguments(cfg.algo.name)
    args = {name: float(value) if _is_whole(value, known[name].default) else value for name, value in args.items()}
    with refusing("algo.args: TRL refuses them", *REFUSALS):
        built = config_class(**args)
    if problems := [] if elsewhere else _try_parts(built, {x: args[x] for x in args if args[x] != known[x].default}):
        raise ConfigError(problems)
    return built


def fill_args(cfg: Config) -> dict[str, Any]:
    """`algo.args`, and the arguments that follow from other keys (`OWNED` in rules/arguments.py)."""
    filled = cfg.algo.args | {
        "output_dir": f"{cfg.output_dir}/checkpoints",
        "seed": cfg.seed,
        "use_cpu": cfg.device.use_cpu,
        "bf16": cfg.device.bf16,
        "report_to": cfg.logging.report_to,
        "trust_remote_code": cfg.model.trust_remote_code,
        "model_init_kwargs": {  # with these TRL loads the policy, as the measurements do
            "dtype": cfg.model.dtype,
            "attn_implementation": cfg.model.attn_implementation,
            "quantization_config": cfg.peft.quantization,
        },
    }
    if cfg.algo.row.online:
        filled["max_completion_length"] = cfg.max_tokens
    if cfg.task.turns and cfg.algo.row.plays:
        filled["max_tool_calling_iterations"] = cfg.task.turns
    if cfg.algo.row.by_rewards:
        filled["reward_weights"] = list(cfg.reward.weights.values())
    return filled


def _is_whole(value: Any, default: Any) -> bool:
    """Whether a whole number stands where TRL has a float: sampling refuses one, once a rollout begins."""
    return type(value) is int and type(default) is float


def _try_parts(args: Any, given: Mapping[str, Any]) -> list[str]:
    """What transformers itself refuses of those arguments that it reads only when training begins: it builds the
    optimizer and the schedule of one weight, and the settings of sampling.

    Args:
        given: the typed values of those that do not have their default.
    """
    if not {*BACKEND, *OPTIMIZER, *SCHEDULE, *SAMPLING}.intersection(given):
        return []
    import torch
    from transformers import GenerationConfig, Trainer
    from transformers.optimization import get_scheduler

    weights, problems = [torch.nn.Parameter(torch.zeros(1, 1))], list[str]()

    def build_optimizer() -> Any:
        kind, more = Trainer.get_optimizer_cls_and_kwargs(args)
        return kind(weights, **more)

    def build_schedule() -> Any:
        plain = torch.optim.SGD(weights, lr=args.learning_rate)
        return get_scheduler(args.lr_scheduler_type, plain, 1, 100, args.lr_scheduler_kwargs)

    def build_sampling() -> Any:
        return GenerationConfig(cache_implementation=args.cache_implementation, **(args.generation_kwargs or {}))

    def find_backend() -> None:
        if args.torch_compile_backend not in (names := torch.compiler.list_backends(exclude_tags=())):
            raise ValueError(one_of(args.torch_compile_backend, names))

    for names, build in (
        (BACKEND, find_backend),
        (OPTIMIZER, build_optimizer),
        (SCHEDULE, build_schedule),
        (SAMPLING, build_sampling),
    ):
        typed = [name for name in names if name in given]
        # Optimizers of some layers alone look for these in the model; vLLM has other settings of sampling.
        if not typed or names == OPTIMIZER and args.optim_target_modules or names == SAMPLING and args.use_vllm:
            continue
        said = " ".join(f"algo.args.{name}={show(given[name])}" for name in typed)
        with collecting(problems), refusing(f"{said}: cannot be used", *REFUSALS):
            build()
    return problems


def _check_gpus(cfg: Config) -> list[str]:
    """Check what `device=auto` could only guess."""
    import torch

    if not cfg.device.use_cpu and not torch.cuda.is_available():
        return ["device.use_cpu=false: torch finds no usable GPU; use device=cpu"]
    there, started = torch.cuda.device_count(), int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
    if not cfg.device.use_cpu and processes.count() > 1 and started > there:
        return [f"torchrun --nproc_per_node {started}: one GPU each, and here are {there}; at most {there}"]
    return []
