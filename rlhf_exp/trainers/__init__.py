"""TRL trainers: `build(experiment)` of offline.py, and of a package per algorithm that samples.

The policy is passed as a path, from which TRL loads both the policy and its reference.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.models.adapters import build_peft_config, keep_dtype_on_resume
from rlhf_exp.models.positions import patch_position_ids
from rlhf_exp.models.quantization import keep_unpacked

if TYPE_CHECKING:
    from transformers import Trainer

    from rlhf_exp.experiment import Experiment


def build_trainer(experiment: "Experiment") -> "Trainer":
    """Build the trainer of `algo=`. Its models are patched, so that left-padded rows get the scores of unpadded ones
    and 4-bit weights keep their gradient."""
    name = experiment.cfg.algo.name
    module: Any = import_module(f"rlhf_exp.trainers.{'offline' if ALGORITHMS[name].trainer else name}")
    trainer = module.build(experiment)
    for model in (trainer.model, getattr(trainer, "ref_model", None)):
        if model is not None:
            patch_position_ids(model)
            keep_unpacked(model)
    keep_dtype_on_resume(trainer.model)
    return trainer


def list_arguments(experiment: "Experiment") -> dict[str, Any]:
    """Arguments of TRL's trainers that sample. `rollout_func` is the sampling of models/generation.py, or None if TRL
    samples; RLOOTrainer does not take it."""
    from datasets import Dataset

    from rlhf_exp.models.generation import build_rollout

    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is experimental: a contract test watches it
    return {
        "model": experiment.model.path,
        "reward_funcs": experiment.rewards,
        "args": experiment.args,
        "train_dataset": Dataset.from_list(experiment.task.train),
        "processing_class": experiment.tokenizer,
        "peft_config": build_peft_config(experiment.cfg),
        "rollout_func": build_rollout(experiment.cfg),
    }
