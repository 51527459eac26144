"""Checks whether a value fits: its type, its range, its name. Pure functions; an annotation is a field's type hint.

    >>> find_problem("max_tokens", 0, int, ">= 1")
    ('range', 'max_tokens=0: must be a whole number >= 1')

A range is written as it is shown: ">= 1", "> 0, <= 1", ">= 1 or -1".
"""

import math
import operator
import re
import types
import typing
from collections.abc import Collection, Iterable
from difflib import SequenceMatcher, get_close_matches
from typing import Any

HIDDEN = "(hidden)"
MANY = 12  # the most valid names in a message

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_COUNT = re.compile(r"(^|_)(max|min|num|train|new|eval)_token$", re.IGNORECASE)  # max_tokens with a letter missing
_SECRET = re.compile(r"(^|_)(token|secrets?|passwords?|passwd|api_?keys?|access_?keys?)$", re.IGNORECASE)
_NO_SECRETS = ("eos_token", "pad_token", "bos_token", "unk_token")  # plain texts for a tokenizer
_NO_SECRETS_IN = ("reward.functions", "reward.weights")  # names that the user gives to rewards
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "a mapping",
    type(None): "null",
}
_OTHER_WORDS = {"none": "null", "nil": "null", "yes": "true", "on": "true", "no": "false", "off": "false"}


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of `names`, compared by their last dotted part, in upper or lower case.

    >>> nearest("BTA", ["seed", "algo.args.beta"])
    'algo.args.beta'

    A name with one typing mistake is preferred to one with the same beginning, and that to one with a similar spelling;
    of equally near names the one in the most similar place, if none is typed in the outermost, then the first.
    """
    ends: dict[str, list[str]] = {}
    for known in names:
        ends.setdefault(known.rpartition(".")[2].casefold(), []).append(known)
    place, _, end = name.casefold().rpartition(".")
    # The same letters in another order or number are nearer than another letter: pf16 is fp16 rather than bf16.
    slips = sorted(
        (known for known in ends if is_slip(end, known)),
        key=lambda known: len(known) == len(end) and sorted(known) != sorted(end),
    )
    begun = [known for known in ends if len(end) > 2 and known.startswith(end)]
    near = [end] if end in ends else slips or begun[:1] or get_close_matches(end, ends, n=1, cutoff=0.7)
    found = [known for last in near for known in ends[last]]
    outer = {known: "." not in known for known in found}
    return max(
        found, key=lambda known: _alike(place, known.rpartition(".")[0]) if place else outer[known], default=None
    )


def is_slip(typed: str, meant: str) -> bool:
    """Whether one letter is added, missing or wrong, or two neighbouring letters are swapped."""
    shorter, longer = sorted((typed, meant), key=len)
    if len(longer) - len(shorter) == 1:
        return any(longer[:i] + longer[i + 1 :] == shorter for i in range(len(longer)))
    if len(longer) != len(shorter):
        return False
    differ = [i for i, (one, other) in enumerate(zip(typed, meant, strict=True)) if one != other]
    if len(differ) == 2:
        i, j = differ
        return j == i + 1 and typed[i] == meant[j] and typed[j] == meant[i]
    return len(differ) == 1 and len(typed) > 2


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


def find_problem(key: str, value: Any, annotation: Any, bounds: str | None = None) -> tuple[str, str] | None:
    """(kind, line) if `value` does not fit, else None. The kind is "type" or "range"."""
    if not fits(value, annotation):
        kind = "type"
    elif bounds and not all(in_range(number, bounds) for number in _numbers(value)):
        kind = "range"
    else:
        return None
    allowed = describe(annotation, bounds)
    finite = isinstance(value, float) or _is_finite(value)
    empty = value == "" or isinstance(value, list) and "" in value
    more = ", and not empty" if empty else "" if finite else ", of finite numbers"
    texts = _list_texts(annotation)
    near = suggest(value, texts) or suggest(_OTHER_WORDS.get(str(value).casefold()), texts)
    return kind, f"{assign(key, value)}: must be {allowed}{more}{near}"


def find_problems(key: str, value: Any, annotation: Any, bounds: str | None = None) -> list[tuple[str, str]]:
    """As `find_problem`, but each entry of a mapping that does not fit has a line of its own."""
    entry = next((part for part in (annotation, *typing.get_args(annotation)) if typing.get_origin(part) is dict), None)
    if entry is None or not isinstance(value, dict):
        found = [find_problem(key, value, annotation, bounds)]
    else:
        hint = typing.get_args(entry)[1]
        found = [find_problem(f"{key}.{name}", item, hint, bounds) for name, item in value.items()]
    return [problem for problem in found if problem]


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


def choices(annotation: Any) -> list[str]:
    """The texts that a Literal, or a union of Literals, allows."""
    if typing.get_origin(annotation) is typing.Literal:
        return [show(option) for option in typing.get_args(annotation)]
    return [choice for part in typing.get_args(annotation) for choice in choices(part)]


def _list_texts(annotation: Any) -> list[str]:
    """All texts that are meant where one of them is typed with a mistake: choices, and true, false and null."""
    parts = {annotation, *typing.get_args(annotation)}
    return [
        *choices(annotation),
        *(["true", "false"] if bool in parts else []),
        *(["null"] if type(None) in parts else []),
    ]


def find_pattern_problem(pattern: str) -> str | None:
    """Why a text is no regular expression; None if it is one."""
    try:
        re.compile(pattern)
    except re.error as error:
        return f"no regular expression, {error}"
    return None


def list_names(annotation: Any) -> list[str]:
    """The names that a mapping may hold; empty if it may hold any name, or if it is not a mapping."""
    return choices(typing.get_args(annotation)[0]) if typing.get_origin(annotation) is dict else []


def describe(annotation: Any, bounds: str | None = None) -> str:
    """What is allowed, in words: `a whole number >= 1 or null`."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    limit = f" {bounds}" if bounds else ""
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe(part, bounds) for part in args)
    if origin is list:
        return f"a list, each {describe(args[0], bounds)}"
    if origin is tuple:
        return f"a list of {len(args)}, each {describe(args[0], bounds)}"
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
    """Whether a finite number satisfies `bounds`: alternatives joined by "or", conditions by a comma.

    >>> [in_range(number, "> 0, <= 1 or -1") for number in (0, 0.5, 1, -1)]
    [False, True, True, True]
    """
    return abs(number) != math.inf and any(
        all(_holds(number, condition) for condition in part.split(",")) for part in bounds.split(" or ")
    )


def show(value: Any, most: int = 80) -> str:
    """A value as the command line would take it, on one line and not too long; a secret in a mapping is hidden.

    >>> show({"path": None, "hub_token": "hf_x", "sizes": [1, 2.5]})
    '{path: null, hub_token: (hidden), sizes: [1, 2.5]}'
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        value = f"[{', '.join(show(item) for item in value)}]"
    if isinstance(value, dict):
        items = (f"{name}: {HIDDEN if is_secret(name) else show(item)}" for name, item in value.items())
        value = f"{{{', '.join(items)}}}"
    text = " ".join(str(value).split()) or "''"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def assign(key: str, value: Any) -> str:
    """`key=value` as it would be typed, a secret hidden."""
    return f"{key}={HIDDEN if is_secret(key) else show(value)}"


def is_secret(key: Any) -> bool:
    """Whether the name of a key, dotted or not, is that of a secret."""
    place, _, end = str(key).rpartition(".")
    named = _SECRET.search(end) and not _COUNT.search(end)
    return bool(named) and end not in _NO_SECRETS and place not in _NO_SECRETS_IN


def _alike(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def _is_finite(value: Any) -> bool:
    """Whether no number in it, at any depth, is NaN or infinite."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _holds(number: float, condition: str) -> bool:
    sign, _, limit = condition.strip().rpartition(" ")
    return _COMPARE[sign](number, float(limit)) if sign else number == float(limit)


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    items = value if isinstance(value, list) else [value]
    return [item for item in items if type(item) in (int, float)]
