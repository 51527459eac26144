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

import re
from collections.abc import Callable
from random import Random
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlhf_exp.algorithms import ALGORITHMS, DEMONSTRATIONS
from rlhf_exp.config.schema import Config, learns_from_samples
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.gsm8k import Gsm8kGrade, grade
from rlhf_exp.tasks import Row, Task, as_completion, name_source, wants_chat
from rlhf_exp.tasks.examples import Data, Example, Odd
from rlhf_exp.tasks.fitting import Taken, check_sides, refuse_few, take_fitting, write_notes
from rlhf_exp.tasks.gsm8k.files import DROPPED, Problem, read_splits
from rlhf_exp.tasks.gsm8k.schema import Keys

CHAT_PROMPT = (
    "{question}\n\nReason step by step. Then end with a line that holds #### and the answer, a number alone, for"
    " example: #### 42"
)
ANNOTATION = re.compile("<<[^<>]*>>")


def load(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Task:
    """Load the rows to train on and the held-out rows: sft learns from the gold answers, online algorithms from
    prompts. `train` is empty if it will be made from samples."""
    task, chat, (splits, facts) = cfg.task, wants_chat(cfg, tokenizer), read_splits(cfg.task)
    demonstrate, sampled = ALGORITHMS[cfg.algo.name].learns_from == DEMONSTRATIONS, learns_from_samples(cfg)
    sides: dict[str, Taken] = {}
    if not sampled:
        sides["train"] = _take(cfg, tokenizer, chat, splits["train"], task.train_rows, task.data_seed, demonstrate)
    sides[cfg.eval.split] = _take(cfg, tokenizer, chat, splits[cfg.eval.split], cfg.eval.limit, cfg.eval.seed)
    check_sides(cfg, sides)
    train, held_out, given = [] if sampled else sides["train"].rows, sides[cfg.eval.split].rows, []
    if demonstrate and not sampled:
        whole = [_demonstrate(row) for row in held_out]
        given = take_fitting(cfg, tokenizer, whole, None, tokenizer.model_max_length).rows
    facts["over_long"] = {split: taken.over_long for split, taken in sides.items()}
    facts["rows"] = {"train": len(train), cfg.eval.split: len(held_out)}
    dropped = {"repeated": facts["duplicates"], "of train that are in test": facts["in_both_parts"]}
    notes = write_notes("problems", sum(facts["read"].values()), {"dropped": dropped}, facts["splits"], sides)
    return Task("gsm8k", train, held_out, grade_row, demonstrations=given, notes=notes, facts=facts)


def draw_prompts(cfg: Config, tokenizer: PreTrainedTokenizerBase, n: int) -> list[Row]:
    """`n` different prompts of the train split, for sampling completions to learn from.

    Raises:
        ConfigError: there are fewer.
    """
    chat, (splits, _) = wants_chat(cfg, tokenizer), read_splits(cfg.task)
    taken = _take(cfg, tokenizer, chat, splits["train"], n, cfg.task.data_seed)
    if problems := refuse_few(cfg, taken, "train", "task.sampling.rows", n):
        raise ConfigError(problems)
    return taken.rows


def build_grader(task: Keys) -> Callable[[str, Row], Gsm8kGrade]:
    """The same for all keys."""
    return grade_row


def grade_row(completion: str, row: Row) -> Gsm8kGrade:
    """Grade a completion for a row of this task."""
    return grade(completion, row["answer"])


def read_examples(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Data:
    """Every problem as a demonstration, whatever its length."""
    splits, facts = read_splits(cfg.task)
    chat, examples = wants_chat(cfg, tokenizer), []
    for split, problems in splits.items():
        for problem in problems:
            row = _demonstrate(_build_row(problem, chat))
            words = len(problem.question.split())
            examples.append(Example(split, split, 2, words, row["prompt"], (row["completion"],)))
    odd = [Odd(kind, rule, False, {"all": facts[kind]}) for kind, rule in DROPPED.items()]
    return Data(name_source(cfg.task), ("answer",), examples, facts["read"], odd)


def _take(
    cfg: Config,
    tokenizer: PreTrainedTokenizerBase,
    chat: bool,
    problems: list[Problem],
    n: int | None,
    seed: int,
    demonstrate: bool = False,
) -> Taken:
    """The first `n` rows (None: all) that fit the model's context, in an order that the seed alone decides, not the
    files: demonstrations, or prompts with room for a completion."""
    problems = sorted(problems)
    Random(seed).shuffle(problems)
    rows = [_build_row(problem, chat) for problem in problems]
    rows = [_demonstrate(row) for row in rows] if demonstrate else rows
    return take_fitting(cfg, tokenizer, rows, n, tokenizer.model_max_length, 0 if demonstrate else cfg.max_tokens)


def _build_row(problem: Problem, chat: bool) -> Row:
    prompt: Any = f"Question: {problem.question}\nAnswer:"
    if chat:
        prompt = [{"role": "user", "content": CHAT_PROMPT.format(question=problem.question)}]
    return {"id": problem.name(), "prompt": prompt, "answer": problem.answer}


def _demonstrate(row: Row) -> Row:
    chat = not isinstance(row["prompt"], str)
    return {"prompt": row["prompt"], "completion": as_completion(f" {ANNOTATION.sub('', row['answer'])}", chat)}
