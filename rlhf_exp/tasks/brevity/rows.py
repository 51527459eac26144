"""Brevity: prompts of any kind; the reward (rewards/brevity.py) depends only on the number of words.

A row, with id and prompt of another task:

    {"id": "3 7 8 > 53", "prompt": "use 8 7 3 make 53 ."}

`task.source=task` takes prompts and splits from another task, `task@task.of=countdown`, whose keys are `task.of.low`,
`task.of.source`, ...; `task.source=file` reads a JSONL file (files.py). There are no right answers, so the reward is
measured, but no accuracy.
"""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rlhf_exp import tasks
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import Task
from rlhf_exp.tasks.brevity.files import load_file

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NOT_SHARED = re.compile(r"\btask([.:=])(?!(train_rows|data_seed|prompt)\b)")
"""Keys that only the other task has: messages about them must say task.of, not task."""


def load(cfg: Config, tokenizer: "PreTrainedTokenizerBase") -> Task:
    """The prompts of both sides, with their ids.

    Raises:
        ConfigError: what the other task or the file refuses.
    """
    if cfg.task.source == "file":
        return load_file(cfg, tokenizer)
    try:
        given = tasks.load_task(replace(cfg, task=cfg.task.of), tokenizer)
    except ConfigError as error:
        raise type(error)(NOT_SHARED.sub(r"task.of\1", line) for line in error.problems) from None
    train, held_out = (
        [{"id": row["id"], "prompt": row["prompt"]} for row in rows] for rows in (given.train, given.eval)
    )
    return Task("brevity", train, held_out, None, notes=given.notes, facts={"of": given.name, **given.facts})
