"""Builds the trainer of the table of algorithms, or the user's own (algo.trainer=FILE.py:CLASS).

    trainer = build_trainer(experiment)

The policy is passed as a path, from which TRL loads both the policy and its reference.
"""

import os
from contextlib import nullcontext
from copy import copy
from pkgutil import resolve_name
from random import Random
from typing import Any

from datasets import Dataset
from transformers import Trainer

from rlhf_exp import processes
from rlhf_exp.config.schema import Algo, conflict
from rlhf_exp.errors import ConfigError
from rlhf_exp.experiment import Experiment
from rlhf_exp.forms import UNPAIR, Row
from rlhf_exp.graders.user_code import import_function
from rlhf_exp.models.adapters import build_peft_config, explaining_targets, keep_dtype_on_resume
from rlhf_exp.models.generation import choose_method, roll_out
from rlhf_exp.models.loading import load_policy
from rlhf_exp.models.patches import patch_head, patch_model
from rlhf_exp.trainers.resuming import AnyTrainer, Resumable
from rlhf_exp.trainers.rollouts import Rollouts
from rlhf_exp.trainers.vllm import preparing_engine

ROWS = "rows"
"""A folder in the run folder: the rows with the reference's log-probabilities."""


def build_trainer(experiment: Experiment) -> Resumable:
    """Build the trainer of `algo=`. Its models are patched, so that left-padded rows get the scores of unpadded ones
    and 4-bit weights keep their gradient."""
    cfg = experiment.cfg
    in_process = cfg.algo.args.get("use_vllm") and experiment.args.vllm_mode == "colocate"
    with preparing_engine(experiment) if in_process else nullcontext(), explaining_targets(cfg):
        build = _build_online if cfg.algo.row.online else _build_offline
        trainer = build(experiment, find_trainer(cfg.algo))
    if not cfg.algo.row.online and not len(trainer.train_dataset):
        why = f"leaves the trainer none of the {len(experiment.task.train)} rows"
        raise ConfigError([conflict(cfg, "algo.args.max_length", f"{why}; raise it")])
    for model in (trainer.model, getattr(trainer, "ref_model", None)):
        if model is not None:
            patch_model(model)
            if cfg.device.bf16 and cfg.algo.row.online:
                patch_head(model)
    keep_dtype_on_resume(trainer.model)
    return trainer


def find_trainer(algo: Algo) -> type[Trainer]:
    """The class of the trainer.

    Raises:
        ConfigError: one of the user's that is not derived from the algorithm's own.
    """
    own = resolve_name(algo.row.trainer)
    if algo.trainer is None:
        return own
    key = f"algo.trainer={algo.trainer}"
    found = import_function(algo.trainer, key)
    if not (isinstance(found, type) and issubclass(found, own)):
        module, _, name = algo.row.trainer.partition(":")
        raise ConfigError([f"{key}: must be a subclass of the trainer of algo={algo.name}, {name} of {module}"])
    return found


def _build_online(experiment: Experiment, trainer_class: Any) -> Rollouts:
    """A trainer that samples; `rollout_func` is None if TRL's own code samples."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is experimental: a contract test watches it
    cfg, more = experiment.cfg, _list_common(experiment, experiment.task.train)
    environments = experiment.task.environments or None
    sampler = roll_out if choose_method(cfg) == "compact" and environments is None else None
    if environments is not None:
        more["environment_factory"] = environments
    taught: Any = {"teacher_model": load_policy(experiment.teacher)} if experiment.teacher else None
    return trainer_class(**more, **(taught or {"reward_funcs": experiment.rewards}), rollout_func=sampler)


def _build_offline(experiment: Experiment, trainer_class: type[Trainer]) -> Resumable:
    """TRL's own trainer on the columns that it reads, with one change: it resumes exactly. The reference, if there is
    one, is the start model, or with adapters the base model without them."""
    form, rows = experiment.cfg.algo.row.form, experiment.task.train
    if form is UNPAIR:  # TRL reads them in this order, and takes the KL from a row's prompt and its neighbour's answer
        rows = Random(experiment.args.seed).sample(rows, len(rows))
    bases = (GlobalNeighbours, Resumable, trainer_class) if form is UNPAIR else (Resumable, trainer_class)
    resumable = type(f"Resumable{trainer_class.__name__}", bases, {})
    return resumable(**_list_common(experiment, [{name: item[name] for name in form.columns} for item in rows]))


class GlobalNeighbours(AnyTrainer):
    """Comes before KTOTrainer among the bases: TRL joins each prompt with the answer of its neighbour for the KL within
    the batch of one process, and here within that of all, as the KL's mean is."""

    def _prepare_dataset(self, dataset: Dataset, processing_class: Any, args: Any, dataset_name: str) -> Dataset:
        whole = copy(args)
        whole.per_device_train_batch_size *= processes.count()
        return super()._prepare_dataset(dataset, processing_class, whole, dataset_name)  # type: ignore[misc]


def _make_dataset(rows: list[Row], experiment: Experiment) -> Dataset:
    """The rows; for several processes from files in the run folder. TRL's rank 0 writes the log-probabilities of the
    reference beside them, where the others read them; those of rows in memory it would write to a folder of its own."""
    if not experiment.cfg.algo.args.get("precompute_ref_log_probs") or processes.count() == 1:
        return Dataset.from_list(rows)
    path = str(experiment.folder.path / ROWS)
    processes.on_main(lambda: Dataset.from_list(rows).save_to_disk(path))
    return Dataset.load_from_disk(path)


def _list_common(experiment: Experiment, rows: list[Row]) -> dict[str, Any]:
    return {
        "model": experiment.model.path,
        "args": experiment.args,
        "train_dataset": _make_dataset(rows, experiment),
        "processing_class": experiment.tokenizer,
        "peft_config": build_peft_config(experiment.cfg),
    }
