"""Misspells, mistypes and exceeds every key: each mistake must be refused in one line that names the key.

    python bench/fuzz_config.py                 # all of it: minutes
    python bench/fuzz_config.py --share 20      # every twentieth case, by a fixed order

The keys are those of every YAML file in conf/ and every TRL argument of every algorithm. Each case passes through the
steps of the command line in this process: overrides, Hydra, checks. Prints the counts and each case that was not
refused as it should be; exits with 1 if there is one.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config import ROOT, compose
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.config.values import get_hints, list_groups
from rlhf_exp.errors import ConfigError
from rlhf_exp.launch.explain import explain

GROUPS = ("algo", "task", "model", "peft", "reward", "generation", "device", "logging", "monitor", "eval")
FREE = ("reward.weights", "reward.functions", "model.init", "peft.quantization", "model.learning_rate")
"""Mappings whose entries are not of the schema, or whose values may be text or numbers."""
NEEDS = {"dpo": ["reward=none"], "sft": ["reward=none"], "reward_model": ["reward=none"],
         "distill": ["teacher.path=org/name"]}  # fmt: skip
LONG = 10**18


@dataclass(frozen=True)
class Case:
    kind: str
    overrides: tuple[str, ...]
    key: str


def list_cases(seed: int = 0) -> list[Case]:
    """All cases in a fixed random order, so that any share of them is a sample."""
    cases = [case for choice in list_choices() for case in _vary_keys(choice)]
    cases += [case for algo, row in ALGORITHMS.items() if row.trains for case in _vary_arguments(algo)]
    cases = list(dict.fromkeys(cases))
    random.Random(seed).shuffle(cases)
    return cases


def list_choices() -> list[tuple[str, ...]]:
    """The options of every group, one at a time."""
    found = [()]
    for group in GROUPS:
        for file in sorted((ROOT / "conf" / group).glob("*.yaml")):
            needs = [*NEEDS.get(file.stem, []), *(["algo=dpo"] if f"{group}={file.stem}" == "task=hh_rlhf" else [])]
            found.append((f"{group}={file.stem}", *needs))
    return found


def check(case: Case) -> str | None:
    """What is not as wanted, None where all is."""
    try:
        compose.compose_config(["device=cpu", *case.overrides])
    except ConfigError as error:
        lines = error.problems
    except (HydraException, OmegaConfBaseException) as error:
        lines = [explain(error, case.overrides)]
    else:
        return "was accepted"
    if len(lines) != 1 or "\n" in lines[0]:
        return f"{len(lines)} lines: {lines}"
    if case.kind == "misspelt":
        named = lines[0].partition("did you mean ")[2].removesuffix("?")
        return None if case.key in (named, f"algo.args.{named}") else f"not named: {lines[0]}"
    return None if case.key in lines[0] else f"another key: {lines[0]}"


def misspell(key: str, rng: random.Random) -> Iterator[str]:
    """One letter of the last part dropped, doubled, and changed for its neighbour."""
    place, dot, end = key.rpartition(".")
    if len(end) < 3:
        return
    at = rng.randrange(1, len(end) - 1)
    swapped = end[: at - 1] + end[at] + end[at - 1] + end[at + 1 :]
    for typed in (end[:at] + end[at + 1 :], end[:at] + end[at] + end[at:], swapped):
        if typed != end:
            yield place + dot + typed


def _vary_keys(choice: tuple[str, ...]) -> Iterator[Case]:
    values = _compose(choice)
    group = choice[0].partition("=")[0] if choice else ""
    known = dict(_flatten(values))
    for key, hint in _list_fields(Config, values, ""):
        inside = key == group or key.startswith(f"{group}.")
        elsewhere = not inside if group else "." in key and key.partition(".")[0] in GROUPS
        if elsewhere or key == "algo.args":
            continue
        rng = random.Random(f"{choice} {key}")
        if not key.endswith(".name") and key not in ("dry_run",):
            for typed in misspell(key, rng):
                if typed not in known:
                    yield Case("misspelt", (*choice, f"{typed}=1"), key)
        if key in FREE or key.endswith((".name", ".args")) or list_groups(hint):
            continue
        for kind, text in _wrong_values(hint):
            yield Case(kind, (*choice, f"{key}={text}"), key)


def _vary_arguments(algo: str) -> Iterator[Case]:
    known = load_arguments(algo)
    choice = (f"algo={algo}", *NEEDS.get(algo, []))
    for name, argument in known.items():
        key, rng = f"algo.args.{name}", random.Random(f"{algo} {name}")
        if "token" not in name:
            for typed in misspell(name, rng):
                if typed not in known:
                    yield Case("misspelt", (*choice, f"algo.args.{typed}=1"), key)
                    yield Case("misspelt", (*choice, f"+algo.args.{typed}=1"), key)
        if name == "loss_type":
            continue
        for kind, text in _wrong_values(argument.annotation):
            yield Case(kind, (*choice, f"++{key}={text}"), key)


def _wrong_values(hint: Any) -> Iterator[tuple[str, str]]:
    """(kind, text of the override) that no key of this type takes."""
    parts = list(_list_types(hint))
    text = any(part is str for part in parts)
    number = any(part in (int, float) for part in parts)
    if not text and not any(part is dict or get_origin(part) is dict for part in parts):
        yield "mistyped", "nonsense"
    if not any(part is bool for part in parts) and not any(
        get_origin(p) is Literal and True in get_args(p) for p in parts
    ):
        yield "mistyped", "true"
    if not any(get_origin(part) is list for part in parts):
        yield "mistyped", "[1,x]"
    if not number:
        yield "mistyped", "3.75"
    if number:
        yield from (("out of range", value) for value in ("nan", "inf", f"-{LONG}", f"{LONG}"))
    if text:
        yield "mistyped", "''"


def _list_types(hint: Any) -> Iterator[Any]:
    """The types of a union, without their bounds and null."""
    if get_origin(hint) is Annotated:
        yield from _list_types(get_args(hint)[0])
    elif get_origin(hint) in (Union, UnionType):
        yield from (part for option in get_args(hint) for part in _list_types(option))
    elif hint is not type(None):
        yield hint


def _list_fields(schema: type, values: Any, path: str) -> Iterator[tuple[str, Any]]:
    hints = get_hints(schema)
    for name in schema.__dataclass_fields__:
        if not isinstance(values, dict) or name not in values:
            continue
        key = path + name
        yield key, hints[name]
        options = list_groups(hints[name])
        chosen = values[name].get("name") if isinstance(values[name], dict) else None
        named = [o for o in options if chosen in get_args(get_hints(o).get("name"))] or options
        if named:
            yield from _list_fields(named[0], values[name], f"{key}.")


def _flatten(values: dict, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        yield path + str(name), value
        if isinstance(value, dict):
            yield from _flatten(value, f"{path}{name}.")


@cache
def _compose(choice: tuple[str, ...]) -> dict:
    return OmegaConf.to_container(compose.compose_files(["device=cpu", *choice])[0], resolve=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=int, default=1, help="every how many cases one is tried")
    cases = list_cases()[:: parser.parse_args().share]
    tried, wrong = Counter(case.kind for case in cases), Counter()
    for case in cases:
        if problem := check(case):
            wrong[case.kind] += 1
            print(f"{case.kind}: {' '.join(case.overrides)}: {problem}")
    for kind in sorted(tried):
        print(f"{kind}: {tried[kind]} tried, {wrong[kind]} not as wanted")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
