"""From YAML to a checked `Config`.

    cfg = compose_config(["algo=grpo", "task=countdown", "max_tokens=64"])
    cfg.eval.rows, cfg.algo.args["beta"]

The keys stand in schema.py. TRL's arguments, under `algo.args`, are checked by trl_args.py.
"""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp import device, files
from rlhf_exp.checks import find_problem, show, suggest
from rlhf_exp.combinations.conflicts import find_conflicts
from rlhf_exp.schema import Config

__all__ = ["ROOT", "Config", "ConfigError", "compose_config", "parse"]

_PACKAGE = Path(__file__).resolve().parent
# An installed wheel carries conf/ and sweeps/ inside the package; a checkout has them beside it.
ROOT = _PACKAGE if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent


class ConfigError(Exception):
    """A user's mistake. `problems` holds one line for each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


def compose_config(overrides: Iterable[str] = ()) -> Config:
    """Compose the shipped configs with `overrides` and check them, as the command line does."""
    device.register_resolvers()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return parse(compose("config", list(overrides)))


def parse(cfg: DictConfig) -> Config:
    """Check everything that needs no ML library.

    Raises:
        ConfigError: unknown keys, then wrong types, then values out of range; where there are none, what does
            not go together, then files that are missing or cannot be written.
    """
    try:
        values = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError([f"{error.full_key or 'config'}: {str(error).splitlines()[0]}"]) from None
    problems: dict[str, list[str]] = {"unknown": [], "type": [], "range": []}
    config = _read(Config, values, "", problems)
    found = [line for lines in problems.values() for line in lines]
    found = found or list(dict.fromkeys(find_conflicts(config) + files.find_missing_files(config)))
    if found:
        raise ConfigError(found)
    return config


def known_keys() -> list[str]:
    """Every key that the command line can override, dotted, and the groups that have no keys of their own."""
    keys = _list_keys(Config, "")
    args = OmegaConf.load(ROOT / "conf" / "algo" / "grpo.yaml").args
    at = keys.index("algo.args") + 1
    return [*keys[:at], *(f"algo.args.{name}" for name in args), *keys[at:], "loss_type", "experiment"]


def refuse_key(key: str) -> str:
    """Why `key` is refused, with the nearest that exists: among its neighbours, then among all."""
    known = known_keys()
    if key in known:  # of another option of its group
        group, options = _list_owners(key)
        names = [name for schema in options for name in get_args(get_type_hints(schema)["name"])]
        return f"a key of {' and '.join(f'{group}={name}' for name in names)} alone"
    neighbours = [name for name in known if name.rpartition(".")[0] == key.rpartition(".")[0]]
    return f"no such key{suggest(key, neighbours) or suggest(key, known)}"


def _read(schema: type, values: Any, path: str, problems: dict[str, list[str]]) -> Any:
    """Fill the dataclass from `values`; what does not fit goes to `problems` and leaves None."""
    if not isinstance(values, dict):
        problems["type"].append(f"{path.rstrip('.')}={show(values)}: must be a mapping")
        return None
    hints, read = get_type_hints(schema), {}
    for name in [name for name in values if name not in hints]:
        problems["unknown"].append(f"{path}{name}={show(values[name])}: {refuse_key(f'{path}{name}')}")
    for item in fields(schema):
        key = path + item.name
        if item.name not in values:
            problems["unknown"].append(f"{key}: missing; it has no default")
        elif schemas := _schemas(hints[item.name]):
            absent = values[item.name] is None and type(None) in get_args(hints[item.name])
            if not absent and (problem := _refuse_option(schemas, values[item.name], key)):
                problems["type"].append(problem)
            elif not absent:
                read[item.name] = _read(_choose(schemas, values[item.name]), values[item.name], f"{key}.", problems)
            else:
                read[item.name] = None
        else:
            problem = find_problem(key, values[item.name], hints[item.name], item.metadata.get("range"))
            read[item.name] = values[item.name]
            if problem:
                problems[problem[0]].append(problem[1])
    return None if any(problems.values()) else schema(**read)


def _list_keys(schema: type, path: str) -> list[str]:
    hints, keys = get_type_hints(schema), []
    for item in fields(schema):
        keys.append(path + item.name)
        for schema_of in _schemas(hints[item.name]):
            keys += _list_keys(schema_of, f"{path}{item.name}.")
    return list(dict.fromkeys(keys))


def _list_owners(key: str) -> tuple[str, list[type]]:
    """The innermost group with options that `key` lies in (task, or task.of), and those of its options that have it."""
    group, options, schemas, parts = "", [], [Config], key.split(".")
    for depth, part in enumerate(parts[:-1], 1):
        hints = [get_type_hints(schema).get(part) for schema in schemas]
        schemas = [nested for hint in hints for nested in _schemas(hint)]
        if len(schemas) > 1:
            own = ".".join(parts[depth:])
            group, options = ".".join(parts[:depth]), [s for s in schemas if own in _list_keys(s, "")]
    return group, options


def _schemas(hint: Any) -> list[type]:
    """The dataclasses that a key may hold: one, several (a task's), or none."""
    return [part for part in (hint, *get_args(hint)) if is_dataclass(part)]


def _refuse_option(schemas: list[type], value: Any, key: str) -> str | None:
    """The line for a group that is none of its options: another name, or a name alone."""
    if len(schemas) == 1:
        return None
    names = [name for schema in schemas for name in get_args(get_type_hints(schema)["name"])]
    if value in names:  # inside a group, the choice of an option is written with the place it goes to
        return f"{key}={value}: must be a mapping; did you mean {key.partition('.')[0]}@{key}={value}?"
    if not isinstance(value, dict):
        return None
    problem = find_problem(f"{key}.name", value.get("name"), Literal[tuple(names)])
    return problem and problem[1]


def _choose(schemas: list[type], values: Any) -> type:
    """Of several dataclasses the one that `name` means."""
    name = values.get("name") if isinstance(values, dict) else None
    named = [schema for schema in schemas if name in get_args(get_type_hints(schema).get("name"))]
    return (named or schemas)[0]
