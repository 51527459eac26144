"""Countdown: combine the given numbers, each exactly once, to reach the target.

A row:

    {"id": "3 7 8 > 53", "prompt": "use 8 7 3 make 53 .", "numbers": [8, 7, 3], "target": 53}

Problems are generated (seeded, each proven solvable), or read from a local JSONL file with `nums` and `target`, or from
the hub. A problem is its sorted numbers and its target. A hash of the problem alone puts it into one of four splits, so
no seed and no source can move a problem from one split to another:

    sft         problems of the demonstrations (countdown_search.py), on which the shipped model was trained
    train       prompts for learning from own samples
    validation  for choosing settings
    test        for reported figures; never for choosing anything
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import comb
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

from pydantic import Field

from rlhf_exp.config.values import Count
from rlhf_exp.errors import ConfigError
from rlhf_exp.forms import Form
from rlhf_exp.graders import Grade
from rlhf_exp.graders import countdown as grader
from rlhf_exp.tasks import splits
from rlhf_exp.tasks.countdown_search import Traces, list_attempts, reachable, write_search, write_trace
from rlhf_exp.tasks.sources import read_hub, read_lines
from rlhf_exp.tasks.task import GradedTask, Item, Source
from rlhf_exp.tasks.texts import Row

CHAT_PROMPT = (
    "Using the numbers {numbers}, write an expression that equals {target}. You may use + - * / and parentheses, and"
    " must use each number exactly once. Show your work in <think> </think> tags, then give the expression alone in"
    " <answer> </answer> tags, for example <answer> (1 + 2) / 3 </answer>."
)

Problem = tuple[list[int], int]
"""The numbers and the target."""

SPLITS = {"sft": range(0, 50), "train": range(50, 80), "validation": range(80, 88), "test": range(88, 100)}
"""Percent of all problems."""

MOST_LISTED = 20_000
"""The most sets of numbers of which all problems are listed."""

RARE_HITS = 300
"""Draws in a row without a new problem after which the rest is taken from the list of all."""


@dataclass(frozen=True)
class Countdown(GradedTask):
    """The keys of task=countdown."""

    name: Literal["countdown"]
    numbers: list[Annotated[int, Field(ge=2, le=6)]]
    low: Count
    high: Count
    target_low: Annotated[int, Field(ge=1, le=10**9)]
    target_high: Annotated[int, Field(ge=1, le=10**9)]
    traces: Traces

    columns = ("numbers", "target")
    own_policies = "rlhf_exp.tasks.countdown_policies:list_policies"
    path_form = "a JSONL file with nums and target"
    budget = (512, "the middle one of the budgets that Countdown is studied with, 256, 512 and 1,024")

    @property
    def easier(self) -> list[str]:
        fewer = min(self.numbers) - 1
        numbers = ",".join(map(str, [fewer, *self.numbers]))
        return [f"{self.place}.numbers=[{numbers}]"] if self.source == "generated" and fewer > 1 else []

    def find_problems(self, key: str) -> list[str]:
        lowest, most = self.traces.patience or (0, 0)
        bounds = (
            ("low", self.low, self.high),
            ("target_low", self.target_low, self.target_high),
            ("traces.patience", lowest, most),
        )
        problems = [
            f"{key}.{name}={low}: must be at most {high}, the upper bound" for name, low, high in bounds if low > high
        ]
        for name, counts in (("numbers", self.numbers), ("traces.numbers", self.traces.numbers)):
            if not counts:
                problems.append(f"{key}.{name}=[]: must hold how many numbers a problem has, such as [3]")
        return problems + super().find_problems(key)

    def rows(self) -> Source:
        """The distinct problems of the file or the hub. `train` holds those of `sft` too, on which completions to
        learn from are not sampled."""
        splits: dict[str, dict[str, Item]] = {name: {} for name in SPLITS}
        count = 0
        for where, row in self._read_rows():
            numbers, target = _check_row(row, where)
            item = _make_item(numbers, target)
            splits[split_of(numbers, target)].setdefault(item.id, item)
            count += 1
        sft, train, validation, test = (list(splits[name].values()) for name in ("sft", "train", "validation", "test"))
        parts = {"train": sft + train, "validation": validation, "test": test}
        return Source(parts, {"all": count}, "problems", sampled=train)

    def draw(self, form: Form, split: str, n: int, seed: int, distinct: bool, fewer: bool) -> list[Item]:
        """`n` problems of the split; those of demonstrations have as many numbers as traces have, and are trained on of
        `sft`."""
        if not form.answers:
            return [_make_item(*p) for p in draw_problems(self, self.numbers, split, n, seed, distinct, fewer)]
        shown = draw_problems(self, self.traces.numbers, "sft" if split == "train" else split, n, seed)
        items = [_make_item(*problem) for problem in shown]
        return list({item.id: item for item in items}.values()) if distinct else items

    def write_prompt(self, item: Item, chat: bool) -> str:
        numbers, target = item.columns["numbers"], item.columns["target"]
        if chat:
            return CHAT_PROMPT.format(numbers=numbers, target=target)
        return f"use {' '.join(map(str, numbers))} make {target} ."

    def demonstration(self, item: Item, seed: str) -> str | None:
        """A search trace; None for more than three numbers, which traces do not have."""
        numbers, target = item.columns["numbers"], item.columns["target"]
        return write_trace(numbers, target, self.traces, Random(seed)) if len(numbers) <= 3 else None

    def gold(self, item: Item) -> str | None:
        """A trace that finds the target at once; None where no trace does. Demonstrations may end with a wrong
        answer."""
        numbers, target = item.columns["numbers"], item.columns["target"]
        if len(numbers) > 3:
            return None
        right = [attempt for attempt in list_attempts(numbers) if attempt.value == target]
        return write_search(right, target, replace(self.traces, patience=None), Random(0)) if right else None

    def grade(self, completion: str, row: Row) -> Grade:
        return grader.grade(completion, row["numbers"], row["target"])

    def _read_rows(self) -> Iterator[tuple[str, Any]]:
        if self.source == "file":
            yield from read_lines(Path(self.path or ""))
        else:
            for _, where, row in read_hub(self.hub_id, parts=("train",), place=self.place):
                yield where, row


def draw_problems(
    task: Countdown, counts: list[int], split: str, n: int, seed: int, distinct: bool = False, fewer: bool = False
) -> list[Problem]:
    """Draw `n` solvable problems of `split`: numbers uniform, target uniform among those in range they can reach.

    `counts` is how many numbers a problem has, one of them drawn for each.
    The same `seed` gives the same list, and a longer list begins with the shorter one. Problems to train on may
    repeat; held-out ones are drawn `distinct`, so that n counts problems. When nearly all are drawn, the last ones come
    from the list of all, where that can be made. With `fewer` all there are will do.

    Raises:
        ConfigError: the ranges leave too few problems in the split, or none.
    """
    rng, problems, misses, seen = Random(f"{split} {seed}"), list[Problem](), 0, set[str]()
    listed = distinct and max(counts) <= 3 and sum(comb(task.high - task.low + k, k) for k in counts) <= MOST_LISTED
    most_misses = RARE_HITS if listed else 10_000
    while len(problems) < n and misses < most_misses:
        numbers = [rng.randint(task.low, task.high) for _ in range(rng.choice(counts))]
        reached = sorted(reachable(numbers) - {*numbers})
        targets = [target for target in reached if task.target_low <= target <= task.target_high]
        target = rng.choice(targets) if targets else 0
        name = problem_id(numbers, target)
        if target and split_of(numbers, target) == split and name not in seen:
            problems.append((numbers, target))
            seen.update([name] if distinct else [])
            misses = 0
        else:
            misses += 1
    if len(problems) < n and listed:
        rest = [problem for problem in _list_problems(task, counts, split) if problem_id(*problem) not in seen]
        rng.shuffle(rest)
        problems += [(rng.sample(numbers, len(numbers)), target) for numbers, target in rest[: n - len(problems)]]
    if len(problems) < n and not (fewer and problems):
        ranges = f"{task.low} to {task.high} and a target from {task.target_low} to {task.target_high}"
        found = f"found {len(problems)} of {n} problems with {counts} numbers from {ranges}"
        raise ConfigError([f"{task.place}: {found} in the {split} split; widen the ranges or ask for fewer rows"])
    return problems


def _list_problems(task: Countdown, counts: list[int], split: str) -> list[Problem]:
    """All problems of the split, each once."""
    return [
        (list(numbers), target)
        for k in sorted(set(counts))
        for numbers in combinations_with_replacement(range(task.low, task.high + 1), k)
        for target in sorted(reachable(numbers))
        if task.target_low <= target <= task.target_high
        and target not in numbers
        and split_of(numbers, target) == split
    ]


def problem_id(numbers: Sequence[int], target: int) -> str:
    """The problem's name, the same for any order of its numbers: `3 7 8 > 53`."""
    return f"{' '.join(map(str, sorted(numbers)))} > {target}"


def split_of(numbers: Sequence[int], target: int) -> str:
    """The one split that this problem belongs to."""
    return splits.split_of(problem_id(numbers, target), SPLITS)


def _make_item(numbers: Sequence[int], target: int) -> Item:
    return Item(problem_id(numbers, target), {"numbers": list(numbers), "target": target}, None)


def _check_row(row: Any, where: str) -> Problem:
    given: Any = row if isinstance(row, dict) else {}
    numbers, target = given.get("nums"), given.get("target")
    whole = isinstance(numbers, list) and all(type(n) is int and n > 0 for n in [*numbers, target])
    if not whole or not 2 <= len(numbers) <= 6:
        form = '{"nums": [2 to 6 positive integers], "target": positive integer}'
        raise ConfigError([f"{where}: expected {form}, got {json.dumps(row)[:80]}"])
    return numbers, target
