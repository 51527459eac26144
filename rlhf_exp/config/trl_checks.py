"""Checks each of TRL's arguments in a config: its name, its type and its range.

find_argument_problems("grpo", {"beta": -1}, [], load_arguments("grpo"))   # {..., "range": ["algo.args.beta=-1: ..."]}
"""

from collections.abc import Collection, Mapping
from typing import Any

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.keys import refuse_key
from rlhf_exp.config.overrides import refuse_secret
from rlhf_exp.config.trl_arguments import Argument, narrow
from rlhf_exp.config.trl_ranges import CHOICES, MAPPINGS, RANGES, RENAMED
from rlhf_exp.config.values import find_problem, is_secret, show


def find_argument_problems(
    algo: str, args: Mapping[str, Any], own: Collection[str], known: Mapping[str, Argument]
) -> dict[str, list[str]]:
    """Problems by kind, one line each: `unknown`, `type`, `range`. `own`: the algorithm's keys beside args."""
    ranges = RANGES | ({} if ALGORITHMS[algo].compares_groups else {"num_generations": RANGES["steps_per_generation"]})
    problems: dict[str, list[str]] = {"unknown": [], "type": [], "range": []}
    for name, value in args.items():
        key = f"algo.args.{name}"
        shown = f"{key}={show(value)}"
        if is_secret(name):
            problems["unknown"].append(refuse_secret(key))
        elif name in own and name in known:
            problems["unknown"].append(f"{shown}: not TRL's; use algo.{name}")
        elif name in RENAMED:
            problems["unknown"].append(f"{shown}: renamed; use algo.args.{RENAMED[name]}")
        elif name not in known:
            problems["unknown"].append(f"{shown}: {refuse_key(key, algo)}")
        elif name != "loss_type" or are_losses(algo, value):  # rules/algo.py refuses the others
            annotation = dict | None if name in MAPPINGS else narrow(CHOICES.get(name), known[name].annotation)
            if problem := find_problem(key, value, annotation, ranges.get(name)):
                problems[problem[0]].append(problem[1])
    return problems


def are_losses(algo: str, value: Any) -> bool:
    """Whether a loss, or each one in a list, is one of the algorithm's; true if the algorithm's loss has no name."""
    losses = ALGORITHMS[algo].losses
    return not losses or all(loss in losses for loss in (value if isinstance(value, list) else [value]))
