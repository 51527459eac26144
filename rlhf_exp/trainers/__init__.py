"""TRL trainers, one file an algorithm, named as in `algo=`: `build(parts) -> a TRL trainer`."""

import os
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlhf_exp.models.adapters import keep_dtype_on_resume
from rlhf_exp.models.positions import mend_positions
from rlhf_exp.models.quantization import keep_unpacked

if TYPE_CHECKING:
    from datasets import Dataset
    from peft import PeftConfig
    from transformers import PreTrainedTokenizerBase, Trainer, TrainingArguments

    from rlhf_exp.config.schema import Config
    from rlhf_exp.rewards import RewardFunction
    from rlhf_exp.tasks import Row, Task


@dataclass
class Parts:
    """What a trainer is built from. The policy is a path: TRL loads it, and its reference, by itself."""

    cfg: "Config"
    args: "TrainingArguments"
    model_path: str
    tokenizer: "PreTrainedTokenizerBase"
    task: "Task"
    rewards: "list[RewardFunction]"
    peft_config: "PeftConfig | None"


def build_trainer(parts: Parts) -> "Trainer":
    """Build the trainer of `algo=`; its models score left-padded rows as they would score them unpadded, and 4-bit
    weights keep their gradient."""
    module: Any = import_module(f"rlhf_exp.trainers.{parts.cfg.algo.name}")
    trainer = module.build(parts)
    for model in (trainer.model, getattr(trainer, "ref_model", None)):
        if model is not None:
            mend_positions(model)
            keep_unpacked(model)
    keep_dtype_on_resume(trainer.model)
    return trainer


def list_arguments(parts: Parts) -> dict[str, Any]:
    """What GRPOTrainer and its subclasses are built from; sampling is ours where `generation=` resolves to compact."""
    from datasets import Dataset

    from rlhf_exp.models.generation import build_rollout

    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is experimental: a contract test watches it
    return {
        "model": parts.model_path,
        "reward_funcs": parts.rewards,
        "args": parts.args,
        "train_dataset": Dataset.from_list(parts.task.train),
        "processing_class": parts.tokenizer,
        "peft_config": parts.peft_config,
        "rollout_func": build_rollout(parts.cfg),
    }


def select_columns(rows: "list[Row]", *names: str) -> "Dataset":
    """A dataset of the columns that TRL reads."""
    from datasets import Dataset

    return Dataset.from_list([{name: row[name] for name in names} for row in rows])
