"""`algo.args` -> a checked config object of the installed TRL.

    args = build_args(cfg)     # a GRPOConfig, SFTConfig, ...

compose.py has checked names, types and ranges before, without importing TRL. Here the installed TRL itself decides.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from rlhf_exp.config.rules.online import check_groups
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_arguments import inspect_arguments, load_config_class
from rlhf_exp.config.trl_checks import find_argument_problems
from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError

if TYPE_CHECKING:
    from transformers import TrainingArguments


def check_args(cfg: Config) -> list[str]:
    """One line for each of `algo.args` that the installed TRL does not know or does not accept."""
    known = inspect_arguments(cfg.algo.name)
    problems = find_argument_problems(cfg.algo.name, cfg.algo.args, vars(cfg.algo), known)
    found = [line for lines in problems.values() for line in lines]
    return found or [*check_groups(cfg, known), *_check_machine(cfg)]


def build_args(cfg: Config) -> "TrainingArguments":
    """The TRL config object for `cfg`.

    Raises:
        ConfigError: what `check_args` finds, or what TRL itself refuses.
    """
    if problems := check_args(cfg):
        raise ConfigError(problems)
    # PPOConfig, of this package, also has the algorithm's own keys.
    own = {name: value for name, value in vars(cfg.algo).items() if name in inspect_arguments(cfg.algo.name)}
    try:
        return load_config_class(cfg.algo.name)(**cfg.algo.args, **own)
    except (ValueError, TypeError, NotImplementedError, ImportError) as error:
        raise ConfigError([f"algo.args: {show(error, 300)}"]) from None


def _check_machine(cfg: Config) -> list[str]:
    """Check what `device=auto` could only guess, and packages that TRL would look for later."""
    import torch

    problems = []
    if cfg.algo.args.get("use_cpu") is False and not torch.cuda.is_available():
        problems.append("algo.args.use_cpu=false: torch finds no usable GPU; use device=cpu")
    if cfg.algo.args.get("use_vllm") and find_spec("vllm") is None:
        problems.append("algo.args.use_vllm=true: the package is not installed; pip install vllm")
    return problems
