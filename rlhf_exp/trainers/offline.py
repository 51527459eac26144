"""Training on rows that are given: TRL's trainer of the algorithm, untouched but that it resumes exactly.

Which trainer, and which columns it reads, is in the table (algorithms.py). A reference is the start model, or with
adapters the base with them switched off.
"""

from typing import TYPE_CHECKING

from datasets import Dataset

from rlhf_exp.algorithms import ALGORITHMS, load_object
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.adapters import build_peft_config
from rlhf_exp.trainers.resuming import Resumable

if TYPE_CHECKING:
    from transformers import Trainer


def build(experiment: Experiment) -> "Trainer":
    """Build the trainer on the columns that it reads."""
    row = ALGORITHMS[experiment.cfg.algo.name]
    trainer_class = load_object(row.trainer)
    resumable = type(f"Resumable{trainer_class.__name__}", (Resumable, trainer_class), {})
    return resumable(
        model=experiment.model.path,
        args=experiment.args,
        train_dataset=Dataset.from_list([{name: item[name] for name in row.columns} for item in experiment.task.train]),
        processing_class=experiment.tokenizer,
        peft_config=build_peft_config(experiment.cfg),
    )
