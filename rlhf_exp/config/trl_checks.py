"""Checks each of TRL's arguments in a config: its name, its type, and its range or choices.

find_argument_problems("grpo", {"beta": -1}, [])     # {..., "range": ["algo.args.beta=-1: ..."]}

TRL accepts `learning_rate=1e9`, `beta=-1` and `scale_rewards="nope"` and fails late or never. Upper bounds are far
above any value in use, so that a value beyond them is a typing mistake.
"""

from collections.abc import Collection, Mapping
from typing import Any

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.keys import refuse_key
from rlhf_exp.config.overrides import refuse_secret
from rlhf_exp.config.ranges import RATE
from rlhf_exp.config.trl_arguments import RENAMED, load_arguments, narrow
from rlhf_exp.config.values import find_problem, is_secret, show

_NAMES = {
    RATE: ("learning_rate",),
    "> 0, <= 1": ("adam_epsilon", "top_p", "vllm_gpu_memory_utilization"),
    ">= 0, <= 10": ("weight_decay",),
    ">= 0, < 1": ("adam_beta1", "adam_beta2", "label_smoothing_factor"),
    ">= 0, <= 1000000": ("max_grad_norm", "vllm_importance_sampling_clip_min"),
    ">= 0, <= 10000000": ("warmup_steps", "top_k", "eval_delay"),
    ">= 1, <= 10000000 or -1": ("max_steps",),
    "> 0, <= 100000": ("num_train_epochs",),
    ">= 0, < 0.5": ("label_smoothing",),
    ">= 0, <= 1000": (
        *("neftune_noise_alpha", "vespo_k_pos", "vespo_k_neg", "vespo_lambda_pos", "vespo_lambda_neg"),
        *("loss_weights", "desirable_weight", "undesirable_weight"),
    ),
    ">= 0, <= 4294967295": ("seed", "data_seed"),
    ">= 1, <= 65536": (
        *("per_device_train_batch_size", "per_device_eval_batch_size", "precompute_ref_batch_size"),
        *("gradient_accumulation_steps", "eval_accumulation_steps", "steps_per_generation"),
        *("num_generations_eval", "pad_to_multiple_of", "max_tool_calling_iterations"),
    ),
    ">= 1, <= 16777216": ("generation_batch_size", "num_completions_to_print"),
    ">= 2, <= 65536": ("num_generations",),
    ">= 1, <= 1000": ("num_iterations",),
    ">= 0, <= 1024": ("dataloader_num_workers",),
    ">= 1, <= 1024": ("dataloader_prefetch_factor", "dataset_num_proc", "vllm_tensor_parallel_size"),
    ">= 1, <= 10000000": (
        *("max_completion_length", "max_length", "ref_model_sync_steps", "vllm_max_model_length"),
        *("save_total_limit", "torch_empty_cache_steps"),
    ),
    "> 0, <= 10": ("temperature", "repetition_penalty"),
    ">= 0, <= 1": ("min_p", "top_entropy_quantile", "ref_model_mixup_alpha", "ld_alpha"),
    ">= 0, <= 100": (
        *("beta", "entropy_coef", "entropy_coef_min", "entropy_coef_max", "entropy_coef_delta"),
        *("entropy_target", "center_rewards_coefficient", "router_aux_loss_coef"),
    ),
    "> 0, <= 100": ("epsilon",),
    "> 0, <= 1000": (
        *("epsilon_high", "delta", "sapo_temperature_neg", "sapo_temperature_pos", "off_policy_mask_threshold"),
        *("discopop_tau",),
    ),
    ">= -1000, <= 1000": ("reward_weights", "reward_clip_range"),
    "> -100, < 100": ("f_alpha_divergence_coef",),
    "> 0, <= 1000000": ("vllm_importance_sampling_cap", "vllm_importance_sampling_clip_max"),
    ">= 1, <= 65535": ("vllm_group_port", "vllm_server_port"),
    "> 0, <= 31536000": ("vllm_server_timeout", "ddp_timeout"),
    "> 0, <= 10000000": ("logging_steps", "eval_steps", "save_steps"),
    ">= 1, <= 1048576": ("ddp_bucket_cap_mb",),
    ">= -1, <= 65536": ("local_rank",),
}
"""Arguments by their range; of logging and saving, a number below 1 is a share of all steps."""

RANGES = {name: bounds for bounds, names in _NAMES.items() for name in names}

# Closed choices that TRL annotates as plain text and checks only during training. For losses see algorithms.py.
CHOICES = {
    "fsdp": (True, False),  # what transformers takes, which still annotates the texts of earlier versions
    "scale_rewards": ("group", "batch", "none", True, False),
    "importance_sampling_level": ("token", "sequence"),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "vllm_mode": ("colocate", "server"),
    "vllm_importance_sampling_mode": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
}

# TRL also accepts these as JSON text, and fails late for any other text; in YAML write a mapping.
MAPPINGS = (
    *("model_init_kwargs", "generation_kwargs", "chat_template_kwargs", "lr_scheduler_kwargs", "dataset_kwargs"),
    *("activation_checkpointing_kwargs", "transformers_continuous_batching_config"),
)


def find_argument_problems(algo: str, args: Mapping[str, Any], own: Collection[str]) -> dict[str, list[str]]:
    """Problems by kind, one line each: `unknown`, `type`, `range`. `own`: the algorithm's keys beside args."""
    known = load_arguments(algo)
    ranges = RANGES | ({} if ALGORITHMS[algo].compares_groups else {"num_generations": RANGES["steps_per_generation"]})
    problems: dict[str, list[str]] = {"unknown": [], "type": [], "range": []}
    for name, value in args.items():
        key = f"algo.args.{name}"
        shown = f"{key}={show(value)}"
        if is_secret(name):
            problems["unknown"].append(refuse_secret(key))
        elif name in own and name in known:
            problems["unknown"].append(f"{shown}: not TRL's; use algo.{name}")
        elif name in RENAMED:
            problems["unknown"].append(f"{shown}: renamed; use algo.args.{RENAMED[name]}")
        elif name not in known:
            problems["unknown"].append(f"{shown}: {refuse_key(key, algo)}")
        elif name != "loss_type" or are_losses(algo, value):  # rules/algo.py refuses the others
            annotation = dict | None if name in MAPPINGS else narrow(CHOICES.get(name), known[name].annotation)
            if problem := find_problem(key, value, annotation, ranges.get(name)):
                problems[problem[0]].append(problem[1])
    return problems


def are_losses(algo: str, value: Any) -> bool:
    """Whether a loss, or each one in a list, is one of the algorithm's; true if the algorithm's loss has no name."""
    losses = ALGORITHMS[algo].losses
    return not losses or all(loss in losses for loss in (value if isinstance(value, list) else [value]))
