"""The types of config values, and in words what is wrong with a value that pydantic refuses.

    >>> find_problems("max_tokens", 0, Tokens)
    ['max_tokens=0: must be greater than or equal to 1']

Types are strict: true is no number, text is no number, and NaN, infinity and the empty text are refused.
"""

import re
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import is_dataclass
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from typing import Annotated, Any

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, ValidationError, WrapValidator

from rlhf_exp.errors import Problem, show  # noqa: F401

STRICT = ConfigDict(strict=True, extra="forbid", str_min_length=1, allow_inf_nan=False)


def _keep(value: Any, check: Callable[[Any], Any]) -> Any:
    check(value)
    return value


KEPT = WrapValidator(_keep)
"""Keeps a value as it was typed: 1 stays 1 for a float, and a list stays one for a tuple, so that what a run records
equals what was typed."""

# Upper bounds are far above any value in use, so that a value beyond them is a typing mistake.
Seed = Annotated[int, Field(ge=0, le=4294967295)]  # the range that numpy accepts
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Tokens = Count
Rows = Annotated[int, Field(ge=1, le=10_000_000)]
Batch = Annotated[int, Field(ge=1, le=65_536)]
Steps = Annotated[int, Field(ge=0, le=10_000_000)]
Completions = Annotated[int, Field(ge=1, le=1024)]
Price = Annotated[float, Field(ge=0, le=1000), KEPT]
Positive = Annotated[float, Field(gt=0, le=1000), KEPT]
Weight = Annotated[float, Field(ge=-1000, le=1000), KEPT]
Share = Annotated[float, Field(ge=0, le=1), KEPT]
PositiveShare = Annotated[float, Field(gt=0, le=1), KEPT]
Rate = Annotated[float, Field(ge=1e-12, le=1), KEPT]
"""With a smaller rate no float32 weight of a usual size ever changes."""

_TAGGED = re.compile(r"(.+\.)?(task|of|of\.[^.]+)")
"""Keys whose `name` says which of several dataclasses they hold; behind them pydantic's places name that option."""
_QUOTED = re.compile("'([^']*)'")
_WORDS = ("true", "false", "null")
_OTHER_WORDS = {"none": "null", "nil": "null", "yes": "true", "on": "true", "no": "false", "off": "false"}


class Group:
    """Base of the dataclasses of the schema: a mapping is read as one, and its values are checked strictly."""

    __pydantic_config__ = STRICT

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> Any:
        schema = handler(source)
        found: Any = handler.resolve_ref_schema(schema)
        found["strict"] = False
        return schema


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
    close = get_close_matches(end, ends, n=3, cutoff=0.65)
    close = [last for last in close if sorted(last) == sorted(end)] or close  # two letters in the wrong order
    alike = [known for last in close[:1] for known in ends[last]]
    return max(alike, key=lambda known: SequenceMatcher(None, place, known.rpartition(".")[0]).ratio(), default=None)


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


@cache
def get_hints(schema: Any) -> dict[str, Any]:
    """The type of each key of a dataclass or TypedDict, with its bounds."""
    return typing.get_type_hints(schema, include_extras=True)


def list_groups(hint: Any) -> list[Any]:
    """The dataclasses that a key may hold: one, several (for `algo` and `task`), or none."""
    hint = typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint
    return [part for part in (hint, *typing.get_args(hint)) if isinstance(part, type) and is_dataclass(part)]


@cache
def get_adapter(schema: Any) -> TypeAdapter:
    """What checks a mapping and makes a dataclass or TypedDict of it."""
    return TypeAdapter(schema)


def build(schema: Any, values: Mapping[str, Any]) -> Any:
    """The dataclass of values that have been checked."""
    return get_adapter(schema).validate_python(values)


def find_problems(key: str, value: Any, hint: Any) -> list[Problem]:
    """A problem of the kind "type" or "range" if the value does not fit; one for each such entry of a mapping."""
    try:
        has_own_config = hasattr(hint, "__pydantic_config__")  # as a Group has
        (get_adapter(hint) if has_own_config else TypeAdapter(hint, config=STRICT)).validate_python(value)
    except ValidationError as error:
        return list_problems(error, value, key)
    return []


def list_problems(error: ValidationError, value: Any, key: str = "") -> list[Problem]:
    """What pydantic refuses of the value at `key`, in its words, one problem for each key."""
    by_key: dict[str, list[Problem]] = {}
    for item in error.errors(include_url=False):
        problem = _explain(item, value, key)
        by_key.setdefault(problem.key, []).append(problem)
    problems = []
    for several in by_key.values():  # of a union one for each of its types
        fitting = [problem for problem in several if problem.kind == "range"] or several
        key, kind, value = fitting[0].key, fitting[0].kind, fitting[0].value
        hint = " or ".join(dict.fromkeys(problem.hint for problem in fitting))
        near = suggest(value, _QUOTED.findall(hint)) or suggest(_OTHER_WORDS.get(str(value).casefold(), value), _WORDS)
        problems.append(Problem(key, kind, value, f"{hint}{near if kind == 'type' and value is not None else ''}"))
    return problems


def _explain(item: Any, value: Any, key: str) -> Problem:
    """One of pydantic's errors as a problem. Its place also names options of a union, which are no keys, and items of a
    list, whose problem is that of the list."""
    error, place, said = item["type"], item["loc"], item["msg"]
    option = ""
    for part in place:
        if key != option and _TAGGED.fullmatch(key) and isinstance(value, dict) and part == value.get("name"):
            option = key
        elif isinstance(value, dict) and part in value:
            key, value = f"{key}.{part}".lstrip("."), value[part]
    in_list = any(isinstance(part, int) for part in place)
    if error == "missing" and not in_list:
        return Problem(f"{key}.{place[-1]}".lstrip("."), "missing", hint="missing; it has no default")
    if error in ("unexpected_keyword_argument", "extra_forbidden", "invalid_key") or place[-1:] == ("[key]",):
        return Problem(key, "unknown", value)
    if error.startswith("union_tag"):
        return Problem(f"{key}.name", "type", value.get("name"), f"one of {item['ctx']['expected_tags']}")
    kind = "range" if error.startswith(("greater_than", "less_than")) else "type"
    what = said.removeprefix("Input should be ").partition(" or an instance of ")[0]
    if what == said:  # such as "String should have at least 1 character"
        what = f"a {said.lower()}".replace("should have", "of")
    if error in ("dataclass_type", "dict_type", "model_attributes_type"):
        what = "a mapping, as {key: value}"
    return Problem(key, kind, value, f"{'a list, each ' if in_list else ''}{what}")
