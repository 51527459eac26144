"""Refuses overrides before Hydra reads them: secrets, and overrides that Hydra accepts without any effect.

check_overrides(["+algo.args.hub_token=hf_..."])     # one line each, without the value
"""

import re
from collections.abc import Sequence

from rlhf_exp.errors import Problem, is_secret

_NAMED = re.compile(r"[{,]\s*['\"]?([\w.-]+)['\"]?\s*:")  # the names inside {name: value}
_EMPTY = re.compile(r"([\w.]+)=\{\s*\}")
_OPTION = re.compile(r"\+*(algo|task|task\.of|model|peft|device)\.name=(.*)")


def name_key(override: str) -> str:
    """max_tokens of `+max_tokens=8`"""
    return override.partition("=")[0].strip().lstrip("+~")


def check_overrides(overrides: Sequence[str]) -> list[str]:
    """One line per problem. Hydra writes the typed overrides into a sweep's folder, including any secret."""
    problems: list[str] = [explain_secret(key) for text in overrides for key in _list_keys(text) if is_secret(key)]
    for text in overrides:
        if found := _EMPTY.fullmatch(text):
            why = "changes nothing, for a mapping is merged into what is there"
            problems.append(f"{text}: {why}; take its entries out one by one, ~{found[1]}.NAME")
        if found := _OPTION.fullmatch(text):  # the other keys of the group would contradict the name
            choice = {"task.of": "task@task.of"}.get(found[1], found[1])
            problems.append(f"{text}: does not choose; use {choice}={found[2]}")
    return problems


def explain_secret(key: str) -> Problem:
    """The problem of a secret; it does not hold the value."""
    why = "a secret would be saved in the run's files; use the environment variable HF_TOKEN"
    return Problem(key, "secret", hint=why)


def _list_keys(text: str) -> list[str]:
    """The key of an override, and the keys in its value if that is a mapping; other values are the user's texts."""
    key, value = name_key(text), text.partition("=")[2]
    inside = _NAMED.findall(value) if value.lstrip().startswith(("{", "[")) else []
    return [key] * bool(value) + [f"{key}.{name}" for name in inside]
