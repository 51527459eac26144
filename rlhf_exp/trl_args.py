"""`algo.args` -> a checked config object of the installed TRL.

    args = build_args(cfg)     # a GRPOConfig, SFTConfig, ...

TRL accepts `learning_rate="abc"`, `beta=-1` and `loss_type="nope"` and fails late or never; here the name, type
and range of each argument are checked first. Importing TRL's config takes seconds, so config.py goes before.
"""

import os
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from math import gcd
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from rlhf_exp.checks import find_problem, fits, show, suggest
from rlhf_exp.config import Config, ConfigError

if TYPE_CHECKING:
    from transformers import TrainingArguments

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when TRL's config is imported

CONFIG_CLASSES = {
    "grpo": ("trl.trainer.grpo_config", "GRPOConfig"),
    "ppo": ("rlhf_exp.trainers.ppo.config", "PPOConfig"),
    "sft": ("trl.trainer.sft_config", "SFTConfig"),
    "dpo": ("trl.trainer.dpo_config", "DPOConfig"),
    "reward_model": ("trl.trainer.reward_config", "RewardConfig"),
}

_POSITIVE, _COUNT, _SHARE = "> 0", ">= 1", ">= 0, <= 1"
RANGES = {
    # optimizer and schedule
    "learning_rate": _POSITIVE,
    "weight_decay": ">= 0",
    "adam_beta1": ">= 0, < 1",
    "adam_beta2": ">= 0, < 1",
    "adam_epsilon": _POSITIVE,
    "max_grad_norm": ">= 0",
    "warmup_steps": ">= 0",
    "max_steps": ">= 1 or -1",
    "num_train_epochs": _POSITIVE,
    "label_smoothing_factor": ">= 0, < 1",
    "seed": ">= 0, <= 4294967295",
    "data_seed": ">= 0",
    # batches
    "per_device_train_batch_size": _COUNT,
    "per_device_eval_batch_size": _COUNT,
    "gradient_accumulation_steps": _COUNT,
    "generation_batch_size": _COUNT,
    "steps_per_generation": _COUNT,
    "num_generations": ">= 2",
    "num_generations_eval": _COUNT,
    "num_iterations": _COUNT,
    "dataloader_num_workers": ">= 0",
    "dataset_num_proc": _COUNT,
    # lengths and sampling
    "max_completion_length": _COUNT,
    "max_length": _COUNT,
    "temperature": _POSITIVE,
    "top_p": "> 0, <= 1",
    "top_k": ">= 0",
    "min_p": _SHARE,
    "repetition_penalty": _POSITIVE,
    # the loss
    "beta": ">= 0",
    "epsilon": _POSITIVE,
    "epsilon_high": _POSITIVE,
    "delta": _POSITIVE,
    "sapo_temperature_neg": _POSITIVE,
    "sapo_temperature_pos": _POSITIVE,
    "vespo_k_pos": ">= 0",
    "vespo_k_neg": ">= 0",
    "vespo_lambda_pos": ">= 0",
    "vespo_lambda_neg": ">= 0",
    "top_entropy_quantile": _SHARE,
    "entropy_coef": ">= 0",
    "entropy_coef_min": ">= 0",
    "entropy_coef_max": ">= 0",
    "entropy_coef_delta": ">= 0",
    "entropy_target": ">= 0",
    "ref_model_mixup_alpha": _SHARE,
    "ref_model_sync_steps": _COUNT,
    "off_policy_mask_threshold": _POSITIVE,
    "vllm_gpu_memory_utilization": "> 0, <= 1",
    "vllm_tensor_parallel_size": _COUNT,
    # logging and saving; below 1 they are a share of all steps
    "logging_steps": _POSITIVE,
    "eval_steps": _POSITIVE,
    "save_steps": _POSITIVE,
    "save_total_limit": _COUNT,
}

# Closed choices that TRL annotates as plain text and looks at only while it trains. Losses: combinations.py.
CHOICES = {
    "scale_rewards": ("group", "batch", "none", True, False),
    "importance_sampling_level": ("token", "sequence"),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "vllm_mode": ("colocate", "server"),
    "vllm_importance_sampling_mode": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
}

# transformers 5 takes the new name where both are set, and ours is set: the old one would be ignored in silence.
RENAMED = {
    "gradient_checkpointing": "activation_checkpointing",
    "gradient_checkpointing_kwargs": "activation_checkpointing_kwargs",
}


def load_config_class(algo: str) -> type:
    """The TRL config class of an algorithm; the first call imports TRL's config module, and with it torch."""
    module, name = CONFIG_CLASSES[algo]
    return getattr(import_module(module), name)


def check_args(cfg: Config) -> list[str]:
    """One line for each of `algo.args` that the installed TRL does not know or that cannot be right."""
    config_class, args = load_config_class(cfg.algo.name), cfg.algo.args
    known, hints = {item.name: item for item in fields(config_class)}, get_type_hints(config_class)
    own, ranges = _own_keys(cfg), RANGES | ({"num_generations": _COUNT} if cfg.algo.name == "ppo" else {})
    problems: dict[str, list[str]] = {"unknown": [], "type": [], "range": []}
    for name, value in args.items():
        key = f"algo.args.{name}"
        if name not in known:
            problems["unknown"].append(
                f"{key}={show(value)}: no argument of TRL's {config_class.__name__}{suggest(name, known)}"
            )
            continue
        if name in own:
            problems["unknown"].append(f"{key}={show(value)}: not TRL's; use algo.{name}")
        if name in RENAMED:
            problems["unknown"].append(f"{key}={show(value)}: renamed; use algo.args.{RENAMED[name]}")
        annotation = _narrow(name, known[name].metadata.get("choices"), hints[name])
        if problem := find_problem(key, value, annotation, ranges.get(name)):
            problems[problem[0]].append(problem[1])
    found = [line for lines in problems.values() for line in lines]
    return found or [*_check_groups(cfg, known), *_check_machine(cfg)]


def build_args(cfg: Config) -> "TrainingArguments":
    """The TRL config object for `cfg`.

    Raises:
        ConfigError: what `check_args` finds, or what TRL itself refuses.
    """
    if problems := check_args(cfg):
        raise ConfigError(problems)
    try:
        return load_config_class(cfg.algo.name)(**cfg.algo.args, **_own_keys(cfg))
    except (ValueError, TypeError, NotImplementedError, ImportError) as error:
        raise ConfigError([f"algo.args: {show(error, 300)}"]) from None


def _own_keys(cfg: Config) -> dict[str, Any]:
    """The algorithm's own keys, where they are its config's arguments too: PPO's config is ours."""
    known = {item.name for item in fields(load_config_class(cfg.algo.name))}
    return {
        item.name: getattr(cfg.algo, item.name) for item in fields(cfg.algo) if item.name in known - {"name", "args"}
    }


def _narrow(name: str, choices: Any, hint: Any) -> Any:
    """The annotation as a Literal where the choices are known, TRL's own (`choices` of the field) or ours."""
    choices = CHOICES.get(name, choices)
    if not choices:
        return hint
    closed = Literal[tuple(choices)]
    return closed | None if fits(None, hint) else closed


def _check_groups(cfg: Config, known: dict) -> list[str]:
    """GRPO samples whole groups: the completions of a step must be a multiple of `num_generations`."""
    if cfg.algo.name != "grpo":
        return []
    args = {name: cfg.algo.args.get(name, known[name].default) for name in known}
    key, repeats = "per_device_train_batch_size", int(os.environ.get("WORLD_SIZE", "1"))
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
    remedies = [f"{key}={_either(batches)}"]
    remedies += [f"num_generations={_either(sorted(groups))}"] if groups else []
    return [
        f"algo.args.{key}={batch}: makes {total} completions a step, not a multiple of"
        f" algo.args.num_generations={group}; nearest: {', or '.join(remedies)}"
    ]


def _either(numbers: list[int]) -> str:
    return " or ".join(str(number) for number in numbers)


def _check_machine(cfg: Config) -> list[str]:
    """What `device=auto` could only guess at, and packages that TRL looks for late."""
    import torch

    problems = []
    if cfg.algo.args.get("use_cpu") is False and not torch.cuda.is_available():
        problems.append("algo.args.use_cpu=false: torch finds no usable GPU; use device=cpu")
    if cfg.algo.args.get("use_vllm") and find_spec("vllm") is None:
        problems.append("algo.args.use_vllm=true: the package is not installed; pip install vllm")
    return problems
