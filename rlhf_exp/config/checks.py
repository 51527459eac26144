"""Checks the values of a composed config, makes a `Config` of them, and tries remedies on a finished run's config.

check_types(values)                         # a problem for each unknown key, wrong type and value out of range
build(Config, values)                       # of values without problems
choose_remedy(config, ["+algo.args.entropy_coef=0.01", "algo.args.learning_rate=5e-05"])    # the first that passes
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, Literal

import yaml
from omegaconf import OmegaConf

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config import ROOT
from rlhf_exp.config.keys import explain_key, name_key
from rlhf_exp.config.rules import find_conflicts
from rlhf_exp.config.schema import TASKS, Config
from rlhf_exp.config.trl_arguments import get_arguments_type
from rlhf_exp.config.values import build, find_problems
from rlhf_exp.errors import Problem, explain_secret, is_secret

PlainConfig = dict[str, Any]
"""A resolved config, as plain dicts and lists."""

_SPACE = re.compile(r" (?=\+*[\w.]+=)")
"""Between two overrides of one text."""


def check_values(values: PlainConfig) -> Sequence[str]:
    """The problems of a resolved config as plain dicts, without looking at any file."""
    return check_types(values) or find_conflicts(build(Config, values))


def check_types(values: PlainConfig, skipped: Collection[str] = ()) -> list[Problem]:
    """A problem for each key that does not exist, then for each value of another type, then for each out of range.

    Args:
        values: of the config. A value that is not resolved yet is not checked.
        skipped: names in `algo.args` that are not checked.
    """
    algo: Any = values.get("algo")
    name: Any = algo.get("name") if isinstance(algo, dict) else None
    problems = [*find_problems("", values, Config), *_check_sets(values.get("eval"))]
    if name in ALGORITHMS and isinstance(algo["args"], dict):
        args = {key: value for key, value in algo["args"].items() if key not in skipped}
        problems += _check_args(name, args)
    explained = [_explain_unknown(problem, name) if problem.kind == "unknown" else problem for problem in problems]
    resolved = [problem for problem in explained if not _is_reference(problem.value)]
    return sorted(resolved, key=lambda problem: {"type": 1, "range": 2}.get(problem.kind, 0))


def _check_sets(measured: Any) -> Iterator[Problem]:
    """Problems of the task, its keys and the reward of each evaluation set."""
    sets = measured.get("sets") if isinstance(measured, dict) else None
    for name, values in sets.items() if isinstance(sets, dict) else ():
        if isinstance(values, dict):  # else it has been told
            place, task = f"eval.sets.{name}", values.get("task")
            wrong = find_problems(f"{place}.task", task, Literal[(*TASKS,)])
            yield from [*wrong, *find_problems(f"{place}.reward", values.get("reward"), str | None)]
            keys = {key: value for key, value in values.items() if key not in ("task", "reward")}
            yield from () if wrong else find_problems(place, {"name": task, **keys}, TASKS[str(task)])


def _is_reference(value: Any) -> bool:
    """Whether a value, or one in a list, is not resolved yet."""
    return any(isinstance(item, str) and "${" in item for item in (value if isinstance(value, list) else [value]))


def _check_args(algo: str, args: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of TRL's arguments. Those of another algorithm's loss, whose file may set other arguments too, are left
    to rules/algorithm.py."""
    losses, chosen = ALGORITHMS[algo].losses, args.get("loss_type", [])
    has_own_loss = not losses or {*(chosen if isinstance(chosen, list) else [chosen])} <= {*losses}
    for problem in find_problems("algo.args", args, get_arguments_type(algo)):
        if has_own_loss or problem.kind != "unknown" and problem.key != "algo.args.loss_type":
            yield problem


def _explain_unknown(problem: Problem, algo: str) -> Problem:
    """With the reason why there is no such key; a secret is not shown."""
    if is_secret(problem.key):
        return explain_secret(problem.key)
    return Problem(problem.key, "unknown", problem.value, explain_key(problem.key, algo))


def choose_remedy(config: PlainConfig, candidates: Iterable[str]) -> str | None:
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


def join_remedies(config: PlainConfig, remedies: Iterable[str]) -> list[str]:
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


def _chooses_group(config: PlainConfig, override: str) -> bool:
    """Whether it chooses an option whose values are not known here."""
    return isinstance(config.get(key := name_key(override)), dict) and key != "reward"


def apply(config: PlainConfig, override: str) -> PlainConfig:
    """A copy of the resolved config with the override."""
    key, _, text = override.lstrip("+").partition("=")
    values: dict[str, Any] = {key: _read_value(text)}
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
    return changed


@cache
def _read_value(text: str) -> Any:
    read: Any = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={text}"]))
    return read["value"]
