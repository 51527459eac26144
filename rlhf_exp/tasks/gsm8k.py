"""GSM8K: word problems of grade-school arithmetic, each with a worked answer that ends on a number (arXiv:2110.14168).

A row as it is read, and the prompt and demonstration made of it (in chat form a text is a list of messages):

    {"question": "Ann has 12 pens. ...?", "answer": "Ann has 12 + 5 = <<12+5=17>>17 pens.\\n#### 17"}
    {"id": "53b0c5e2a1f94d77", "prompt": "Question: Ann has 12 pens. ...?\\nAnswer:", "answer": as it was read}
    {"prompt": "Question: Ann has 12 pens. ...?\\nAnswer:", "completion": " Ann has 12 + 5 = 17 pens.\\n#### 17"}

A demonstration has the calculator's annotations `<<12+5=17>>` taken out: they served a tool that nobody runs here.

Rows come from the hub (config main), from a folder with train.jsonl and test.jsonl, from one JSONL file, or are written
by us (gsm8k_written.py). Splits: the source's test part is `test`, and 8 of 100 of its train part, by a hash of the
question, are `validation`. Where there is one file only, the hash makes all three, the same questions validating.
Questions that repeat are dropped, and so is a question of the train part that stands in the test part.

Rows that the model's context is too short for are left out and counted: those whose prompt leaves no room for
max_tokens, and demonstrations as a whole.
"""

import re
from random import Random
from typing import TYPE_CHECKING, Any

from rlhf_exp.combinations import ALGO_NEEDS, DEMONSTRATIONS, learns_from_samples
from rlhf_exp.config import ConfigError
from rlhf_exp.models import template_kwargs
from rlhf_exp.rewards.gsm8k import Gsm8kGrade, grade
from rlhf_exp.tasks import Row, Task, as_completion, wants_chat
from rlhf_exp.tasks.gsm8k_files import Problem, read_splits

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from rlhf_exp.config import Config
    from rlhf_exp.schema import Gsm8k

CHAT_PROMPT = (
    "{question}\n\nReason step by step. Then end with a line that holds #### and the answer, a number alone, for"
    " example: #### 42"
)
ANNOTATION = re.compile("<<[^<>]*>>")


def load(cfg: "Config", tokenizer: "PreTrainedTokenizerBase") -> Task:
    """Load the rows of both sides: sft learns from the gold answers, grpo and ppo from prompts. `train` is empty where
    it is made of samples."""
    splits, facts = read_splits(cfg.task)
    demonstrate = ALGO_NEEDS[cfg.algo.name] == DEMONSTRATIONS
    chat, over_long, train = wants_chat(cfg, tokenizer), {}, []
    if not learns_from_samples(cfg):
        fitting = _keep_fitting(cfg, tokenizer, splits["train"], "train", demonstrate)
        over_long["train"] = len(splits["train"]) - len(fitting)
        train = _draw(cfg, fitting, "task.train_rows", cfg.task.train_rows, "train", cfg.task.data_seed)
    fitting = _keep_fitting(cfg, tokenizer, splits[cfg.eval.split], cfg.eval.split)
    over_long[cfg.eval.split] = len(splits[cfg.eval.split]) - len(fitting)
    held_out = _draw(cfg, fitting, "eval.rows", cfg.eval.rows, cfg.eval.split, cfg.eval.seed)
    facts |= {"over_long": over_long, "rows": {"train": len(train), cfg.eval.split: len(held_out)}}
    return Task(
        "gsm8k",
        train=[_build_demonstration(p, chat) if demonstrate else _build_row(p, chat) for p in train],
        eval=[_build_row(p, chat) for p in held_out],
        grade=grade_row,
        notes=_write_notes(facts, tokenizer.model_max_length),
        facts=facts,
    )


def draw_prompts(cfg: "Config", tokenizer: "PreTrainedTokenizerBase", n: int) -> list[Row]:
    """`n` different prompts of the train split, to sample completions of that are learned from.

    Raises:
        ConfigError: there are fewer.
    """
    fitting = _keep_fitting(cfg, tokenizer, read_splits(cfg.task)[0]["train"], "train")
    drawn = _draw(cfg, fitting, "task.sampling.rows", n, "train", cfg.task.data_seed)
    return [_build_row(problem, wants_chat(cfg, tokenizer)) for problem in drawn]


def grade_row(completion: str, row: Row) -> Gsm8kGrade:
    """Grade a completion for a row of this task."""
    return grade(completion, row["answer"])


def _keep_fitting(
    cfg: "Config",
    tokenizer: "PreTrainedTokenizerBase",
    problems: list[Problem],
    split: str,
    demonstrate: bool = False,
) -> list[Problem]:
    """The problems that the model's context has room for.

    Raises:
        ConfigError: none.
    """
    chat, limit = wants_chat(cfg, tokenizer), tokenizer.model_max_length
    if chat and tokenizer.chat_template is None:
        raise ConfigError([f"task.prompt=chat: model={cfg.model.name} has no chat template; use task.prompt=plain"])
    if not problems:
        raise ConfigError([f"{_name_source(cfg.task)}: its {split} split is empty"])
    template = template_kwargs(cfg, tokenizer) if chat else {}
    lengths = _count_tokens(problems, tokenizer, chat, demonstrate, **template)
    room = limit if demonstrate else limit - cfg.max_tokens
    fitting = [problem for problem, length in zip(problems, lengths, strict=True) if length <= room]
    if not fitting:
        what, shortest = "demonstration" if demonstrate else "prompt", min(lengths)
        has = f"the shortest {what} of the {split} split has {shortest} tokens"
        allowed = f"allowed is 1 to {limit - shortest}" if limit > shortest and not demonstrate else "use another model"
        key = "algo=sft" if demonstrate else f"max_tokens={cfg.max_tokens}"
        raise ConfigError([f"{key}: {has}, too many for the model's context of {limit} tokens; {allowed}"])
    return fitting


def _count_tokens(
    problems: list[Problem], tokenizer: "PreTrainedTokenizerBase", chat: bool, demonstrate: bool, **template: Any
) -> list[int]:
    """Of each problem the tokens of its prompt, or of its demonstration with the end token."""
    if demonstrate:
        rows = [_build_demonstration(problem, chat) for problem in problems]
        texts = [row["prompt"] + row["completion"] for row in rows]
    else:
        texts = [_build_prompt(problem, chat) for problem in problems]
    if chat:
        texts = tokenizer.apply_chat_template(texts, tokenize=False, add_generation_prompt=not demonstrate, **template)
    # verbose=False: longer than the model's context is what is being found out, no reason for a warning.
    encoded = tokenizer(texts, add_special_tokens=not chat, verbose=False)["input_ids"]
    return [len(ids) + (demonstrate and not chat) for ids in encoded]


def _draw(cfg: "Config", problems: list[Problem], key: str, n: int | None, split: str, seed: int) -> list[Problem]:
    """The first `n` (None: all) in an order that the seed alone decides, not that of the files."""
    if n is not None and n > len(problems):
        have = f"{_name_source(cfg.task)} has {len(problems)} rows in its {split} split that fit the model's context"
        raise ConfigError([f"{key}={n}: {have}; allowed is 1 to {len(problems)}"])
    ordered = sorted(problems)
    Random(seed).shuffle(ordered)
    return ordered[:n]


def _name_source(task: "Gsm8k") -> str:
    return {"generated": "task.source=generated", "file": task.path, "hub": task.hub_id}[task.source]


def _build_prompt(problem: Problem, chat: bool) -> str | list[dict[str, str]]:
    if chat:
        return [{"role": "user", "content": CHAT_PROMPT.format(question=problem.question)}]
    return f"Question: {problem.question}\nAnswer:"


def _build_row(problem: Problem, chat: bool) -> Row:
    return {"id": problem.name(), "prompt": _build_prompt(problem, chat), "answer": problem.answer}


def _build_demonstration(problem: Problem, chat: bool) -> Row:
    answer = ANNOTATION.sub("", problem.answer)
    return {"prompt": _build_prompt(problem, chat), "completion": as_completion(f" {answer}", chat)}


def _write_notes(facts: dict[str, Any], limit: int) -> tuple[str, ...]:
    splits = ", ".join(f"{n:,} {name}" for name, n in facts["splits"].items())
    long = ", ".join(f"{n:,} of {name}" for name, n in facts["over_long"].items() if n)
    return (
        f"{sum(facts['read'].values()):,} problems read; dropped: {facts['duplicates']:,} repeated,"
        f" {facts['in_both_parts']:,} of train that are in test; splits: {splits}",
        *([f"longer than the model's context of {limit:,} tokens and left out: {long}"] if long else []),
    )
