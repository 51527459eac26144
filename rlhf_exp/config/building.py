"""Makes the dataclasses of the schema from checked values.

build(Config, {"seed": 0, ...})
"""

from dataclasses import is_dataclass
from functools import cache
from typing import Any, Literal, get_args, get_type_hints

from rlhf_exp.config.values import find_problems
from rlhf_exp.errors import Problem

get_hints = cache(get_type_hints)


def build(schema: Any, values: dict[str, Any]) -> Any:
    """The dataclass of values that have been checked."""
    hints, read = get_hints(schema), {}
    for name, value in values.items():
        options = schemas(hints[name])
        read[name] = build(choose(options, value), value) if options and value is not None else value
    return schema(**read)


def choose(options: list[type], value: Any, key: str = "") -> type | Problem:
    """The dataclass that `name` in the value of a group selects, or what is wrong with a value that selects none."""
    named = {name: schema for schema in options for name in get_args(get_hints(schema).get("name"))}
    if len(options) == 1 or not isinstance(value, dict) and value not in list(named):
        return options[0]
    if not isinstance(value, dict):  # within a group, an option is chosen as OPTION@PLACE
        return Problem(key, "type", value, f"a mapping; did you mean {key.partition('.')[0]}@{key}={value}?")
    wrong = find_problems(f"{key}.name", value.get("name"), Literal[tuple(named)])
    return wrong[0] if wrong else named[value["name"]]


def schemas(hint: Any) -> list[type]:
    """The dataclasses that a key may hold: one, several (for `task`), or none."""
    return [part for part in (hint, *get_args(hint)) if isinstance(part, type) and is_dataclass(part)]
