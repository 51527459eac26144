"""Simulates searchers on held-out problems: how many each solves within a budget. Needs no model; 10 s.

    python bench/searchers.py --problems 900 --traces 2 --budget 96

Each searcher writes traces as those of task=countdown, but never gives up or checks, so that only the order of its
attempts matters. A trace is graded as a completion is: what follows the budget is cut off. All searchers have the same
problems and seeds.
"""

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import replace
from random import Random

from rlhf_exp.analysis.stats import share_interval
from rlhf_exp.config.compose import compose_config
from rlhf_exp.rewards.countdown import grade
from rlhf_exp.tasks.countdown import draw_problems
from rlhf_exp.tasks.countdown_search import Attempt, Searcher, list_attempts, order_attempts, write_search, write_trace

Order = Callable[[list[int], int, Random], list[Attempt]]
"""(numbers, target, rng) -> the attempts in the order of a searcher."""

ALIKE = [1.0, 1.0, 1.0, 1.0]


def order_by(temperature: float | None, operations: list[float] = ALIKE) -> Order:
    """The order of a searcher with these weights."""
    searcher = Searcher(temperature, operations)
    return lambda numbers, target, rng: order_attempts(list_attempts(numbers), target, searcher, rng)


def multiply_first(numbers: list[int], target: int, rng: Random) -> list[Attempt]:
    """Uniform order; if the target exceeds the sum of the numbers, attempts that hold a product come first."""
    attempts = order_by(None)(numbers, target, rng)
    if target <= sum(numbers):
        return attempts
    return sorted(attempts, key=lambda attempt: "*" not in attempt.operations)


SEARCHERS: dict[str, Order] = {
    "uniform order": order_by(None),
    "mostly subtracting, + - * / as 2 : 8 : 1 : 2": order_by(None, [2, 8, 1, 2]),
    "multiply first if the target exceeds the sum": multiply_first,
    **{f"exp(-\\|value - target\\| / T), T={t}": order_by(t) for t in (-20, 40, 20, 10, 5)},
}


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", default="validation")
    parser.add_argument("--problems", type=int, default=900)
    parser.add_argument("--traces", type=int, default=2, help="of each problem")
    parser.add_argument("--budget", type=int, default=96)
    options = parser.parse_args()
    task = compose_config([]).task
    habits = replace(task.traces, give_up=0.0, check=0.0, max_attempts=1000, patience=None)
    problems = draw_problems(task, [3], options.split, options.problems, seed=0, distinct=True)
    writers = {
        name: lambda numbers, target, rng, order=order: write_search(order(numbers, target, rng), target, habits, rng)
        for name, order in SEARCHERS.items()
    }
    writers["the traces of conf/task/countdown.yaml"] = lambda numbers, target, rng: write_trace(
        numbers, target, task.traces, rng
    )
    print(f"| searcher | solved within {options.budget} tokens | right at the first attempt | mean tokens |")
    print("|---|---|---|---|")
    for name, write in writers.items():
        solved, at_once, tokens = [], [], []
        for i, problem in enumerate(problems):
            traces = [write(*problem, Random(f"{i} {k}")).split() for k in range(options.traces)]
            cut = [words[: options.budget] for words in traces]
            right = [grade(" ".join(words), *problem).outcome == "correct" for words in cut]
            solved.append(sum(right) / len(right))
            at_once.append(sum("yes" in words and "no" not in words for words in cut) / len(cut))
            tokens += [min(len(words) + 1, options.budget) for words in traces]
        mean = sum(tokens) / len(tokens)
        print(f"| {name} | {show(solved, options.traces)} | {show(at_once, options.traces)} | {mean:.1f} |", flush=True)
    print(
        f"\nn={len(problems)} {options.split} problems, {options.traces} traces of each; in brackets 95% intervals over"
        " the problems."
    )


def show(shares: list[float], traces: int) -> str:
    """A mean over problems with its interval, in percent."""
    share = share_interval(shares, traces)
    return f"{100 * share['value']:.1f}% [{100 * share['low']:.1f}, {100 * share['high']:.1f}]"


if __name__ == "__main__":
    main()
