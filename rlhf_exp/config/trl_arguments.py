"""The arguments of TRL's config classes: names, types, ranges and defaults; no import of TRL is needed to know them.

    known = load_arguments("grpo")
    known["beta"]               # Argument(annotation=float, default=0.0, bounds=">= 0, <= 1000")

Importing TRL takes seconds, so assets/trl_arguments.json records names, types and defaults; docs/write_trl_arguments.py
writes it. With other versions installed, TRL itself refuses what it does not know (trl_args.py).
"""

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

from rlhf_exp.config.values import RATE, SEED

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when TRL's config is imported

FILE = Path(__file__).parent.parent / "assets" / "trl_arguments.json"

_BY_RANGE = {
    RATE: ("learning_rate",),
    SEED: ("seed", "data_seed"),
    "> 0, <= 1": ("adam_epsilon", "top_p", "vllm_gpu_memory_utilization"),
    ">= 0, <= 1": ("min_p", "top_entropy_quantile", "ref_model_mixup_alpha", "ld_alpha"),
    ">= 0, < 1": ("adam_beta1", "adam_beta2", "label_smoothing_factor"),
    ">= 0, < 0.5": ("label_smoothing",),
    ">= 0, <= 1000": ("beta", "weight_decay", "loss_weights", "desirable_weight", "undesirable_weight", "entropy_coef"),
    "> 0, <= 1000": ("temperature", "repetition_penalty", "epsilon", "epsilon_high", "delta"),
    ">= -1000, <= 1000": ("reward_weights", "reward_clip_range"),
    "> -100, < 100": ("f_alpha_divergence_coef",),
    ">= 1, <= 65536": (
        *("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation", "num_iterations"),
        *("num_generations", "dataset_num_proc", "dataloader_prefetch_factor", "vllm_tensor_parallel_size"),
    ),
    ">= 1, <= 100000000": ("max_completion_length", "max_length", "generation_batch_size", "save_total_limit"),
    ">= 1, <= 10000000 or -1": ("max_steps",),
    "> 0, <= 100000000": ("logging_steps", "save_steps", "num_train_epochs"),
}
OTHERS = ">= 0, <= 100000000"
"""Arguments by their range, and the range of all other numbers; of logging and saving, a number below 1 is a share of
all steps. TRL accepts `learning_rate=1e9` and `beta=-1`, and fails late or never. Upper bounds are far above any value
in use, so that a value beyond them is a typing mistake."""

RANGES = {name: bounds for bounds, names in _BY_RANGE.items() for name in names}


class Other:
    """A class of TRL's that no YAML value is of."""


@dataclass(frozen=True)
class Argument:
    annotation: Any
    default: Any
    bounds: str


@cache
def load_arguments(algo: str) -> dict[str, Argument]:
    """The arguments of the algorithm's config class."""
    recorded = json.loads(FILE.read_text(encoding="utf-8"))[algo]
    spelled = type("Spelled", (), {"__annotations__": {name: item["type"] for name, item in recorded.items()}})
    hints = get_type_hints(spelled, localns={"Any": Any, "Literal": Literal, "Other": Other})
    return {name: Argument(hints[name], item["default"], RANGES.get(name, OTHERS)) for name, item in recorded.items()}
