"""Training on given rows: TRL's own trainer for the algorithm, with one change: it resumes exactly.

algorithms.py says which trainer it is, and which columns it reads. The reference, if there is one, is the start model,
or with adapters the base model without them.
"""

from random import Random
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
    row, rows = ALGORITHMS[experiment.cfg.algo.name], experiment.task.train
    if row.unpaired:  # TRL reads them in this order, and takes the KL from a row's prompt and its neighbour's answer
        rows = Random(experiment.args.seed).sample(rows, len(rows))
    trainer_class = load_object(row.trainer)
    resumable = type(f"Resumable{trainer_class.__name__}", (Resumable, trainer_class), {})
    return resumable(
        model=experiment.model.path,
        args=experiment.args,
        train_dataset=Dataset.from_list([{name: item[name] for name in row.columns} for item in rows]),
        processing_class=experiment.tokenizer,
        peft_config=build_peft_config(experiment.cfg),
    )
