"""Checks whether a value fits: its type, its range, its name. Pure functions; an annotation is a field's type hint.

    >>> find_problems("max_tokens", 0, int, ">= 1")
    ['max_tokens=0: must be a whole number >= 1']

A range is written as it is shown: ">= 1", "> 0, <= 1", ">= 1 or -1".
"""

import math
import operator
import types
import typing
from collections.abc import Collection, Iterable
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from typing import Any, NamedTuple

from rlhf_exp.errors import Problem, show

# Upper bounds are far above any value in use, so that a value beyond them is a typing mistake.
SEED = ">= 0, <= 4294967295"  # the range that numpy accepts
TOKENS, ROWS, BATCH, STEPS = ">= 1, <= 1000000", ">= 1, <= 10000000", ">= 1, <= 65536", ">= 0, <= 10000000"
COMPLETIONS, PRICE, RATE = ">= 1, <= 1024", ">= 0, <= 1000", ">= 1e-12, <= 1"
"""Of a rate: with a smaller one no float32 weight of a usual size ever changes."""

MANY = 12  # the most valid names in a message

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "": operator.eq}
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "a mapping",
    type(None): "null",
}
_OTHER_WORDS = {"none": "null", "nil": "null", "yes": "true", "on": "true", "no": "false", "off": "false"}


class Within(NamedTuple):
    """The range of a key of ours, as `Annotated[int, Within(">= 1")]`; of a list or mapping, that of each number."""

    bounds: str


@cache
def list_bounds(schema: type) -> dict[str, str]:
    """The bounds of those keys of a dataclass that have some."""
    hints: dict[str, Any] = typing.get_type_hints(schema, include_extras=True)
    parts = [(name, part) for name, hint in hints.items() for part in getattr(hint, "__metadata__", ())]
    return {name: part.bounds for name, part in parts if isinstance(part, Within)}


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of `names`, compared by their last dotted part, in upper or lower case, of equally near
    ones that in the most similar place.

    >>> nearest("BTA", ["seed", "algo.args.beta"])
    'algo.args.beta'
    """
    ends: dict[str, list[str]] = {}
    for known in names:
        ends.setdefault(known.rpartition(".")[2].casefold(), []).append(known)
    place, _, end = name.casefold().rpartition(".")
    found = [known for last in get_close_matches(end, ends, n=1, cutoff=0.65) for known in ends[last]]
    return max(found, key=lambda known: SequenceMatcher(None, place, known.rpartition(".")[0]).ratio(), default=None)


def suggest(name: Any, names: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing if no name is near.

    >>> suggest("learning_rat", ["learning_rate", "seed"])
    '; did you mean learning_rate?'
    """
    near = nearest(name, names) if isinstance(name, str) else None
    return f"; did you mean {near}?" if near else ""


def one_of(name: Any, names: Collection[str]) -> str:
    """`must be one of a, b; did you mean b?`"""
    return f"must be one of {', '.join(names)}{suggest(name, names)}"


def find_problems(key: str, value: Any, annotation: Any, bounds: str | None = None) -> list[Problem]:
    """A problem of the kind "type" or "range" if the value does not fit; one for each such entry of a mapping."""
    entry = next((part for part in (annotation, *typing.get_args(annotation)) if typing.get_origin(part) is dict), None)
    if entry is not None and isinstance(value, dict):
        hint = typing.get_args(entry)[1]
        return [found for name, item in value.items() for found in find_problems(f"{key}.{name}", item, hint, bounds)]
    kind = "range" if fits(value, annotation) else "type"
    numbers = [item for item in (value if isinstance(value, list) else [value]) if type(item) in (int, float)]
    if kind == "range" and (bounds is None or all(in_range(number, bounds) for number in numbers)):
        return []
    more = ", and not empty" if value == "" or isinstance(value, list) and "" in value else ""
    texts = choices(annotation, words=True)
    near = suggest(value, texts) or suggest(_OTHER_WORDS.get(str(value).casefold()), texts)
    return [Problem(key, kind, value, f"{describe(annotation, bounds)}{more}{near}")]


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value from YAML is of the type. True is not a number; 1 is also a float; NaN and infinity are not."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any:
        return True
    if annotation is dict:
        return isinstance(value, dict) and _is_finite(value)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in args)
    if origin is typing.Literal:
        return any(type(value) is type(option) and value == option for option in args)
    if origin is list:
        return isinstance(value, list) and all(fits(item, args[0]) for item in value)
    if origin is tuple:
        return isinstance(value, list) and len(value) == len(args) and all(map(fits, value, args))
    if origin is dict:
        return isinstance(value, dict) and all(fits(item, args[1]) for item in value.values())
    if annotation is float:
        return type(value) in (int, float) and _is_finite(value)
    return type(value) is annotation and value != ""


def choices(annotation: Any, words: bool = False) -> list[str]:
    """The texts that a Literal, or a union of Literals, allows; with `words` also true, false and null."""
    if typing.get_origin(annotation) is typing.Literal:
        return [show(option) for option in typing.get_args(annotation)]
    found = [choice for part in typing.get_args(annotation) for choice in choices(part, words)]
    named = {bool: ["true", "false"], type(None): ["null"]} if words else {}
    return found + named.get(annotation if isinstance(annotation, type) else None, [])


def list_names(annotation: Any) -> list[str]:
    """The names that a mapping may hold; empty if it may hold any name, or if it is not a mapping."""
    return choices(typing.get_args(annotation)[0]) if typing.get_origin(annotation) is dict else []


def describe(annotation: Any, bounds: str | None = None) -> str:
    """What is allowed, in words: `a whole number >= 1 or null`."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe(part, bounds) for part in args)
    if origin is list:
        return f"a list, each {describe(args[0], bounds)}"
    if origin is tuple:
        return f"a list of {len(args)}, each {describe(args[0], bounds)}"
    if origin is dict:
        return f"a mapping, each value {describe(args[1], bounds)}"
    if options := choices(annotation):
        more = f", ... ({len(options)} names)" if len(options) > MANY else ""
        return f"one of {', '.join(options[:MANY])}{more}"
    limit = f" {bounds}" if bounds and annotation in (int, float) else ""
    return _WORDS.get(annotation, "a value") + limit


def in_range(number: float, bounds: str) -> bool:
    """Whether a finite number satisfies `bounds`: alternatives joined by "or", conditions by a comma.

    >>> [in_range(number, "> 0, <= 1 or -1") for number in (0, 0.5, 1, -1)]
    [False, True, True, True]
    """

    def holds(condition: str) -> bool:
        sign, _, limit = condition.strip().rpartition(" ")
        return _COMPARE[sign](number, float(limit))

    return abs(number) != math.inf and any(all(map(holds, part.split(","))) for part in bounds.split(" or "))


def _is_finite(value: Any) -> bool:
    """Whether no number in it, at any depth, is NaN or infinite."""
    if isinstance(value, dict | list):
        return all(map(_is_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)
