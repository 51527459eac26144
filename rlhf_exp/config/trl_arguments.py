"""The arguments of TRL's config classes: names, types, ranges and defaults; no import of TRL is needed to know them.

    known = load_arguments("grpo")
    known["beta"]               # Argument(annotation=Annotated[float, Field(ge=0, le=1000)], default=0.0)

Importing TRL takes seconds, so assets/trl_arguments.json records names, types and defaults; docs/write_trl_arguments.py
writes it. With other versions installed, TRL itself refuses what it does not know (trl_args.py).
"""

import json
import os
from dataclasses import dataclass, make_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import Field

from rlhf_exp.config.values import Group

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when TRL's config is imported

FILE = Path(__file__).parent.parent / "assets" / "trl_arguments.json"

_BY_RANGE: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (Field(ge=1e-12, le=1), ("learning_rate", "critic_learning_rate")),
    (Field(ge=0, le=4294967295), ("seed", "data_seed")),
    (Field(gt=0, le=1), ("adam_epsilon", "top_p", "gamma", "vllm_gpu_memory_utilization")),
    (Field(ge=0, le=1), ("min_p", "top_entropy_quantile", "ref_model_mixup_alpha", "ld_alpha", "lam", "hybrid_alpha")),
    (Field(ge=0, lt=1), ("adam_beta1", "adam_beta2", "label_smoothing_factor")),
    (Field(ge=0, lt=0.5), ("label_smoothing",)),
    (
        Field(ge=0, le=1000),
        (
            *("beta", "weight_decay", "loss_weights", "desirable_weight", "undesirable_weight", "entropy_coef"),
            *("init_kl_coef", "missing_eos_penalty"),
        ),
    ),
    (
        Field(gt=0, le=1000),
        (
            *("temperature", "repetition_penalty", "epsilon", "epsilon_high", "delta", "vf_coef", "cliprange_value"),
            *("target_kl", "advantage_clip"),
        ),
    ),
    (Field(ge=-1000, le=1000), ("reward_weights", "reward_clip_range")),
    (Field(gt=-100, lt=100), ("f_alpha_divergence_coef",)),
    (
        Field(ge=1, le=65_536),
        (
            *("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation", "num_iterations"),
            *("num_generations", "dataset_num_proc", "dataloader_prefetch_factor", "vllm_tensor_parallel_size"),
        ),
    ),
    (
        Field(ge=1, le=10**8),
        (
            *("max_completion_length", "max_length", "generation_batch_size", "save_total_limit", "kl_horizon"),
            *("loss_constant", "curriculum_budgets"),
        ),
    ),
    (Field(gt=0, le=10**8), ("logging_steps", "save_steps", "num_train_epochs")),
)
OTHERS = Field(ge=0, le=10**8)
"""Arguments by their range, and the range of all other numbers; of logging and saving, a number below 1 is a share of
all steps. TRL accepts `learning_rate=1e9` and `beta=-1`, and fails late or never. Upper bounds are far above any value
in use, so that a value beyond them is a typing mistake."""

RANGES = {name: bounds for bounds, names in _BY_RANGE for name in names}


@dataclass(frozen=True)
class Argument:
    annotation: Any
    default: Any


@cache
def read_recorded() -> dict[str, dict[str, Any]]:
    """What is recorded of each argument, by algorithm and name."""
    return json.loads(FILE.read_text(encoding="utf-8"))


@cache
def load_arguments(algo: str) -> dict[str, Argument]:
    """The arguments of the algorithm's config class. A class that no YAML value is of is NoneType here."""
    recorded = read_recorded()[algo]
    hints: dict[str, Any] = {}
    for bounds in (OTHERS, *(bounds for bounds, _ in _BY_RANGE)):
        names = {name: item["type"] for name, item in recorded.items() if RANGES.get(name, OTHERS) is bounds}
        types = {"int": Annotated[int, bounds], "float": Annotated[float, bounds], "Other": NoneType}
        spelled = type("Spelled", (), {"__annotations__": names})
        hints |= get_type_hints(spelled, {"Any": Any, "Literal": Literal}, types, include_extras=True)
    hints["max_steps"] = Annotated[int, Field(ge=1, le=10**7)] | Literal[-1]
    return {name: Argument(hints[name], item["default"]) for name, item in recorded.items()}


@cache
def get_arguments_type(algo: str) -> Any:
    """The type of `algo.args`."""
    keys = [(name, argument.annotation, None) for name, argument in load_arguments(algo).items()]
    return make_dataclass("Arguments", keys, bases=(Group,))
