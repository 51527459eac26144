"""Brevity: prompts of any kind; the reward (rewards/brevity.py) depends only on the number of words.

A row, with id and prompt of another task:

    {"id": "3 7 8 > 53", "prompt": "use 8 7 3 make 53 ."}

`task.source=task` takes prompts and splits from another task, `task@task.of=countdown`, whose keys are `task.of.low`,
`task.of.source`, ... There are no right answers, so the reward is measured, but no accuracy.

`task.source=file` reads a JSONL file, one object per line: a text, or a list of messages of which the last is the
user's:

    {"prompt": "Write a note to the milkman."}
    {"prompt": [{"role": "user", "content": "Write a note to the milkman."}]}

A row's id is then a hash of its prompt, and the same hash puts it into train, validation or test (80, 8 and 12 of 100).
Repeated prompts, and prompts that leave no room for max_tokens in the model's context, are dropped and counted.
"""

import json
import re
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import Row, Task, find_rows, wants_chat
from rlhf_exp.tasks.fitting import check_sides, take_fitting, write_notes
from rlhf_exp.tasks.sources import are_messages, as_messages, read_lines, refuse_half_characters, shape_prompt
from rlhf_exp.tasks.splits import SHARES, split_of

FORM = '{"prompt": text} or {"prompt": [{"role": "user", "content": text}, ...]}'

NOT_SHARED = re.compile(r"\btask([.:=])(?!(train_rows|data_seed|prompt|system_prompt)\b)")
"""Keys that only the other task has: messages about them must say task.of, not task."""


def load(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Task:
    """The prompts of both sides, with their ids.

    Raises:
        ConfigError: what the other task or the file refuses.
    """
    if cfg.task.source == "file":
        return _load_file(cfg, tokenizer)
    try:
        given = find_rows(cfg.task.of).load(replace(cfg, task=cfg.task.of), tokenizer)
    except ConfigError as error:
        raise type(error)(NOT_SHARED.sub(r"task.of\1", line) for line in error.problems) from None
    train, held_out = (
        [{"id": row["id"], "prompt": row["prompt"]} for row in rows] for rows in (given.train, given.eval)
    )
    return Task("brevity", train, held_out, None, notes=given.notes, facts={"of": given.name, **given.facts})


def _load_file(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Task:
    """The rows of `task.path`, in an order that depends on the seeds, not on the file.

    Raises:
        ConfigError: a row that cannot be read, prompts in a form that the model cannot read, or too few of them.
    """
    chat = wants_chat(cfg, tokenizer)
    read = [_read_row(row, where, chat) for where, row in read_lines(Path(cfg.task.path))]
    rows = sorted({row["id"]: row for row in read}.values(), key=lambda row: row["id"])
    splits = {name: [row for row in rows if split_of(row["id"]) == name] for name in SHARES}
    sides = {
        split: take_fitting(cfg, tokenizer, splits[split], None, tokenizer.model_max_length, cfg.max_tokens)
        for split in ("train", cfg.eval.split)
    }
    check_sides(cfg, sides)
    cuts = {"train": (cfg.task.data_seed, cfg.task.train_rows), cfg.eval.split: (cfg.eval.seed, cfg.eval.limit)}
    for split, (seed, n) in cuts.items():
        Random(seed).shuffle(sides[split].rows)
        sides[split] = sides[split]._replace(rows=sides[split].rows[:n])
    facts = {
        "read": {"all": len(read)},
        "duplicates": len(read) - len(rows),
        "splits": {name: len(members) for name, members in splits.items()},
        "over_long": {split: taken.over_long for split, taken in sides.items()},
    }
    notes = write_notes("prompts", len(read), {"dropped": {"repeated": facts["duplicates"]}}, facts["splits"], sides)
    return Task("brevity", *(taken.rows for taken in sides.values()), None, notes=notes, facts=facts)


def _read_row(row: Any, where: str, chat: bool) -> Row:
    """The row in the model's form: for a chat model a text becomes a message of the user."""
    prompt = row.get("prompt") if isinstance(row, dict) else None
    messages = as_messages(prompt)
    if not are_messages(messages):
        raise ConfigError([f"{where}: expected {FORM}, got {json.dumps(row)[:80]}"])
    shaped = shape_prompt(prompt, where, chat)
    name = json.dumps(prompt)
    for message in messages:
        refuse_half_characters(message["content"], f'{where}: "prompt"')
    return {"id": blake2b(name.encode(), digest_size=8).hexdigest(), "prompt": shaped}
