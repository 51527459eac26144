"""GSM8K: word problems of grade-school arithmetic, each with a worked answer that ends on a number (arXiv:2110.14168).

A row as it is read, and the prompt and demonstration made of it (in chat form a text is a list of messages):

    {"question": "Ann has 12 pens. ...?", "answer": "Ann has 12 + 5 = <<12+5=17>>17 pens.\\n#### 17"}
    {"id": "53b0c5e2a1f94d77", "prompt": "Question: Ann has 12 pens. ...?\\nAnswer:", "answer": as it was read}
    {"prompt": "Question: Ann has 12 pens. ...?\\nAnswer:", "completion": " Ann has 12 + 5 = 17 pens.\\n#### 17"}

The calculator's annotations `<<12+5=17>>` are removed from demonstrations, since no calculator is used here.

Rows come from the hub (config main), from a folder with train.jsonl and test.jsonl, from one JSONL file, or from a
generator (synthetic.py). Splits: the source's test part is `test`, and 8 of 100 of its train part, by a hash of the
question, are `validation`. With a single file the hash makes all three splits, with the same validation questions.
Repeated questions are dropped, and so are questions of the train part that are in the test part.

Rows for which the model's context is too short are dropped and counted: prompts together with max_tokens, and whole
demonstrations. Only as many rows as needed are tokenized, so the count covers only these.
"""

import math
import re
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from rlhf_exp.algorithms import ALGORITHMS, DEMONSTRATIONS
from rlhf_exp.errors import ConfigError
from rlhf_exp.rewards.gsm8k import Gsm8kGrade, grade
from rlhf_exp.tasks import Row, Task, as_completion, check_template, name_source, wants_chat
from rlhf_exp.tasks.gsm8k.files import Problem, read_splits
from rlhf_exp.tasks.sampled import learns_from_samples

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlhf_exp.config.schema import Config

CHAT_PROMPT = (
    "{question}\n\nReason step by step. Then end with a line that holds #### and the answer, a number alone, for"
    " example: #### 42"
)
ANNOTATION = re.compile("<<[^<>]*>>")
BATCH = 1024  # rows that are tokenized together


def load(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> Task:
    """Load the rows to train on and the held-out rows: sft learns from the gold answers, grpo and ppo from prompts.
    `train` is empty if it will be made from samples."""
    task, (splits, facts) = cfg.task, read_splits(cfg.task)
    demonstrate, over_long = ALGORITHMS[cfg.algo.name].learns_from == DEMONSTRATIONS, {}
    train: list[Row] = []
    if not learns_from_samples(cfg):
        build = build_demonstration if demonstrate else _build_row
        train, over_long["train"] = _choose(
            cfg, tokenizer, splits, "train", "task.train_rows", task.train_rows, task.data_seed, build
        )
    held_out, over_long[cfg.eval.split] = _choose(
        cfg, tokenizer, splits, cfg.eval.split, "eval.rows", cfg.eval.rows, cfg.eval.seed, _build_row
    )
    given = []
    if demonstrate and not learns_from_samples(cfg):
        given = _demonstrate_held_out(held_out, tokenizer)
    facts |= {"over_long": over_long, "rows": {"train": len(train), cfg.eval.split: len(held_out)}}
    notes = _write_notes(facts, tokenizer.model_max_length)
    return Task("gsm8k", train, held_out, grade_row, demonstrations=given, notes=notes, facts=facts)


def draw_prompts(cfg: "Config", tokenizer: "PreTrainedTokenizerBase", n: int) -> list[Row]:
    """`n` different prompts of the train split, for sampling completions to learn from.

    Raises:
        ConfigError: there are fewer.
    """
    splits, _ = read_splits(cfg.task)
    return _choose(cfg, tokenizer, splits, "train", "task.sampling.rows", n, cfg.task.data_seed, _build_row)[0]


def grade_row(completion: str, row: Row) -> Gsm8kGrade:
    """Grade a completion for a row of this task."""
    return grade(completion, row["answer"])


def _choose(
    cfg: "Config",
    tokenizer: "PreTrainedTokenizerBase",
    splits: dict[str, list[Problem]],
    split: str,
    key: str,
    n: int | None,
    seed: int,
    build: Callable[[Problem, bool], Row],
) -> tuple[list[Row], int]:
    """The first `n` rows (None: all) that fit the model's context, and how many before them did not fit.

    Their order depends on the seed alone, not on the files. `key` is the setting that `n` comes from.

    Raises:
        ConfigError: there are fewer.
    """
    chat, limit, source = wants_chat(cfg, tokenizer), tokenizer.model_max_length, name_source(cfg.task)
    check_template(cfg, tokenizer)
    if not splits[split]:
        raise ConfigError([f"{source}: its {split} split is empty"])
    problems, room = sorted(splits[split]), limit - cfg.max_tokens * (build is _build_row)
    Random(seed).shuffle(problems)
    rows, seen, shortest = [], 0, math.inf
    with tqdm(total=n or len(problems), desc="tokenizing", unit="row", leave=False, delay=2) as bar:
        while seen < len(problems) and (n is None or len(rows) < n):
            batch = [build(p, chat) for p in problems[seen:][: BATCH if n is None else min(BATCH, n - len(rows))]]
            lengths = _count_tokens(batch, tokenizer)
            rows += [row for row, length in zip(batch, lengths, strict=True) if length <= room]
            seen, shortest = seen + len(batch), min(shortest, *lengths)
            bar.update(len(batch))
    if not rows:
        raise ConfigError([_refuse_all(cfg, split, shortest, limit, build is _build_row)])
    if n is not None and len(rows) < n:
        fit = f"{len(rows)} rows in its {split} split" + f" that fit {limit} tokens" * (len(rows) < seen)
        raise ConfigError([f"{key}={n}: {source} has {fit}; allowed is 1 to {len(rows)}"])
    return rows, seen - len(rows)


def _refuse_all(cfg: "Config", split: str, shortest: int, limit: int, prompts: bool) -> str:
    key = f"max_tokens={cfg.max_tokens}" if prompts else f"algo={cfg.algo.name}"
    what = "prompt" if prompts else "prompt with its answer"
    has = f"{key}: the shortest {what} of the {split} split has {shortest} tokens"
    if shortest < limit:
        return (
            f"{has}, which leaves too few in the model's context of {limit} tokens; allowed is 1 to {limit - shortest}"
        )
    return f"{has}, too many for the model's context of {limit} tokens; use a model with a longer one"


def _count_tokens(rows: list[Row], tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """For each row the tokens of its prompt and, in a demonstration, of its completion with the end token."""
    demonstrate, chat = "completion" in rows[0], not isinstance(rows[0]["prompt"], str)
    texts = [row["prompt"] + row["completion"] if demonstrate else row["prompt"] for row in rows]
    if chat:
        texts = tokenizer.apply_chat_template(texts, tokenize=False, add_generation_prompt=not demonstrate)
    # verbose=False: texts longer than the model's context are counted here, and need no warning.
    encoded = tokenizer(texts, add_special_tokens=not chat, return_attention_mask=False, verbose=False)
    return [len(ids) + (demonstrate and not chat) for ids in encoded["input_ids"]]


def _build_prompt(problem: Problem, chat: bool) -> str | list[dict[str, str]]:
    if chat:
        return [{"role": "user", "content": CHAT_PROMPT.format(question=problem.question)}]
    return f"Question: {problem.question}\nAnswer:"


def _build_row(problem: Problem, chat: bool) -> Row:
    return {"id": problem.name(), "prompt": _build_prompt(problem, chat), "answer": problem.answer}


def build_demonstration(problem: Problem, chat: bool) -> Row:
    return {"prompt": _build_prompt(problem, chat), "completion": _write_completion(problem.answer, chat)}


def _write_completion(answer: str, chat: bool) -> str | list[dict[str, str]]:
    return as_completion(f" {ANNOTATION.sub('', answer)}", chat)


def _demonstrate_held_out(rows: list[Row], tokenizer: "PreTrainedTokenizerBase") -> list[Row]:
    """Demonstrations with the gold answers of held-out prompts, without those that do not fit the model's context."""
    chat = not isinstance(rows[0]["prompt"], str)
    given = [{"prompt": row["prompt"], "completion": _write_completion(row["answer"], chat)} for row in rows]
    lengths = _count_tokens(given, tokenizer)
    return [row for row, length in zip(given, lengths, strict=True) if length <= tokenizer.model_max_length]


def _write_notes(facts: dict[str, Any], limit: int) -> tuple[str, ...]:
    splits = ", ".join(f"{n:,} {name}" for name, n in facts["splits"].items())
    long = ", ".join(f"{n:,} of {name}" for name, n in facts["over_long"].items() if n)
    return (
        f"{sum(facts['read'].values()):,} problems read; dropped: {facts['duplicates']:,} repeated,"
        f" {facts['in_both_parts']:,} of train that are in test; splits: {splits}",
        *([f"longer than the model's context of {limit:,} tokens and left out: {long}"] if long else []),
    )
