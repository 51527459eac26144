"""Refuses a number of completions per step that is not a multiple of `num_generations`, the size of a group."""

import os
from collections.abc import Mapping
from math import gcd

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_arguments import Argument, load_arguments


def check_groups(cfg: Config, known: "Mapping[str, Argument] | None" = None) -> list[str]:
    """Whether a step consists of whole groups; `known` gives TRL's defaults for arguments that the config lacks."""
    if not ALGORITHMS[cfg.algo.name].compares_groups:
        return []
    known = known or load_arguments(cfg.algo.name)
    args = {name: cfg.algo.args.get(name, known[name].default) for name in known}
    key, repeats = "per_device_train_batch_size", int(os.environ.get("WORLD_SIZE", "1"))
    repeats *= args["steps_per_generation"] or args["gradient_accumulation_steps"]
    if args["generation_batch_size"]:
        key, repeats = "generation_batch_size", 1
    batch, group = args[key], args["num_generations"]
    if group is None:
        return ["algo.args.num_generations=null: must be a whole number >= 2"]
    total = batch * repeats
    if total % group == 0:
        return []
    step = group // gcd(group, repeats)
    batches = [n * step for n in (batch // step, batch // step + 1) if n]
    groups = sorted((n for n in range(2, total + 1) if total % n == 0), key=lambda n: abs(n - group))[:2]
    remedies = [f"{key}={_either(batches)}"]
    remedies += [f"num_generations={_either(sorted(groups))}"] if groups else []
    return [
        f"algo.args.{key}={batch}: makes {total} completions per step, not a multiple of"
        f" algo.args.num_generations={group}; nearest: {', or '.join(remedies)}"
    ]


def _either(numbers: list[int]) -> str:
    return " or ".join(str(number) for number in numbers)
