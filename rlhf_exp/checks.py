"""Does a value fit: its type, its range, its name. Pure functions; an annotation is a field's type hint.

    find_problem("max_tokens", 0, int, ">= 1")  ->  "max_tokens=0: must be a whole number >= 1"

A range is written as it is shown: ">= 1", "> 0, <= 1", ">= 1 or -1".
"""

import enum
import math
import operator
import types
import typing
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

MANY = 12  # a message lists at most so many valid names

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "a mapping",
    type(None): "null",
}


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of `names`, compared by their last dotted part: `beta` finds `algo.args.beta`."""
    ends: dict[str, str] = {}
    for known in names:
        ends.setdefault(known.rpartition(".")[2], known)
    end = name.rpartition(".")[2]
    begun = [known for known in ends if len(end) > 2 and known.startswith(end)]
    near = begun or get_close_matches(end, ends, n=1, cutoff=0.7)
    return ends[near[0]] if near else None


def suggest(name: Any, names: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing where no name is near."""
    near = nearest(name, names) if isinstance(name, str) else None
    return f"; did you mean {near}?" if near else ""


def find_problem(key: str, value: Any, annotation: Any, bounds: str | None = None) -> tuple[str, str] | None:
    """(kind, line) where `value` does not fit, else None. Kind is "type" or "range"."""
    if not fits(value, annotation):
        kind = "type"
    elif bounds and not all(in_range(number, bounds) for number in _numbers(value)):
        kind = "range"
    else:
        return None
    allowed = describe(annotation, bounds)
    return kind, f"{key}={show(value)}: must be {allowed}{suggest(value, choices(annotation))}"


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value from YAML is of the type. True is not a number; 1 is a float, NaN is not."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in _closed(args))
    if origin is typing.Literal:
        return any(type(value) is type(option) and value == option for option in args)
    if origin is list:
        return isinstance(value, list) and all(fits(item, args[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(item, args[1]) for item in value.values())
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return value in choices(annotation)
    if annotation is float:
        return type(value) in (int, float) and not math.isnan(value)
    return type(value) is annotation


def choices(annotation: Any) -> list[str]:
    """The texts that a Literal, an enum, or a union of them allows."""
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return [str(member.value) for member in annotation]
    if typing.get_origin(annotation) is typing.Literal:
        return [show(option) for option in typing.get_args(annotation)]
    return [choice for part in typing.get_args(annotation) for choice in choices(part)]


def describe(annotation: Any, bounds: str | None = None) -> str:
    """What is allowed, in words: `a whole number >= 1 or null`."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    limit = f" {bounds}" if bounds else ""
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe(part, bounds) for part in _closed(args))
    if origin is list:
        return f"a list, each {describe(args[0], bounds)}"
    if origin is dict:
        return f"a mapping, each value {describe(args[1], bounds)}"
    options = choices(annotation)
    if options:
        more = f", ... ({len(options)} names)" if len(options) > MANY else ""
        return f"one of {', '.join(options[:MANY])}{more}"
    if annotation in (int, float):
        return _WORDS[annotation] + limit
    return _WORDS.get(annotation) or getattr(annotation, "__name__", "a value")


def in_range(number: float, bounds: str) -> bool:
    """Whether a finite number satisfies `bounds`: alternatives joined by "or", conditions by a comma."""
    return abs(number) != math.inf and any(
        all(_holds(number, condition) for condition in part.split(",")) for part in bounds.split(" or ")
    )


def show(value: Any, most: int = 80) -> str:
    """A value as the command line would take it, on one line and not too long."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        value = f"[{', '.join(show(item) for item in value)}]"
    text = " ".join(str(value).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _holds(number: float, condition: str) -> bool:
    sign, _, limit = condition.strip().rpartition(" ")
    return _COMPARE[sign](number, float(limit)) if sign else number == float(limit)


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    items = value if isinstance(value, list) else [value]
    return [item for item in items if type(item) in (int, float)]


def _closed(parts: tuple) -> list:
    """The parts of a union. Beside an enum `str` only spells its members, as in `SchedulerType | str`."""
    has_enum = any(isinstance(part, type) and issubclass(part, enum.Enum) for part in parts)
    return [part for part in parts if not (has_enum and part is str)]
