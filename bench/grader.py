"""Compares the speed of the Countdown grader with a grader by regex and eval, on the same completions.

The other grader is the usual one for this task (as in Jiayi-Pan/TinyZero): it takes the last answer by a regular
expression, checks the numbers in it, and calls `eval`. It is not safe, and only here for the comparison.

    python -m bench.grader

Prints the ratio of the rates (above 1: this package's is faster) in CPU time over repeats in turns, and on how many
completions the two agree, with the kinds of answer on which they differ.
"""

import random
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable

from rlhf_exp.rewards.countdown import grade

COMPLETIONS, REPEATS, SEED = 2000, 21, 0
LONG_THOUGHT = 200  # attempts in one long thought, about 3,500 characters
# Kind of answer: its share of the completions. "spelled" is correct, but not written as plain Python.
KINDS = {
    "correct": 0.3,
    "wrong value": 0.25,
    "wrong numbers": 0.15,
    "malformed": 0.1,
    "none": 0.1,
    "spelled": 0.1,
}

Row = tuple[str, list[int], int]


def main() -> None:
    rng = random.Random(SEED)
    kinds = rng.choices(list(KINDS), list(KINDS.values()), k=COMPLETIONS)
    rows = [build_row(rng, kind) for kind in kinds]
    ours, other = [], []
    for repeat in range(REPEATS):
        for grader, times_s in ((grade, ours), (score_by_eval, other))[:: 1 if repeat % 2 else -1]:
            times_s.append(measure(grader, rows))
    characters = statistics.mean(len(completion) for completion, _, _ in rows)
    print(f"{COMPLETIONS} completions of {characters:.0f} characters on average")
    print_spread("grade, completions/s", [COMPLETIONS / time_s for time_s in ours], ",.0f")
    print_spread("regex + eval, completions/s", [COMPLETIONS / time_s for time_s in other], ",.0f")
    print_spread("ratio of the rates", [b / a for a, b in zip(ours, other, strict=True)], ".2f")
    differing = Counter(kind for kind, row in zip(kinds, rows, strict=True) if grade(*row).score != score_by_eval(*row))
    print(f"same score on {COMPLETIONS - differing.total()} of {COMPLETIONS}; differing: {dict(differing)}")


def score_by_eval(completion: str, numbers: list[int], target: int) -> float:
    answers = re.findall(r"<answer>(.*?)</answer>", completion, re.DOTALL)
    if not answers:
        return 0.0
    answer = answers[-1].strip()
    if sorted(int(number) for number in re.findall(r"\d+", answer)) != sorted(numbers):
        return 0.1
    if not re.fullmatch(r"[\d+\-*/().\s]+", answer):
        return 0.1
    try:
        return 1.0 if abs(eval(answer, {"__builtins__": None}) - target) < 1e-5 else 0.1
    except Exception:
        return 0.1


def build_row(rng: random.Random, kind: str) -> Row:
    """A completion with an answer of that kind, after a short or a long thought; the numbers; the target."""
    numbers = [rng.randint(1, 30) for _ in range(3)]
    a, b, c = numbers
    first, second = rng.choices("+-*", k=2)
    answer, result = f"( {a} {first} {b} ) {second} {c}", apply(second, apply(first, a, b), c)
    target = result + 1 if kind == "wrong value" else result
    if kind == "wrong numbers":
        answer = f"( {a} {first} {b} ) {second} {c + 1}"
    elif kind == "malformed":
        answer = rng.choice([f"( {a} {first} {b} {second} {c}", f"{a} ** {b} {second} {c}", f"{a} {b} {c}", "yes"])
    elif kind == "spelled":
        answer = rng.choice([f"{answer} = {target}", rf"\boxed{{{answer}}}", f"$ {answer} $"])
    attempts = [rng.sample(range(1, 31), 2) for _ in range(rng.choice([rng.randint(1, 6), LONG_THOUGHT]))]
    thought = " no ".join(f"{x} * {y} = {x * y} - {c} = {x * y - c}" for x, y in attempts)
    closing = "" if kind == "none" else f" <answer> {answer} </answer>"
    return f"<think> {thought} </think>{closing}", numbers, target


def apply(symbol: str, left: int, right: int) -> int:
    return {"+": left + right, "-": left - right, "*": left * right}[symbol]


def measure(grader: Callable[[str, list[int], int], object], rows: list[Row]) -> float:
    start = time.process_time()
    for row in rows:
        grader(*row)
    return time.process_time() - start


def print_spread(name: str, values: list[float], form: str) -> None:
    low, middle, high = (format(value, form) for value in (min(values), statistics.median(values), max(values)))
    print(f"{name}: median {middle} (min {low}, max {high}, n {len(values)})")


if __name__ == "__main__":
    main()
