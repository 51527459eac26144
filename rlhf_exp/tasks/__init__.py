"""Tasks: rows to learn from and rows to measure on.

One module a task, named as in `task=`. Each has `load(cfg, tokenizer) -> Task`:

    task = load_task(cfg, tokenizer)
    task.train[0]                            # {"id": ..., "prompt": ..., the grader's columns}
    task.grade(completion, task.eval[0])     # -> Grade
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlhf_exp.rewards.grade import Grade

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlhf_exp.config import Config

Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """The rows of one experiment.

    Attributes:
        train: rows in the form the algorithm learns from. Prompts (grpo): `id`, `prompt` and the grader's columns.
            Demonstrations (sft): `prompt` and `completion`.
        eval: held-out rows, `id`, `prompt` and the grader's columns; no problem of theirs is in `train`.
        grade: (completion, row) -> Grade. The reward and the evaluation both call it.
        notes: what the loader counted or left out, a line each, for the user.
    """

    name: str
    train: list[Row]
    eval: list[Row]
    grade: Callable[[str, Row], Grade]
    notes: tuple[str, ...] = ()


def load_task(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> Task:
    """Load the rows that `cfg.task` and `cfg.algo` ask for.

    Raises:
        ConfigError: rows that are missing, broken (file and line), or too few.
    """
    return import_module(f"rlhf_exp.tasks.{cfg.task.name}").load(cfg, tokenizer)
