"""HH-RLHF: two answers of an assistant to one dialogue, and which of them a person preferred (arXiv:2204.05862).

A row as it is read, and the pair made of it (in chat form a text is a list of messages):

    {"chosen": "\\n\\nHuman: Hi!\\n\\nAssistant: Hello.", "rejected": "\\n\\nHuman: Hi!\\n\\nAssistant: What?"}
    {"id": "helpful-base 53b0...", "subset": "helpful-base", "prompt": "\\n\\nHuman: Hi!\\n\\nAssistant:",
     "chosen": " Hello.", "rejected": " What?"}

The prompt is what both dialogues share up to their last "\\n\\nAssistant:"; the answers follow it. White space around a
turn is removed. reward_model and dpo learn from pairs, kto from both answers of each, sft from the chosen answers, and
online algorithms from the prompts.

Odd pairs are counted by kind and subset in the run's data.json: pairs.py says which are dropped, and which are kept.
Dropped too are pairs of more tokens than task.max_length or the model's context (`over_long`): truncated, they would
not be what people judged.

Lengths: a pair (also for sft) counts its prompt and the longer answer with its end token; a prompt to sample on counts
max_tokens for the completion. Only as many rows as needed are tokenized, so `over_long` covers only these.

Splits: by a hash of the prompt, 80 train, 8 validation, 12 test of 100. A subset with a train and a test part keeps its
test part; the same 8 of 100 of its train part are validation. No prompt is in two splits.

The held-out rows are the same pairs for every algorithm that samples: one per prompt, where both the pair and a
completion must fit; for reward_model only the pair.
"""

from collections import Counter
from random import Random
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlhf_exp.algorithms import ALGORITHMS, DEMONSTRATIONS
from rlhf_exp.config.schema import Config
from rlhf_exp.tasks import Row, Task, as_completion, name_source, wants_chat
from rlhf_exp.tasks.examples import Data, Example, Odd
from rlhf_exp.tasks.fitting import Taken, check_sides, take_fitting, write_notes
from rlhf_exp.tasks.hh_rlhf.pairs import DROPPED, KEPT, Pair, read_pairs, split_pairs


def load(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Task:
    """Load the rows that `cfg.algo` learns from, and the held-out rows.

    Raises:
        ConfigError: rows that cannot be read, or too few of them, all lines at once.
    """
    task, algo, chat = cfg.task, ALGORITHMS[cfg.algo.name], wants_chat(cfg, tokenizer)
    pairs, read, odd = read_pairs(cfg)
    splits, odd["prompt_in_test"] = split_pairs(pairs)
    limit = min(task.max_length or tokenizer.model_max_length, tokenizer.model_max_length)

    train_rows, train_repeated = _list_rows(splits["train"], task.data_seed, chat, distinct=algo.online)
    held_rows, held_repeated = _list_rows(splits[cfg.eval.split], cfg.eval.seed, chat, distinct=True)
    rows, room = (_ask(train_rows), cfg.max_tokens) if algo.online else (train_rows, 0)
    train = take_fitting(cfg, tokenizer, rows, task.train_rows, limit, room)
    held_out = take_fitting(cfg, tokenizer, held_rows, cfg.eval.limit, limit, 0 if algo.scores else cfg.max_tokens)
    sides = {"train": train, cfg.eval.split: held_out}
    check_sides(cfg, sides)
    dropped = {kind: dict(odd[kind]) for kind in DROPPED}
    kept = {kind: dict(odd[kind]) for kind in KEPT}
    facts = {
        "read": dict(read),
        "dropped": dropped,
        "kept": kept,
        "splits": {name: dict(Counter(pair.subset for pair in rows)) for name, rows in splits.items()},
        "limit_tokens": limit,
        "train": _count(train, train_repeated),
        "held_out": _count(held_out, held_repeated),
    }
    counts = {"dropped": _sum_subsets(dropped), "odd but kept": _sum_subsets(kept)}
    sizes = {name: len(rows) for name, rows in splits.items()}
    demonstrate = algo.learns_from == DEMONSTRATIONS
    return Task(
        "hh_rlhf",
        train=_demonstrate(train.rows) if demonstrate else train.rows,
        eval=[] if algo.scores else _ask(held_out.rows),
        grade=None,
        pairs=held_out.rows,
        demonstrations=_demonstrate(held_out.rows) if demonstrate else [],
        notes=write_notes("pairs", sum(read.values()), counts, sizes, sides),
        facts=facts,
    )


def read_examples(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Data:
    """Every pair that is not dropped as odd, whatever its length."""
    pairs, read, odd = read_pairs(cfg)
    splits, odd["prompt_in_test"] = split_pairs(pairs)
    chat, examples = wants_chat(cfg, tokenizer), []
    for split, members in splits.items():
        for pair in members:
            row = build_row(pair, chat)
            turns, words = len(pair.history) + 1, sum(len(text.split()) for _, text in pair.history)
            answers = (row["chosen"], row["rejected"])
            examples.append(Example(pair.subset, split, turns, words, row["prompt"], answers))
    kinds = [Odd(kind, rule, kind in KEPT, dict(odd[kind])) for kind, rule in {**DROPPED, **KEPT}.items()]
    return Data(name_source(cfg.task), ("chosen", "rejected"), examples, dict(read), kinds)


def build_row(pair: Pair, chat: bool) -> Row:
    """The prompt with both answers."""
    prompt: Any = pair.messages() if chat else pair.prompt
    chosen, rejected = (as_completion(text, chat) for text in (pair.chosen, pair.rejected))
    return {"id": pair.id, "prompt": prompt, "subset": pair.subset, "chosen": chosen, "rejected": rejected}


def _list_rows(pairs: list[Pair], seed: int, chat: bool, distinct: bool) -> tuple[list[Row], int]:
    """The pairs in an order that the seed alone decides, not the files; if `distinct` the first of each prompt, with
    the number of the others."""
    shuffled = sorted(pairs, key=lambda pair: pair.id)
    Random(seed).shuffle(shuffled)
    kept = list({pair.prompt: pair for pair in reversed(shuffled)}.values())[::-1] if distinct else shuffled
    return [build_row(pair, chat) for pair in kept], len(pairs) - len(kept)


def _ask(rows: list[Row]) -> list[Row]:
    return [{"id": row["id"], "prompt": row["prompt"]} for row in rows]


def _demonstrate(rows: list[Row]) -> list[Row]:
    return [{"prompt": row["prompt"], "completion": row["chosen"]} for row in rows]


def _count(taken: Taken, repeated: int) -> dict[str, int]:
    rows = len(taken.rows)
    counts = {"looked_at": rows + taken.over_long, "over_long": taken.over_long, "rows": rows}
    return {"repeated_prompts": repeated, **counts}


def _sum_subsets(kinds: dict[str, dict[str, int]]) -> dict[str, int]:
    return {kind.replace("_", " "): sum(counts.values()) for kind, counts in kinds.items()}
