"""Takes the rows that fit into a number of tokens, and reports what was left out and why there are too few.

    taken = take_fitting(cfg, tokenizer, rows, 512, limit=1024, room=256)
    taken.rows, taken.over_long
    check_sides(cfg, {"train": taken, "test": other})     # refuses too few

A row has the tokens of its prompt plus those of its longest answer with the end token, or `room` for a completion.
"""

import math
from typing import Any, NamedTuple

from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import Row, add_system_prompt, name_source
from rlhf_exp.tasks.tokens import measure

ANSWERS = ("completion", "chosen", "rejected")
NO_LIMIT = 10**15  # what a tokenizer has whose model's context is not known
BATCH = 1024  # rows that are tokenized together


class Taken(NamedTuple):
    """The rows that fit into `limit` tokens, and how many before the last of them did not. `shortest`: the tokens of
    the shortest prompt that would fit with less room for a completion, or if none would, of the shortest row."""

    rows: list[Any]
    over_long: int = 0
    limit: int = 0
    shortest: float = 0


def take_fitting(
    cfg: Config,
    tokenizer: PreTrainedTokenizerBase,
    rows: list[Row],
    n: int | None,
    limit: int,
    room: int = 0,
    answers: tuple[str, ...] = ANSWERS,
) -> Taken:
    """The first `n` rows (None: all) of at most `limit` tokens with `task.system_prompt`, which is not in them yet.
    Only as many as needed are tokenized, with those of `answers` that rows have."""
    answers = tuple(key for key in answers if rows and key in rows[0])
    taken, looked_at, shortest = [], 0, math.inf
    with tqdm(total=n or len(rows), desc="tokenizing", unit="row", leave=False, delay=2) as bar:
        while looked_at < len(rows) and (n is None or len(taken) < n):
            batch = rows[looked_at : looked_at + (BATCH if n is None else min(BATCH, n - len(taken)))]
            prompts = [add_system_prompt(row["prompt"], cfg.task.system_prompt) for row in batch]
            several = [tuple(row[key] for key in answers) for row in batch]
            for row, tokens in zip(batch, measure(tokenizer, prompts, several), strict=True):
                whole = tokens.prompt + max(tokens.answers, default=0)
                shortest = min(shortest, tokens.prompt if whole <= limit else whole)
                if max(tokens.prompt + room, whole) <= limit:
                    taken.append(row)
            looked_at += len(batch)
            bar.update(len(batch))
    return Taken(taken, looked_at - len(taken), limit, shortest)


def check_sides(cfg: Config, sides: dict[str, Taken]) -> None:
    """Refuse fewer rows than the config asks for, in the train split or the held-out split.

    Raises:
        ConfigError: too few, one line per split.
    """
    wanted = {"train": ("task.train_rows", cfg.task.train_rows), cfg.eval.split: ("eval.rows", cfg.eval.rows)}
    lines = [line for split, taken in sides.items() for line in refuse_few(cfg, taken, split, *wanted[split])]
    if lines:
        raise ConfigError(lines)


def refuse_few(cfg: Config, taken: Taken, split: str, key: str, wanted: int | None) -> list[str]:
    """The line for a split that is empty, or has fewer rows than `key` asks for; empty if it has enough."""
    have, source = len(taken.rows), name_source(cfg.task)
    if not have and not taken.over_long:
        return [f"{source}: its {split} split is empty"]
    if not have and (left := taken.limit - taken.shortest) > 0:
        few = f"the shortest prompt of the {split} split has {taken.shortest} tokens"
        return [f"max_tokens={cfg.max_tokens}: {few}, which leaves too few of {taken.limit}; allowed is 1 to {left}"]
    if not have:
        none = f"{source}: none of the {taken.over_long} rows of its {split} split fits into {taken.limit} tokens"
        remedy = "raise task.max_length, or take" if hasattr(cfg.task, "max_length") else "take"
        return [f"{none}, the shortest has {taken.shortest}; {remedy} a model with a longer context"]
    if wanted is not None and have < wanted:
        fit = f" that fit into {taken.limit} tokens" if taken.over_long else ""
        return [f"{key}={wanted}: {source} has {have} rows in its {split} split{fit}; allowed is 1 to {have}"]
    return []


def write_notes(
    what: str, read: int, odd: dict[str, dict[str, int]], splits: dict[str, int], sides: dict[str, Taken]
) -> tuple[str, ...]:
    """Two lines for the user: how many rows were read, with the counts of `odd` ones, such as {"dropped":
    {"repeated": 3}}; and how many are taken from each split."""

    def list_counts(counts: dict[str, int]) -> str:
        return ", ".join(f"{n:,} {kind}" for kind, n in counts.items() if n) or "none"

    ways = [f"{way}: {list_counts(counts)}" for way, counts in {**odd, "splits": splits}.items()]
    taken = list_counts({f"of {split}": len(side.rows) for split, side in sides.items()})
    long = list_counts({f"of {split}": side.over_long for split, side in sides.items()})
    limit = next(iter(sides.values())).limit
    return (
        f"{read:,} {what} read; {'; '.join(ways)}",
        f"rows: {taken}; longer than {limit:,} tokens and left out: {long}" if limit < NO_LIMIT else f"rows: {taken}",
    )
