"""Countdown: combine the given numbers, each exactly once, to reach the target.

A row:

    {"id": "3 7 8 > 53", "prompt": "use 8 7 3 make 53 .", "numbers": [8, 7, 3], "target": 53}

Rows are generated (seeded, each proven solvable), or read from a local JSONL file with `nums` and `target`, or from
the hub. A problem is its sorted numbers and its target. A hash of the problem alone puts it into one of four splits,
so no seed and no source can move a problem from one split to another:

    sft         problems of the demonstrations, on which the shipped model was trained
    train       prompts for learning from own samples
    validation  for choosing settings
    test        for reported figures; never for choosing anything
"""

import json
from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement
from math import comb
from pathlib import Path
from random import Random
from typing import Any

from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from rlhf_exp.algorithms import ALGORITHMS, DEMONSTRATIONS
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.rewards.countdown import grade
from rlhf_exp.rewards.grade import Grade
from rlhf_exp.tasks import Row, Task, as_completion, prompts_per_rollout, splits, wants_chat
from rlhf_exp.tasks.countdown.schema import Keys
from rlhf_exp.tasks.countdown.traces import reachable, write_trace
from rlhf_exp.tasks.fitting import Taken, check_sides, refuse_few
from rlhf_exp.tasks.sampled import learns_from_samples
from rlhf_exp.tasks.sources import read_hub, read_lines

Problem = tuple[list[int], int]
"""The numbers and the target."""

SPLITS = {"sft": range(0, 50), "train": range(50, 80), "validation": range(80, 88), "test": range(88, 100)}
"""Percent of all problems."""

MOST_DRAWN = 200_000
"""The most rows to train on that are drawn, which takes 20 s. The shipped model was trained on 160,000."""

COUNTED_FROM, MOST_COUNTED = 1_000, 20_000
"""Held-out problems are counted first if more than this many are asked for, by listing at most this many sets of
numbers."""

CHAT_PROMPT = (
    "Using the numbers {numbers}, write an expression that equals {target}. You may use + - * / and parentheses, and"
    " must use each number exactly once. Show your work in <think> </think> tags, then give the expression alone in"
    " <answer> </answer> tags, for example <answer> (1 + 2) / 3 </answer>."
)


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
        held_out = draw_problems(task, task.numbers, cfg.eval.split, cfg.eval.rows, cfg.eval.seed, distinct=True)
    else:
        by_split, counts = _read_splits(task), None
        train, held_out = by_split["sft"] + by_split["train"], by_split[cfg.eval.split]
        count = sum(map(len, by_split.values()))
        notes.append(f"{count} distinct problems: {len(train)} to train on, {len(held_out)} held out")
        Random(task.data_seed).shuffle(train)
        Random(cfg.eval.seed).shuffle(held_out)
        check_sides(cfg, {cfg.eval.split: Taken(held_out)} | ({} if sampled else {"train": Taken(train)}))
        train, held_out = [] if sampled else train[: task.train_rows], held_out[: cfg.eval.rows]
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
    problems = [_refuse_many(task, "eval.rows", cfg.eval.rows, cfg.eval.split)]
    if learns_from_samples(cfg):
        problems += [_refuse_many(task, "task.sampling.rows", task.sampling.rows, "train")]
        count = wanted = 0
    else:
        wanted = task.train_rows or rows_needed(cfg)
        count = min(wanted, MOST_DRAWN)
        if task.train_rows is not None and count < wanted:
            problems += [f"task.train_rows={wanted}: allowed is 1 to {MOST_DRAWN:,}; more steps go over them again"]
    if found := [line for line in problems if line]:
        raise ConfigError(found)
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
        problems = _read_splits(task)["train"]
        if refused := refuse_few(cfg, Taken(problems), "train", "task.sampling.rows", n):
            raise ConfigError(refused)
        Random(task.data_seed).shuffle(problems)
    return [_row(*p, wants_chat(cfg, tokenizer)) for p in problems[:n]]


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
    per_step = args["per_device_train_batch_size"] * args.get("gradient_accumulation_steps", 1)
    rows = prompts_per_rollout(cfg)  # for algorithms without rollouts: the rows of a step
    learned = rows * args.get("num_generations", 1) * args.get("num_iterations", 1)
    return -(-args["max_steps"] * per_step // learned) * rows


def draw_problems(
    task: Keys, counts: list[int], split: str, n: int, seed: int, distinct: bool = False
) -> list[Problem]:
    """Draw `n` solvable problems of `split`: numbers uniform, target uniform among those in range they can reach.

    `counts` is how many numbers a problem has, one of them drawn for each.
    The same `seed` gives the same list, and a longer list begins with the shorter one. Problems to train on may
    repeat; held-out ones are drawn `distinct`, so that n counts problems.

    Raises:
        ConfigError: the ranges leave too few problems in the split.
    """
    rng, problems, misses, seen = Random(f"{split} {seed}"), [], 0, set()
    with tqdm(total=n, desc="drawing problems", unit="problem", leave=False, delay=2) as bar:
        while len(problems) < n:
            numbers = [rng.randint(task.low, task.high) for _ in range(rng.choice(counts))]
            reached = sorted(reachable(numbers) - {*numbers})
            targets = [target for target in reached if task.target_low <= target <= task.target_high]
            target = rng.choice(targets) if targets else 0
            name = problem_id(numbers, target)
            if target and split_of(numbers, target) == split and name not in seen:
                problems.append((numbers, target))
                bar.update()
                seen.update([name] if distinct else [])
                misses = 0
            elif (misses := misses + 1) == 10_000:
                ranges = f"{task.low} to {task.high} and a target from {task.target_low} to {task.target_high}"
                found = f"found {len(problems)} of {n} problems with {counts} numbers from {ranges}"
                raise ConfigError([f"task: {found} in the {split} split; widen the ranges or ask for fewer rows"])
    return problems


def _refuse_many(task: Keys, key: str, n: int, split: str) -> str | None:
    """Why there are not `n` different problems in the split, if that is known without drawing them."""
    most, what = MOST_DRAWN, ""
    sets = sum(comb(task.high - task.low + k, k) for k in task.numbers)
    if n > COUNTED_FROM and max(task.numbers) <= 3 and sets <= MOST_COUNTED:
        there_are = _count_problems(tuple(task.numbers), task.low, task.high, task.target_low, task.target_high, split)
        if there_are < most:
            most, what = there_are, f", the problems of the {split} split"
    return f"{key}={n}: allowed is 1 to {most:,}{what}" if n > most else None


@cache
def _count_problems(counts: tuple[int, ...], low: int, high: int, target_low: int, target_high: int, split: str) -> int:
    """How many different problems the split has, by listing all of them."""
    return sum(
        target_low <= target <= target_high and target not in numbers and split_of(numbers, target) == split
        for k in set(counts)
        for numbers in combinations_with_replacement(range(low, high + 1), k)
        for target in reachable(numbers)
    )


def problem_id(numbers: Sequence[int], target: int) -> str:
    """The problem's name, the same for any order of its numbers: `3 7 8 > 53`."""
    return f"{' '.join(map(str, sorted(numbers)))} > {target}"


def split_of(numbers: Sequence[int], target: int) -> str:
    """The one split that this problem belongs to."""
    return splits.split_of(problem_id(numbers, target), SPLITS)


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
    drawn = draw_problems(cfg.task, counts, cfg.eval.split, cfg.eval.rows, cfg.eval.seed)
    return list({problem_id(*problem): problem for problem in drawn}.values())


def _demonstrate(problems: list[Problem], task: Keys, seed: int | str, chat: bool) -> list[Row]:
    rng, rows = Random(seed), []
    for problem in problems:
        trace = write_trace(*problem, task.traces, rng)
        rows.append({"prompt": _row(*problem, chat)["prompt"], "completion": as_completion(trace, chat)})
    return rows


def _read_splits(task: Keys) -> dict[str, list[Problem]]:
    """The distinct problems of the file or the hub, by split."""
    distinct: dict[str, Problem] = {}
    of_hub = task.source == "hub"
    rows = read_hub(task.hub_id, parts=("train",), local="FILE.jsonl") if of_hub else read_lines(Path(task.path))
    for *_, where, row in rows:
        problem = _check_row(row, where)
        distinct.setdefault(problem_id(*problem), problem)
    return {name: [p for p in distinct.values() if split_of(*p) == name] for name in SPLITS}


def _check_row(row: Any, where: str) -> Problem:
    numbers = row.get("nums") if isinstance(row, dict) else None
    target = row.get("target") if isinstance(row, dict) else None
    whole = isinstance(numbers, list) and all(type(n) is int and n > 0 for n in [*numbers, target])
    if not whole or not 2 <= len(numbers) <= 6:
        form = '{"nums": [2 to 6 positive integers], "target": positive integer}'
        raise ConfigError([f"{where}: expected {form}, got {json.dumps(row)[:80]}"])
    return numbers, target
