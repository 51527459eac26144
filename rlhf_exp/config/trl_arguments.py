"""The arguments of TRL's config classes: names, types, ranges and defaults; no import of TRL is needed to know them.

    known = load_arguments("grpo")
    known["beta"]               # Argument(annotation=float, default=0.0, bounds=">= 0, <= 100")

Importing TRL takes seconds, so assets/trl_arguments.json records names, types and defaults for the versions named
there. With other versions installed, TRL is imported instead. After a change of a version, of PPOConfig, or of the
algorithms:

    python -m rlhf_exp.config.trl_arguments      # rewrites the file
"""

import ast
import enum
import json
import os
import types
import typing
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

from rlhf_exp.algorithms import ALGORITHMS, load_object
from rlhf_exp.config.device import find_version
from rlhf_exp.config.ranges import RATE
from rlhf_exp.config.values import fits

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when TRL's config is imported

FILE = Path(__file__).parent.parent / "assets" / "trl_arguments.json"
PACKAGES = ("trl", "transformers")  # TRL's config classes inherit from transformers'

# transformers 5 silently ignores the old name if the new one is set too, and the configs set the new one.
RENAMED = {
    "gradient_checkpointing": "activation_checkpointing",
    "gradient_checkpointing_kwargs": "activation_checkpointing_kwargs",
}

_BY_RANGE = {
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
"""Arguments by their range; of logging and saving, a number below 1 is a share of all steps. TRL accepts
`learning_rate=1e9` and `beta=-1`, and fails late or never. Upper bounds are far above any value in use, so that a value
beyond them is a typing mistake."""

RANGES = {name: bounds for bounds, names in _BY_RANGE.items() for name in names}

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

_NAMES = {"int": int, "float": float, "bool": bool, "str": str, "dict": dict, "None": type(None), "Any": Any}


@dataclass(frozen=True)
class Argument:
    annotation: Any
    default: Any
    bounds: str | None = None


def load_config_class(algo: str) -> type:
    """The TRL config class of an algorithm; the first call imports TRL's config module, and with it torch."""
    return load_object(ALGORITHMS[algo].config_class)


def load_arguments(algo: str) -> dict[str, Argument]:
    """The arguments of the installed TRL: from the file if its versions are the installed ones, else by import. A row
    that a program has added has those of a recorded row with the same class."""
    recorded, wanted = _read_file(), ALGORITHMS[algo].config_class
    alike = [name for name in (algo, *ALGORITHMS) if name in recorded["arguments"]]
    found = next((name for name in alike if ALGORITHMS[name].config_class == wanted), None)
    if found is None or recorded["versions"] != read_versions():
        return inspect_arguments(algo)
    return _parse_arguments(algo, found)


@cache
def inspect_arguments(algo: str) -> dict[str, Argument]:
    """The arguments as the installed TRL declares them; a type is narrowed to what TRL takes."""
    config_class = load_config_class(algo)
    hints, found = get_type_hints(config_class), {}
    for item in fields(config_class):
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        choices = CHOICES.get(item.name) or item.metadata.get("choices")
        annotation = dict | None if item.name in MAPPINGS else narrow(choices, hints[item.name])
        # In the form that the file has: no enums, and a class that it cannot hold by its name alone.
        found[item.name] = _make_argument(algo, item.name, spell(annotation), default)
    return {name: item for name, item in found.items() if name not in RENAMED}


@cache
def _parse_arguments(algo: str, recorded: str) -> dict[str, Argument]:
    items = _read_file()["arguments"][recorded].items()
    return {name: _make_argument(algo, name, item["type"], item["default"]) for name, item in items}


def _make_argument(algo: str, name: str, spelled: str, default: Any) -> Argument:
    whole = name == "num_generations" and not ALGORITHMS[algo].compares_groups
    bounds = RANGES.get("steps_per_generation" if whole else name)
    return Argument(_read_type(ast.parse(spelled, mode="eval").body), default, bounds)


def read_versions() -> dict[str, str | None]:
    """The installed versions of the packages that declare the arguments."""
    return {name: find_version(name) for name in PACKAGES}


def write_file() -> None:
    """Write the file from the installed TRL, one argument per line."""
    blocks = []
    for algo in ALGORITHMS:
        lines = [
            f"{json.dumps(name)}: {json.dumps({'type': spell(item.annotation), 'default': item.default})}"
            for name, item in sorted(inspect_arguments(algo).items())
        ]
        blocks.append(f"{json.dumps(algo)}: {{\n" + ",\n".join(lines) + "\n}")
    body = f'{{"versions": {json.dumps(read_versions())},\n"arguments": {{\n' + ",\n".join(blocks) + "\n}}\n"
    FILE.write_text(body, encoding="utf-8")


def spell(annotation: Any) -> str:
    """A type as text that `_read_type` reads: an enum as its values, any other class by its name."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        has_enum = any(isinstance(part, type) and issubclass(part, enum.Enum) for part in parts)
        return " | ".join(spell(part) for part in parts if not (has_enum and part is str))
    if origin is Literal:
        return f"Literal{list(parts)}"
    if origin in (list, tuple, dict):
        return f"{origin.__name__}[{', '.join(spell(part) for part in parts)}]"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return f"Literal{[member.value for member in annotation]}"
    return "None" if annotation is type(None) else "Any" if annotation is Any else annotation.__name__


@cache
def _read_file() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def _read_type(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp):
        return typing.Union[_read_type(node.left), _read_type(node.right)]  # noqa: UP007
    if isinstance(node, ast.Subscript):
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if (name := ast.unparse(node.value)) == "Literal":
            return Literal[tuple(ast.literal_eval(item) for item in items)]
        generic: Any = {"list": list, "tuple": tuple, "dict": dict}[name]
        return generic[tuple(_read_type(item) for item in items)]
    if isinstance(node, ast.Constant):
        return type(None)
    name = ast.unparse(node)
    return _NAMES.get(name) or type(name, (), {})  # a class that no YAML value is of


def narrow(choices: Any, hint: Any) -> Any:
    """The annotation, as a Literal if the choices are known."""
    if not choices:
        return hint
    closed: Any = Literal[tuple(choices)]
    return closed | None if fits(None, hint) else closed


def are_losses(algo: str, value: Any) -> bool:
    """Whether a loss, or each one in a list, is one of the algorithm's; true if the algorithm's loss has no name."""
    losses = ALGORITHMS[algo].losses
    return not losses or all(loss in losses for loss in (value if isinstance(value, list) else [value]))


if __name__ == "__main__":
    write_file()
