"""`algo.args` -> a checked config object of the installed TRL.

    args = build_args(cfg)     # a GRPOConfig, SFTConfig, ...

compose.py has checked names, types and ranges before, without importing TRL. Here the installed TRL itself decides.
"""

import os
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from rlhf_exp import processes
from rlhf_exp.config.device import targets_other_hardware
from rlhf_exp.config.rules.machine import forget_engine
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.errors import ConfigError, show

if TYPE_CHECKING:
    from transformers import TrainingArguments


def build_args(cfg: Config) -> "TrainingArguments":
    """The TRL config object for `cfg`; for another machine without the arguments that look for its GPU and DeepSpeed
    here. With several processes the group must be open (`processes.connect`), since TRL's arguments look for it.

    Raises:
        ConfigError: a GPU is missing, or TRL itself refuses the arguments.
    """
    elsewhere = targets_other_hardware(cfg)
    if problems := [] if elsewhere else _check_gpus(cfg):
        raise ConfigError(problems)
    forget_engine()
    # PPOConfig, of this package, also has the algorithm's own keys.
    own = {name: value for name, value in vars(cfg.algo).items() if name in load_arguments(cfg.algo.name)}
    args = cfg.algo.args | ({"use_cpu": True, "deepspeed": None} if elsewhere else {})
    try:
        return resolve_name(cfg.algo.row.config_class)(**args, **own)
    except (ValueError, TypeError, NotImplementedError, ImportError) as error:
        raise ConfigError([f"algo.args: {show(error, 300)}"]) from None


def _check_gpus(cfg: Config) -> list[str]:
    """Check what `device=auto` could only guess."""
    import torch

    if cfg.algo.args.get("use_cpu") is False and not torch.cuda.is_available():
        return ["algo.args.use_cpu=false: torch finds no usable GPU; use device=cpu"]
    there, started = torch.cuda.device_count(), int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
    if not cfg.device.use_cpu and processes.count() > 1 and started > there:
        return [f"torchrun --nproc_per_node {started}: one GPU each, and here are {there}; at most {there}"]
    return []
