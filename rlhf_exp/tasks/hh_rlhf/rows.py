"""HH-RLHF: two answers of an assistant to one dialogue, and which of them a person preferred (arXiv:2204.05862).

A row as it is read, and the pair made of it (in chat form a text is a list of messages):

    {"chosen": "\\n\\nHuman: Hi!\\n\\nAssistant: Hello.", "rejected": "\\n\\nHuman: Hi!\\n\\nAssistant: What?"}
    {"id": "helpful-base 53b0...", "subset": "helpful-base", "prompt": "\\n\\nHuman: Hi!\\n\\nAssistant:",
     "chosen": " Hello.", "rejected": " What?"}

The prompt is what both dialogues share up to their last "\\n\\nAssistant:"; the answers follow it. White space around a
turn is removed. reward_model and dpo learn from pairs, sft from the chosen answers, ppo and grpo
from the prompts.

Odd pairs are counted by kind and subset in the run's data.json. Dropped, under the first kind that fits:

    not_ending_on_assistant  a dialogue ends with a turn of the human: there is no answer to compare
    histories_differ         up to the last "Assistant:", so these are not answers to one prompt
    not_asked_by_human       the history does not begin and end with a turn of the human
    empty_chosen, empty_rejected
    equal_answers            nothing is preferred
    duplicate                the same prompt and answers in the same order were read before
    prompt_in_test           in train or validation, but the source's test part has the same prompt
    over_long                more tokens than task.max_length or the model's context: truncated, it would not be what
                             people judged

Kept:

    inline_speaker           "Human:" or "Assistant:" inside a turn: people judged the answer with it, and no rule can
                             distinguish a mistake from a quotation
    same_speaker_twice       two consecutive turns of one speaker are joined, as chat templates need them
    empty_turn               a turn without text in the history

Lengths: a pair (also for sft) counts its prompt and the longer answer with its end token; a prompt to sample on counts
max_tokens for the completion. Only as many rows as needed are tokenized, so `over_long` covers only these.

Splits: by a hash of the prompt, 80 train, 8 validation, 12 test of 100. A subset with a train and a test part keeps its
test part; the same 8 of 100 of its train part are validation. No prompt is in two splits.

The held-out rows are the same pairs for every algorithm that samples: one per prompt, where both the pair and a
completion must fit; for reward_model only the pair.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from rlhf_exp.algorithms import ALGORITHMS, DEMONSTRATIONS, PAIRS, PROMPTS
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import Row, Task, as_completion, check_template, name_source, wants_chat
from rlhf_exp.tasks.hh_rlhf.pairs import DROPPED, KEPT, Pair, read_pairs, split_pairs
from rlhf_exp.tasks.lengths import measure

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlhf_exp.config.schema import Config

BATCH = 1024  # pairs tokenized at once


def load(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> Task:
    """Load the rows that `cfg.algo` learns from, and the held-out rows.

    Raises:
        ConfigError: rows that cannot be read, or too few of them, all lines at once.
    """
    task, need, chat = cfg.task, ALGORITHMS[cfg.algo.name].learns_from, wants_chat(cfg, tokenizer)
    check_template(cfg, tokenizer)
    sample, score_only = need == PROMPTS, ALGORITHMS[cfg.algo.name].scores
    pairs, read, odd = read_pairs(cfg)
    splits, in_test = split_pairs(pairs)
    limit = min(task.max_length or tokenizer.model_max_length, tokenizer.model_max_length)

    def choose(split: str, n: int | None, seed: int, answers: bool, room: int) -> tuple[list[Pair], dict[str, int]]:
        def fit(batch: list[Pair]) -> list[bool]:
            rows = [build_row(pair, PAIRS, chat) for pair in batch]
            texts = [(row["chosen"], row["rejected"]) if answers else () for row in rows]
            counts = measure(tokenizer, [row["prompt"] for row in rows], texts)
            return [n + max((room, *several)) <= limit for n, several in counts]

        return _choose(splits[split], n, seed, fit, distinct=split != "train" or sample)

    train, train_facts = choose("train", task.train_rows, task.data_seed, not sample, cfg.max_tokens * sample)
    room = 0 if score_only else cfg.max_tokens
    held_out, held_facts = choose(cfg.eval.split, cfg.eval.rows, cfg.eval.seed, True, room)

    source = name_source(task)
    problems = [
        *_refuse_few("task.train_rows", task.train_rows, "train", train_facts, source, limit),
        *_refuse_few("eval.rows", cfg.eval.rows, cfg.eval.split, held_facts, source, limit),
    ]
    if problems:
        raise ConfigError(problems)
    facts = {
        "read": dict(read),
        "dropped": {kind: dict(odd[kind]) for kind in DROPPED} | {"prompt_in_test": dict(in_test)},
        "kept": {kind: dict(odd[kind]) for kind in KEPT},
        "splits": {name: dict(Counter(pair.subset for pair in rows)) for name, rows in splits.items()},
        "limit_tokens": limit,
        "train": train_facts,
        "held_out": held_facts,
    }
    return Task(
        "hh_rlhf",
        train=[build_row(pair, need, chat) for pair in train],
        eval=[] if score_only else [build_row(pair, PROMPTS, chat) for pair in held_out],
        grade=None,
        pairs=[build_row(pair, PAIRS, chat) for pair in held_out],
        demonstrations=[build_row(pair, need, chat) for pair in held_out] if need == DEMONSTRATIONS else [],
        notes=_write_notes(facts, cfg.eval.split),
        facts=facts,
    )


def _choose(
    pairs: list[Pair], n: int | None, seed: int, fit: Callable[[list[Pair]], list[bool]], distinct: bool
) -> tuple[list[Pair], dict[str, int]]:
    """The first `n` pairs (None: all) that fit, from a shuffled list; with `distinct` each prompt only once."""
    pairs = sorted(pairs, key=lambda pair: pair.id)  # the order of files must not matter
    Random(seed).shuffle(pairs)
    unique = list({pair.prompt: pair for pair in reversed(pairs)}.values())[::-1] if distinct else pairs
    chosen, looked_at = [], 0
    with tqdm(total=len(unique) if n is None else n, desc="tokenizing", unit="pair", leave=False, delay=2) as bar:
        while looked_at < len(unique) and (n is None or len(chosen) < n):
            batch = unique[looked_at:][: BATCH if n is None else min(BATCH, n - len(chosen))]
            fitting = [pair for pair, fits in zip(batch, fit(batch), strict=True) if fits]
            chosen += fitting
            looked_at += len(batch)
            bar.update(len(batch) if n is None else len(fitting))
    facts = {"repeated_prompts": len(pairs) - len(unique), "looked_at": looked_at}
    return chosen, facts | {"over_long": looked_at - len(chosen), "rows": len(chosen)}


def build_row(pair: Pair, form: str, chat: bool) -> Row:
    """The pair as a row of `form`: prompts, demonstrations or preference pairs (algorithms.py)."""
    prompt: Any = pair.messages() if chat else pair.prompt
    chosen, rejected = (as_completion(text, chat) for text in (pair.chosen, pair.rejected))
    if form == DEMONSTRATIONS:
        return {"prompt": prompt, "completion": chosen}
    row = {"id": pair.id, "prompt": prompt}
    return row if form == PROMPTS else row | {"subset": pair.subset, "chosen": chosen, "rejected": rejected}


def _refuse_few(key: str, wanted: int | None, split: str, facts: dict[str, int], source: str, limit: int) -> list[str]:
    """The line for a split that is empty or has fewer rows than `wanted`; empty if it has enough."""
    have, looked_at = facts["rows"], facts["looked_at"]
    if not looked_at:
        return [f"{source}: its {split} split is empty"]
    if not have:
        room = "raise task.max_length, lower max_tokens, or take a model with a longer context"
        return [f"{source}: none of the {looked_at} rows of its {split} split fits into {limit} tokens; {room}"]
    if wanted is not None and have < wanted:
        fit = f"has {have} rows in its {split} split that fit into {limit} tokens"
        return [f"{key}={wanted}: {source} {fit}; allowed is 1 to {have}"]
    return []


def _write_notes(facts: dict[str, Any], split: str) -> tuple[str, ...]:
    """What was read, dropped and kept, in two lines."""

    def list_kinds(kinds: dict[str, dict[str, int]]) -> str:
        counts = {kind.replace("_", " "): sum(by_subset.values()) for kind, by_subset in kinds.items()}
        return ", ".join(f"{n} {kind}" for kind, n in counts.items() if n) or "none"

    train, held_out = facts["train"], facts["held_out"]
    return (
        f"{sum(facts['read'].values())} pairs read; dropped: {list_kinds(facts['dropped'])};"
        f" odd but kept: {list_kinds(facts['kept'])}",
        f"{train['rows']} rows to train on, {held_out['rows']} held out ({split}); longer than {facts['limit_tokens']}"
        f" tokens and left out: {train['over_long']} and {held_out['over_long']}",
    )
