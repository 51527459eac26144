"""Countdown's problems: draws them, reads them from a file or the hub, and divides them into splits.

    draw_problems(cfg.task, [3], "train", 256, seed=0)    # [([8, 7, 3], 53), ...]
    read_splits(cfg.task)["test"]                         # the distinct problems of a file

A problem is its sorted numbers and its target. A hash of the problem alone puts it into one of four splits, so no seed
and no source can move a problem from one split to another:

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

from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import splits
from rlhf_exp.tasks.countdown.schema import Keys
from rlhf_exp.tasks.countdown.traces import reachable
from rlhf_exp.tasks.sources import read_hub, read_lines

Problem = tuple[list[int], int]
"""The numbers and the target."""

SPLITS = {"sft": range(0, 50), "train": range(50, 80), "validation": range(80, 88), "test": range(88, 100)}
"""Percent of all problems."""

MOST_DRAWN = 200_000
"""The most rows to train on that are drawn, which takes 20 s. The shipped model was trained on 160,000."""

COUNTED_FROM, MOST_LISTED = 1_000, 20_000
"""Held-out problems are counted first if more than this many are asked for, by listing at most this many sets of
numbers."""

INSTEAD = "task.source=generated, or task.source=file task.path=FILE.jsonl"

RARE_HITS = 300
"""Draws in a row without a new problem after which the rest is taken from the list of all."""


def draw_problems(
    task: Keys, counts: list[int], split: str, n: int, seed: int, distinct: bool = False, fewer: bool = False
) -> list[Problem]:
    """Draw `n` solvable problems of `split`: numbers uniform, target uniform among those in range they can reach.

    `counts` is how many numbers a problem has, one of them drawn for each.
    The same `seed` gives the same list, and a longer list begins with the shorter one. Problems to train on may
    repeat; held-out ones are drawn `distinct`, so that n counts problems. When nearly all are drawn, the last ones come
    from the list of all, where that can be made. With `fewer` all there are will do.

    Raises:
        ConfigError: the ranges leave too few problems in the split, or none.
    """
    rng, problems, misses, seen = Random(f"{split} {seed}"), [], 0, set()
    listed = distinct and _can_list(task, counts)
    most_misses = RARE_HITS if listed else 10_000
    with tqdm(total=n, desc="drawing problems", unit="problem", leave=False, delay=2) as bar:
        while len(problems) < n and misses < most_misses:
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
            else:
                misses += 1
    if len(problems) < n and listed:
        rest = [problem for problem in _list_problems(*_facts(task, counts), split) if problem_id(*problem) not in seen]
        rng.shuffle(rest)
        problems += [(rng.sample(numbers, len(numbers)), target) for numbers, target in rest[: n - len(problems)]]
    if len(problems) < n and not (fewer and problems):
        ranges = f"{task.low} to {task.high} and a target from {task.target_low} to {task.target_high}"
        found = f"found {len(problems)} of {n} problems with {counts} numbers from {ranges}"
        raise ConfigError([f"task: {found} in the {split} split; widen the ranges or ask for fewer rows"])
    return problems


def refuse_many(task: Keys, key: str, n: int, split: str) -> list[str]:
    """Why there are not `n` different problems in the split, if that is known without drawing them; empty if not."""
    most, what = MOST_DRAWN, ""
    if n > COUNTED_FROM and _can_list(task, task.numbers):
        there_are = len(_list_problems(*_facts(task, task.numbers), split))
        if there_are < most:
            most, what = there_are, f", the problems of the {split} split"
    return [f"{key}={n}: allowed is 1 to {most:,}{what}"] if n > most else []


def _can_list(task: Keys, counts: list[int]) -> bool:
    return max(counts) <= 3 and sum(comb(task.high - task.low + k, k) for k in counts) <= MOST_LISTED


def _facts(task: Keys, counts: list[int]) -> tuple[tuple[int, ...], int, int, int, int]:
    return tuple(counts), task.low, task.high, task.target_low, task.target_high


@cache
def _list_problems(
    counts: tuple[int, ...], low: int, high: int, target_low: int, target_high: int, split: str
) -> tuple[tuple[tuple[int, ...], int], ...]:
    """All problems of the split, each once."""
    return tuple(
        (numbers, target)
        for k in sorted(set(counts))
        for numbers in combinations_with_replacement(range(low, high + 1), k)
        for target in sorted(reachable(numbers))
        if target_low <= target <= target_high and target not in numbers and split_of(numbers, target) == split
    )


def problem_id(numbers: Sequence[int], target: int) -> str:
    """The problem's name, the same for any order of its numbers: `3 7 8 > 53`."""
    return f"{' '.join(map(str, sorted(numbers)))} > {target}"


def split_of(numbers: Sequence[int], target: int) -> str:
    """The one split that this problem belongs to."""
    return splits.split_of(problem_id(numbers, target), SPLITS)


def read_splits(task: Keys) -> dict[str, list[Problem]]:
    """The distinct problems of the file or the hub, by split."""
    distinct: dict[str, Problem] = {}
    of_hub = task.source == "hub"
    rows = read_hub(task.hub_id, parts=("train",), remedy=INSTEAD) if of_hub else read_lines(Path(task.path))
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
