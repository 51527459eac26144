"""Reads prompts from a JSONL file, one object per line: a text, or a list of messages of which the last is the user's.

    {"prompt": "Write a note to the milkman."}
    {"prompt": [{"role": "user", "content": "Write a note to the milkman."}]}

A row's id is a hash of its prompt, and the same hash puts it into train, validation or test (80, 8 and 12 of 100).
Repeated prompts, and prompts that leave no room for max_tokens in the model's context, are dropped and counted.
"""

import json
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import Row, Task, check_template, wants_chat
from rlhf_exp.tasks.jsonl import HALF_CHARACTER, read_lines
from rlhf_exp.tasks.splits import SHARES, split_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlhf_exp.config.schema import Config

FORM = '{"prompt": text} or {"prompt": [{"role": "user", "content": text}, ...]}'


def load_file(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> Task:
    """The rows of `task.path`, in an order that depends on the seeds, not on the file.

    Raises:
        ConfigError: a row that cannot be read, prompts in a form that the model cannot read, or too few of them.
    """
    task, chat = cfg.task, wants_chat(cfg, tokenizer)
    check_template(cfg, tokenizer)
    read = [_read_row(row, where, chat) for where, row in read_lines(Path(task.path))]
    rows = sorted({row["id"]: row for row in read}.values(), key=lambda row: row["id"])
    splits = {name: [row for row in rows if split_of(row["id"], SHARES) == name] for name in SHARES}
    room = tokenizer.model_max_length - cfg.max_tokens
    sides, over_long, problems = [], {}, []
    for split, seed, key, wanted in (
        ("train", task.data_seed, "task.train_rows", task.train_rows),
        (cfg.eval.split, cfg.eval.seed, "eval.rows", cfg.eval.rows),
    ):
        fitting = _keep_fitting(splits[split], tokenizer, room)
        over_long[split] = len(splits[split]) - len(fitting)
        if len(fitting) < (wanted or 1):
            has = f"{task.path} has {len(fitting)} prompts in its {split} split that leave room for max_tokens"
            problems.append(f"{key}={show(wanted)}: {has}{_allow(len(fitting))}")
        Random(seed).shuffle(fitting)
        sides.append(fitting[:wanted])
    if problems:
        raise ConfigError(problems)
    facts = {
        "read": {"all": len(read)},
        "duplicates": len(read) - len(rows),
        "splits": {name: len(members) for name, members in splits.items()},
        "over_long": over_long,
    }
    return Task("brevity", *sides, None, notes=(_write_note(facts),), facts=facts)


def _read_row(row: Any, where: str, chat: bool) -> Row:
    """The row in the model's form: for a chat model a text becomes a message of the user."""
    prompt = row.get("prompt") if isinstance(row, dict) else None
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not _are_messages(messages):
        raise ConfigError([f"{where}: expected {FORM}, got {json.dumps(row)[:80]}"])
    if not chat and not isinstance(prompt, str):
        raise ConfigError([f"{where}: holds messages, and prompts are plain text here; use task.prompt=chat"])
    name = json.dumps(prompt)
    if any(HALF_CHARACTER.search(message["content"]) for message in messages):
        raise ConfigError([f"{where}: holds half a character (a lone surrogate), which is no text"])
    return {"id": blake2b(name.encode(), digest_size=8).hexdigest(), "prompt": messages if chat else prompt}


def _are_messages(messages: Any) -> bool:
    """Whether these are messages with a role and a text each, of which the last is the user's."""
    if not isinstance(messages, list) or not messages:
        return False
    texts = [m.get(key) for m in messages if isinstance(m, dict) for key in ("role", "content")]
    whole = len(texts) == 2 * len(messages) and all(isinstance(text, str) and text.strip() for text in texts)
    return whole and messages[-1]["role"] == "user"


def _keep_fitting(rows: list[Row], tokenizer: "PreTrainedTokenizerBase", room: int) -> list[Row]:
    from rlhf_exp.tasks.prompts import (
        encode_prompts,  # here, since it imports peft, for which the refusal of a broken file should not wait
    )

    lengths = map(len, encode_prompts(tokenizer, rows))
    return [row for row, length in zip(rows, lengths, strict=True) if length <= room]


def _allow(fitting: int) -> str:
    return f"; allowed is 1 to {fitting}" if fitting else "; use a file with more of them, or a lower max_tokens"


def _write_note(facts: dict[str, Any]) -> str:
    splits = ", ".join(f"{n:,} {name}" for name, n in facts["splits"].items())
    long = ", ".join(f"{n:,} of {name}" for name, n in facts["over_long"].items())
    return (
        f"{facts['read']['all']:,} prompts read; dropped: {facts['duplicates']:,} repeated; splits: {splits}; too long"
        f" for max_tokens behind them and left out: {long}"
    )
