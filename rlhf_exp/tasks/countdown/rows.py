"""Countdown: combine the given numbers, each exactly once, to reach the target.

A row:

    {"id": "3 7 8 > 53", "prompt": "use 8 7 3 make 53 .", "numbers": [8, 7, 3], "target": 53}

Problems are generated (seeded, each proven solvable), or read from a local JSONL file with `nums` and `target`, or from
the hub (problems.py).
"""

import re
from collections.abc import Callable
from random import Random
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlhf_exp.algorithms import ALGORITHMS, DEMONSTRATIONS
from rlhf_exp.config.device import count_processes
from rlhf_exp.config.schema import Config, learns_from_samples
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders import Grade
from rlhf_exp.graders.countdown import grade
from rlhf_exp.models.policies import Policy
from rlhf_exp.tasks import Row, Task, as_completion, prompts_per_rollout, wants_chat
from rlhf_exp.tasks.countdown import policies
from rlhf_exp.tasks.countdown.problems import MOST_DRAWN, Problem, draw_problems, problem_id, read_splits, refuse_many
from rlhf_exp.tasks.countdown.schema import Keys
from rlhf_exp.tasks.countdown.traces import write_trace
from rlhf_exp.tasks.fitting import Taken, check_sides, refuse_few

CHAT_PROMPT = (
    "Using the numbers {numbers}, write an expression that equals {target}. You may use + - * / and parentheses, and"
    " must use each number exactly once. Show your work in <think> </think> tags, then give the expression alone in"
    " <answer> </answer> tags, for example <answer> (1 + 2) / 3 </answer>."
)

PLAIN_PROMPT = re.compile(r"use (\d+(?: \d+){1,5}) make (\d+) \.", re.ASCII)


def load(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> Task:
    """Load the rows to train on and the held-out rows. sft learns from synthetic search traces, other algorithms from
    prompts; `train` is empty if it will be made from samples (tasks/sampled.py)."""
    task, notes = cfg.task, []
    chat, sampled = wants_chat(cfg, tokenizer), learns_from_samples(cfg)
    demonstrate = ALGORITHMS[cfg.algo.name].learns_from == DEMONSTRATIONS
    if task.source == "generated":
        counts, split = (task.traces.numbers, "sft") if demonstrate else (task.numbers, "train")
        count, wanted = count_rows(cfg)
        if count < wanted:
            notes.append(f"training uses {wanted:,} rows: {count:,} are drawn, and then come again")
        train = draw_problems(task, counts, split, count, task.data_seed)
        of_split = cfg.eval.split, cfg.eval.limit, cfg.eval.seed
        held_out = draw_problems(task, task.numbers, *of_split, distinct=True, fewer=cfg.eval.rows is None)
    else:
        by_split, counts = read_splits(task), None
        train, held_out = by_split["sft"] + by_split["train"], by_split[cfg.eval.split]
        count = sum(map(len, by_split.values()))
        notes.append(f"{count} distinct problems: {len(train)} to train on, {len(held_out)} held out")
        Random(task.data_seed).shuffle(train)
        Random(cfg.eval.seed).shuffle(held_out)
        check_sides(cfg, {cfg.eval.split: Taken(held_out)} | ({} if sampled else {"train": Taken(train)}))
        train, held_out = [] if sampled else train[: task.train_rows], held_out[: cfg.eval.limit]
    rows = _demonstrate(train, task, task.data_seed, chat) if demonstrate else [_row(*p, chat) for p in train]
    given: list[Row] = []
    if demonstrate and not sampled:
        alike = _list_alike(cfg, held_out, counts)
        given = _demonstrate(alike, task, f"held-out traces {cfg.eval.seed}", chat)
    prompts = [_row(*p, chat) for p in held_out]
    return Task("countdown", rows, prompts, grade_row, demonstrations=given, notes=tuple(notes))


def count_rows(cfg: Config) -> tuple[int, int]:
    """How many rows to train on are drawn, and how many training uses: beyond MOST_DRAWN they are repeated.

    Raises:
        ConfigError: more are asked for than are drawn, or than there are held-out problems, of all checked at once.
    """
    task = cfg.task
    problems = refuse_many(task, "eval.rows", cfg.eval.rows, cfg.eval.split) if cfg.eval.rows else []
    if learns_from_samples(cfg):
        problems += refuse_many(task, "task.sampling.rows", task.sampling.rows, "train")
        count = wanted = 0
    else:
        wanted = task.train_rows or rows_needed(cfg)
        count = min(wanted, MOST_DRAWN)
        if task.train_rows is not None and count < wanted:
            problems += [f"task.train_rows={wanted}: allowed is 1 to {MOST_DRAWN:,}; more steps go over them again"]
    if problems:
        raise ConfigError(problems)
    return count, wanted


def draw_prompts(cfg: Config, tokenizer: PreTrainedTokenizerBase, n: int) -> list[Row]:
    """`n` different prompts of the train split, for sampling completions to learn from.

    Raises:
        ConfigError: there are fewer.
    """
    task = cfg.task
    if task.source == "generated":
        problems = draw_problems(task, task.numbers, "train", n, task.data_seed, distinct=True)
    else:
        problems = read_splits(task)["train"]
        if refused := refuse_few(cfg, Taken(problems), "train", "task.sampling.rows", n):
            raise ConfigError(refused)
        Random(task.data_seed).shuffle(problems)
    return [_row(*p, wants_chat(cfg, tokenizer)) for p in problems[:n]]


def list_policies(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> list[Policy]:
    """Trivial policies that change the words of search traces; none for chat models, whose words are their own."""
    return [] if wants_chat(cfg, tokenizer) else policies.list_policies(tokenizer)


def read_prompt(prompt: str) -> Row | None:
    """The row of a prompt in the form of `load`: use 3 7 8 make 53 ."""
    found = PLAIN_PROMPT.fullmatch(prompt.strip())
    return _row([int(number) for number in found[1].split()], int(found[2]), chat=False) if found else None


def build_grader(task: Keys) -> Callable[[str, Row], Grade]:
    """The same for all keys."""
    return grade_row


def grade_row(completion: str, row: Row) -> Grade:
    """Grade a completion for a row of this task."""
    return grade(completion, row["numbers"], row["target"])


def rows_needed(cfg: Config) -> int:
    """How many rows training uses if none is repeated.

    Raises:
        ConfigError: the length of training is given in epochs, from which no number of rows follows.
    """
    args = cfg.algo.args
    if args.get("max_steps", -1) < 1:
        raise ConfigError(["task.train_rows=null: means as many as algo.args.max_steps uses, and that is not set"])
    per_step = args["per_device_train_batch_size"] * args.get("gradient_accumulation_steps", 1) * count_processes(cfg)
    rows = prompts_per_rollout(cfg)  # for algorithms without rollouts: the rows of a step
    learned = rows * args.get("num_generations", 1) * args.get("num_iterations", 1)
    return -(-args["max_steps"] * per_step // learned) * rows


def _row(numbers: list[int], target: int, chat: bool) -> Row:
    prompt: Any = f"use {' '.join(map(str, numbers))} make {target} ."
    if chat:
        prompt = [{"role": "user", "content": CHAT_PROMPT.format(numbers=numbers, target=target)}]
    return {"id": problem_id(numbers, target), "prompt": prompt, "numbers": list(numbers), "target": target}


def _list_alike(cfg: Config, held_out: list[Problem], counts: list[int] | None) -> list[Problem]:
    """Distinct held-out problems to demonstrate, with as many numbers as in training, so that the two losses can be
    compared: drawn with `counts` numbers, or without `counts` (rows of a file) those of the evaluation."""
    if counts is None:
        return [problem for problem in held_out if len(problem[0]) <= 3]  # traces have at most three numbers
    drawn = draw_problems(cfg.task, counts, cfg.eval.split, cfg.eval.limit, cfg.eval.seed)
    return list({problem_id(*problem): problem for problem in drawn}.values())


def _demonstrate(problems: list[Problem], task: Keys, seed: int | str, chat: bool) -> list[Row]:
    """A row for each problem; its trace depends on the seed, its place and the problem alone."""
    rows = []
    for i, problem in enumerate(problems):
        trace = write_trace(*problem, task.traces, Random(f"{seed} {i}"))
        rows.append({"prompt": _row(*problem, chat)["prompt"], "completion": as_completion(trace, chat)})
    return rows
