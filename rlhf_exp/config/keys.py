"""Lists every valid key, and explains an unknown one.

explain_key("algo.args.max_lenght", "dpo")   ->  "no such key; did you mean algo.args.max_length?"
explain_key("peft.lora.r", "grpo")           ->  "a key of peft=lora and peft=qlora alone; use peft=lora"
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple, get_args, get_origin

import yaml

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config import ROOT
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_arguments import read_recorded
from rlhf_exp.config.values import get_hints, list_groups, nearest

# Other words for the last part of a key; of several keys with one word the first that the algorithm has.
SYNONYMS = {
    "algo.args.learning_rate": ("lr",),
    "algo.args.num_train_epochs": ("epochs", "num_epochs"),
    "algo.args.max_steps": ("steps", "num_steps"),
    "algo.args.per_device_train_batch_size": ("batch_size", "bs"),
    "algo.args.gradient_accumulation_steps": ("grad_accum", "accumulation_steps"),
    "algo.args.warmup_steps": ("warmup", "warmup_ratio"),
    "algo.args.max_length": ("max_length", "max_len", "max_seq_length"),
    "algo.args.num_generations": ("group_size",),
    "algo.args.init_kl_coef": ("kl_coef",),
    "algo.args.beta": ("kl_coef",),
    "algo.args.hybrid_alpha": ("alpha", "hybrid"),
    "algo.args.curriculum_budgets": ("budgets", "curriculum"),
    "algo.args.curriculum_from_steps": ("from_steps",),
    "algo.args.epsilon": ("clip_range", "cliprange"),
    "algo.args.activation_checkpointing": ("gradient_checkpointing",),
    "max_tokens": ("max_length", "max_len", "max_seq_length", "max_new_tokens"),
    "peft.lora.r": ("rank", "lora_r"),
    "model.dtype": ("precision",),
    "task": ("dataset",),
    "loss_type": ("loss",),
    "run.name": ("run_name", "wandb_name", "name"),
    "device": ("gpu",),
    "hub.push": ("push_to_hub",),
    "resume": ("checkpoint",),
}


_PART = re.compile(r"(task\.of|eval\.sets)\.[^.]+(?=\.)")
"""The name of what holds keys of a task: a part of a mixture, or an evaluation set."""


class Key(NamedTuple):
    """A key of the schema: its dotted name, and its type hint with its bounds."""

    name: str
    hint: Any


def name_key(override: str) -> str:
    """max_tokens of `+max_tokens=8`"""
    return override.partition("=")[0].strip().lstrip("+~")


def list_keys(schema: type = Config, path: str = "") -> Iterator[Key]:
    """Every key of a dataclass, and of those in it; each name that a mapping may hold is a key too."""
    hints = get_hints(schema)
    for item in fields(schema):
        key, hint = path + item.name, hints[item.name]
        yield Key(key, hint)
        yield from (Key(f"{key}.{name}", get_args(hint)[1]) for name in list_names(hint))
        for nested in list_groups(hint):
            yield from list_keys(nested, f"{key}.")


def list_names(hint: Any) -> tuple[str, ...]:
    """The names that a mapping may hold; empty if it may hold any name, or if it is not a mapping."""
    return get_args(get_args(hint)[0]) if get_origin(hint) is dict else ()


@cache
def known_keys(algo: str = "grpo") -> list[str]:
    """Every dotted key that the command line can override with this `algo=`, and the groups without their own keys."""
    keys = [key.name for key in list_keys()]
    args = [f"algo.args.{name}" for name in read_recorded()[algo]]
    options = [key for group, option in _list_options() if group != "algo" for key in _list_option(group, option)]
    return list(dict.fromkeys([*args, *keys, "loss_type", "experiment", *options]))


def takes_text(name: str) -> bool:
    """Whether the value of a key of ours may be any text."""
    hints = [key.hint for key in list_keys() if key.name == name and get_origin(key.hint) not in (list, dict)]
    return any(str in (hint, *get_args(hint)) for hint in hints)


def explain_key(key: str, algo: str = "grpo") -> str:
    """Why there is no such key, with the nearest existing one: among those of the same group, then among all."""
    owners, key = _list_owners(key), key.casefold()
    place, _, end = key.rpartition(".")
    if owners:
        group = owners[0].partition("=")[0]
        return f"a key of {' and '.join(owners)} alone; use {'task@' if '.' in group else ''}{owners[0]}"
    known = known_keys(algo if algo in ALGORITHMS else "grpo")
    meant = next((name for name, words in SYNONYMS.items() if end in words and name in known), None)
    alike = [name for name in known if name.rpartition(".")[2] == end]
    neighbours = [name for name in known if name.rpartition(".")[0] == place]
    near = key if key in known else meant or nearest(key, alike) or nearest(key, neighbours) or nearest(key, known)
    if (part := _PART.match(key)) and not neighbours:
        found = nearest(f"task{key.removeprefix(part[0])}", [name for name in known if name.startswith("task.")])
        near = found and f"{part[0]}{found.removeprefix('task')}"
    near = near or nearest(key, [f"algo.args.{name}" for args in read_recorded().values() for name in args])
    return f"no such key{f'; did you mean {near}?' if near else ''}"


def _list_owners(key: str) -> list[str]:
    """`group=option` for each option that has the key; the task inside another task is chosen as task@task.of."""
    if key.startswith("algo.args."):
        return [f"algo={algo}" for algo in ALGORITHMS if key.removeprefix("algo.args.") in read_recorded()[algo]]
    choice = "task.of" if key.startswith("task.of.") else key.partition(".")[0]
    group, rest = choice.partition(".")[0], key.removeprefix(choice)
    options = [option for name, option in _list_options() if name == group]
    return [f"{choice}={option}" for option in options if f"{group}{rest}" in _list_option(group, option)]


@cache
def _list_options() -> list[tuple[str, str]]:
    files = sorted((ROOT / "conf").glob("*/*.yaml"))
    return [(file.parent.name, file.stem) for file in files if file.parent.name not in ("experiment", "loss_type")]


@cache
def _list_option(group: str, option: str) -> tuple[str, ...]:
    """The keys that conf/<group>/<option>.yaml sets, and those of the mappings that hold them."""
    text = (ROOT / "conf" / group / f"{option}.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text) or {}
    if text.startswith("# @package _global_"):  # it sets keys of other groups too
        values = values.get(group, {})
    return tuple(_flatten({key: value for key, value in values.items() if key != "defaults"}, f"{group}."))


def _flatten(values: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, value in values.items():
        yield f"{path}{name}"
        if isinstance(value, dict):
            yield from _flatten(value, f"{path}{name}.")
