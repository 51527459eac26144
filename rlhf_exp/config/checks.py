"""Checks the values of a composed config, makes a `Config` of them, and tries remedies on a finished run's config.

check_types(values)                         # a problem for each unknown key, wrong type and value out of range
build(Config, values)                       # of values without problems
choose_remedy(config, ["+algo.args.entropy_coef=0.01", "algo.args.learning_rate=5e-05"])    # the first that passes
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Literal, get_args

import yaml
from omegaconf import OmegaConf

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config import ROOT
from rlhf_exp.config.building import build, choose, get_hints, schemas
from rlhf_exp.config.keys import explain_key, name_key
from rlhf_exp.config.rules import find_conflicts
from rlhf_exp.config.rules.arguments import COPIES
from rlhf_exp.config.schema import TASKS, Config
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.config.values import find_problems, list_bounds, list_names, suggest
from rlhf_exp.errors import Problem, explain_secret, is_secret

_SPACE = re.compile(r" (?=\+*[\w.]+=)")
"""Between two overrides of one text."""


def check_values(values: dict[str, Any]) -> Sequence[str]:
    """The problems of a resolved config as plain dicts, without looking at any file."""
    return check_types(values) or find_conflicts(build(Config, values))


def check_types(values: dict[str, Any], skipped: Collection[str] = ()) -> list[Problem]:
    """A problem for each key that does not exist, then for each value of another type, then for each out of range.

    Args:
        values: of the config. A value that is not resolved yet is not checked.
        skipped: names in `algo.args` that are not checked.
    """
    algo = values.get("algo")
    name = algo.get("name", "grpo") if isinstance(algo, dict) else "grpo"
    found = [*_check_group(Config, values, "", name), *_check_sets(values.get("eval"), name)]
    if name in ALGORITHMS and isinstance(algo, dict) and isinstance(algo.get("args"), dict):
        args = {name: value for name, value in algo["args"].items() if name not in skipped}
        found += _check_args(name, args, algo)
    return sorted(found, key=lambda problem: {"type": 1, "range": 2}.get(problem.kind, 0))


def _check_group(schema: type, values: Any, path: str, algo: str) -> Iterator[Problem]:
    """Problems of the values that a dataclass is to be made of."""
    if not isinstance(values, dict):
        yield Problem(path.rstrip("."), "type", values, "a mapping")
        return
    hints, known = get_hints(schema), {item.name for item in fields(schema)}
    for name in [name for name in values if name not in known]:
        key = f"{path}{name}"
        of_set = f"no such key{suggest(key, [path + other for other in known])}"
        why = of_set if path.startswith("eval.sets.") else explain_key(key, algo)
        yield Problem(key, "unknown", values[name], why)
    for item in fields(schema):
        key, hint, value = path + item.name, hints[item.name], values.get(item.name)
        if item.name not in values:
            if item.default is MISSING:
                yield Problem(key, "missing", hint="missing; it has no default")
        elif _is_reference(value) or value is None and type(None) in get_args(hint):
            continue
        elif options := schemas(hint):
            chosen = choose(options, value, key)
            yield from (chosen,) if isinstance(chosen, Problem) else _check_group(chosen, value, f"{key}.", algo)
        else:
            if isinstance(value, dict):
                value = {name: part for name, part in value.items() if not _is_reference(part)}
                names = list_names(hint)
                for name in [name for name in value if names and name not in names]:
                    unknown = f"{key}.{name}"
                    yield Problem(unknown, "unknown", value.pop(name), explain_key(unknown))
            yield from find_problems(key, value, hint, list_bounds(schema).get(item.name))


def _check_sets(measured: Any, algo: str) -> Iterator[Problem]:
    """Problems of the task, its keys and the reward of each evaluation set."""
    sets = measured.get("sets") if isinstance(measured, dict) else None
    for name, values in sets.items() if isinstance(sets, dict) else ():
        if isinstance(values, dict):  # else it has been told
            place, task, reward = f"eval.sets.{name}.", values.get("task"), values.get("reward")
            wrong = find_problems(f"{place}task", task, Literal[(*TASKS,)])
            yield from [*wrong, *find_problems(f"{place}reward", reward, str | None)]
            keys = {key: value for key, value in values.items() if key not in ("task", "reward")}
            yield from () if wrong else _check_group(TASKS[str(task)], {"name": task, **keys}, place, algo)


def _is_reference(value: Any) -> bool:
    """Whether a value, or one in a list, is not resolved yet."""
    return any(isinstance(item, str) and "${" in item for item in (value if isinstance(value, list) else [value]))


def _check_args(algo: str, args: dict[str, Any], own: Collection[str]) -> Iterator[Problem]:
    """Problems of TRL's arguments; `own` are the algorithm's keys beside `args`."""
    known, losses, chosen = load_arguments(algo), ALGORITHMS[algo].losses, args.get("loss_type", [])
    has_own_loss = not losses or {*(chosen if isinstance(chosen, list) else [chosen])} <= {*losses}
    for name, value in args.items():
        key = f"algo.args.{name}"
        if _is_reference(value):
            continue
        if is_secret(name):
            yield explain_secret(key)
        elif name in known and name not in own:
            if name != "loss_type" or has_own_loss:  # rules/algorithm.py refuses the others
                yield from find_problems(key, value, known[name].annotation, known[name].bounds)
        elif has_own_loss:  # another's file may set arguments of that algorithm
            of_ours = f"not TRL's; use algo.{name}" if name in own and name in known else ""
            yield Problem(key, "unknown", value, of_ours or explain_key(key, algo))


def choose_remedy(config: dict[str, Any], candidates: Iterable[str]) -> str | None:
    """The first of the overrides that the config's checks accept; None if they refuse all.

    Args:
        config: the resolved config as plain dicts.
        candidates: overrides, `key=value` or `+key=value`, or several with a space between them, the best first. The
            choice of a group, such as algo=sft, is taken without a check, since a resolved config does not hold its
            other options.
    """
    before = set(check_values(config))
    for text in candidates:
        changed = config
        for one in _SPACE.split(text):
            changed = changed if _chooses_group(config, one) else apply(changed, one)
        if set(check_values(changed)) <= before:
            return text
    return None


def join_remedies(config: dict[str, Any], remedies: Iterable[str]) -> list[str]:
    """Those of the overrides that can be given together: of two that set one key, or a group and a key in it, the
    first; and none that the config's checks refuse after the others.

    >>> join_remedies({"reward": {"weights": {"x": 1.0}}}, ["reward=outcome", "reward.weights.x=0.25"])
    ['reward=outcome']
    """
    joined: dict[str, str] = {}  # by the key, which ends with a dot
    for text in remedies:
        key = f"{name_key(text)}."
        clashes = any(key.startswith(other) or other.startswith(key) for other in joined)
        if not clashes and choose_remedy(config, [text]):
            joined[key] = text
            config = config if _chooses_group(config, text) else apply(config, text)
    return list(joined.values())


def _chooses_group(config: dict[str, Any], override: str) -> bool:
    """Whether it chooses an option whose values are not known here."""
    return isinstance(config.get(key := name_key(override)), dict) and key != "reward"


def apply(config: dict[str, Any], override: str) -> dict[str, Any]:
    """A copy of the resolved config with the override, which the arguments that are copies of its key follow."""
    key, _, text = override.lstrip("+").partition("=")
    copies = [copy for copy, original in COPIES.items() if original == key and copy in config["algo"]["args"]]
    values: dict[str, Any] = dict.fromkeys((key, *(f"algo.args.{copy}" for copy in copies)), _read_value(text))
    if key in ("loss_type", "reward"):
        option = yaml.safe_load((ROOT / "conf" / key / f"{text}.yaml").read_text(encoding="utf-8"))
        values = {f"algo.args.{name}": value for name, value in option.items()}
    if key == "reward":
        weights = {name: 1.0 if isinstance(weight, str) else weight for name, weight in option["weights"].items()}
        values = {"reward.weights": weights, "reward.functions": {}, "reward.path": None}
    changed = deepcopy(config)
    for place, value in values.items():
        *groups, name = place.split(".")
        inner = changed
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[name] = value
    if key.startswith("reward") and "algo" in changed:
        changed["algo"]["args"]["reward_weights"] = list(changed["reward"]["weights"].values())
    return changed


@cache
def _read_value(text: str) -> Any:
    read: Any = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={text}"]))
    return read["value"]
