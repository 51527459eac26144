"""`algo.args` -> a checked config object of the installed TRL.

    args = build_args(cfg)     # a GRPOConfig, SFTConfig, ...

compose.py has checked names, types and ranges before, without importing TRL. Here the installed TRL itself decides.
"""

import os
from typing import TYPE_CHECKING, Any

from rlhf_exp import orders, processes
from rlhf_exp.config.device import targets_other_hardware
from rlhf_exp.config.rules.machine import forget_engine
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_arguments import load_arguments, load_config_class
from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError

if TYPE_CHECKING:
    from transformers import TrainingArguments

DDP_TIMEOUT_S = 1800
"""transformers' default of `ddp_timeout`."""


def build_args(cfg: Config) -> "TrainingArguments":
    """The TRL config object for `cfg`. It looks for the group of several processes, which is opened first.

    Raises:
        ConfigError: a GPU is missing, or TRL itself refuses the arguments.
    """
    if problems := _check_machine(cfg):
        raise ConfigError(problems)
    forget_engine()
    orders.connect(cfg.algo.args.get("ddp_timeout") or DDP_TIMEOUT_S, cfg.device.use_cpu)
    # PPOConfig, of this package, also has the algorithm's own keys.
    own = {name: value for name, value in vars(cfg.algo).items() if name in load_arguments(cfg.algo.name)}
    try:
        return load_config_class(cfg.algo.name)(**_list_arguments(cfg), **own)
    except (ValueError, TypeError, NotImplementedError, ImportError) as error:
        raise ConfigError([f"algo.args: {show(error, 300)}"]) from None


def _list_arguments(cfg: Config) -> dict[str, Any]:
    """TRL's arguments, in a dry run about another machine without those that look for its GPU and deepspeed here."""
    return cfg.algo.args | ({"use_cpu": True, "deepspeed": None} if targets_other_hardware(cfg) else {})


def _check_machine(cfg: Config) -> list[str]:
    """Check what `device=auto` could only guess."""
    import torch

    if targets_other_hardware(cfg):
        return []
    problems = []
    if cfg.algo.args.get("use_cpu") is False and not torch.cuda.is_available():
        problems.append("algo.args.use_cpu=false: torch finds no usable GPU; use device=cpu")
    there, started = torch.cuda.device_count(), int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
    if not problems and not cfg.device.use_cpu and processes.count() > 1 and started > there:
        problems.append(f"torchrun --nproc_per_node {started}: one GPU each, and here are {there}; at most {there}")
    return problems
