"""Writes rlhf_exp/assets/trl_arguments.json: names, types and defaults of the arguments of TRL's config classes.

    python docs/write_trl_arguments.py     # after a change of TRL, transformers, the algorithms or their config classes

Importing TRL takes seconds, so the package checks arguments by this file; rlhf_exp/config/trl_arguments.py reads it.
"""

import enum
import json
import types
import typing
from dataclasses import MISSING, fields
from pkgutil import resolve_name
from typing import Any, Literal, get_type_hints

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.trl_arguments import FILE

# transformers 5 silently ignores the old name if the new one is set too, and the configs set the new one.
RENAMED = ("gradient_checkpointing", "gradient_checkpointing_kwargs")

# Arguments of GRPOConfig that PPO does not read.
NOT_OF_PPO = (
    *("loss_type", "beta", "scale_rewards", "mask_truncated_completions", "importance_sampling_level"),
    *("multi_objective_aggregation", "sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps"),
)

# Closed choices that TRL annotates as plain text and checks only during training. For losses see algorithms.py.
CHOICES = {
    "fsdp": (True, False),  # what transformers takes, which still annotates the texts of earlier versions
    "scale_rewards": ("group", "batch", "none", True, False),
    "importance_sampling_level": ("token", "sequence"),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "f_divergence_type": ("reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"),
    "torch_compile_mode": ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    "include_num_input_tokens_seen": ("all", "non_padding", "no", True, False),
    "vllm_mode": ("colocate", "server"),
    "vllm_importance_sampling_mode": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
}

# TRL also accepts these as JSON text, and fails late for any other text; in YAML write a mapping.
MAPPINGS = (
    *("model_init_kwargs", "generation_kwargs", "chat_template_kwargs", "lr_scheduler_kwargs", "dataset_kwargs"),
    *("activation_checkpointing_kwargs", "transformers_continuous_batching_config"),
)


def list_arguments(algo: str) -> dict[str, dict[str, Any]]:
    """The arguments as the installed TRL declares them; a type is narrowed to what TRL takes."""
    config_class: Any = resolve_name(ALGORITHMS[algo].config_class)
    hints, found = get_type_hints(config_class), {}
    for item in sorted(fields(config_class), key=lambda item: item.name):
        hint, choices = hints[item.name], CHOICES.get(item.name) or item.metadata.get("choices")
        if item.name in MAPPINGS:
            hint = dict | None
        elif choices:
            hint = Literal[tuple(choices)] | None if type(None) in typing.get_args(hint) else Literal[tuple(choices)]
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        default = None if default is MISSING else default  # it stands in conf/algo
        found[item.name] = {"type": spell(hint), "default": default}
    left_out = (*RENAMED, *NOT_OF_PPO) if algo == "ppo" else RENAMED
    return {name: item for name, item in found.items() if name not in left_out}


def spell(annotation: Any) -> str:
    """A type as text that `load_arguments` reads: an enum as its values, a class that no YAML value is of as Other."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        has_enum = any(isinstance(part, type) and issubclass(part, enum.Enum) for part in parts)
        return " | ".join(spell(part) for part in parts if not (has_enum and part is str))
    if origin is Literal:
        return f"Literal{list(parts)}"
    if origin is tuple:  # YAML has lists
        return f"list[{spell(parts[0])}]"
    if origin in (list, dict):
        return f"{origin.__name__}[{', '.join(spell(part) for part in parts)}]"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return f"Literal{[member.value for member in annotation]}"
    if annotation in (type(None), Any):
        return "None" if annotation is type(None) else "Any"
    return annotation.__name__ if annotation in (int, float, bool, str, dict) else "Other"


def write() -> str:
    """The file, one argument per line."""
    blocks = []
    for algo in ALGORITHMS:
        lines = [f"{json.dumps(name)}: {json.dumps(item)}" for name, item in list_arguments(algo).items()]
        blocks.append(f"{json.dumps(algo)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(write(), encoding="utf-8")
