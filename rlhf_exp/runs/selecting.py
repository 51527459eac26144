"""Selects and sorts listed runs by what is known about them.

Filter.parse("gain>0.1").keeps(run), Filter.parse("tag=abl*").keeps(run)
sort_runs(runs, "algo.args.beta")
"""

import operator
import re
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from rlhf_exp.config.keys import explain_key, known_keys
from rlhf_exp.config.values import nearest, show
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.figures import write_name
from rlhf_exp.runs.listing import KEYS, ListedRun

COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_FILTER = re.compile(r"([\w.]+)(!=|>=|<=|=|>|<)(.*)")


class Filter(NamedTuple):
    """One condition, such as `status=finished`, `tag=abl*` or `gain>0.1`, and its text."""

    key: str
    sign: str
    value: str
    text: str

    @classmethod
    def parse(cls, text: str) -> "Filter":
        """Read a condition.

        Raises:
            ConfigError: it is none.
        """
        found = _FILTER.fullmatch(text)
        if not found or not found[3]:
            raise ConfigError([f"--filter {text}: must be KEY=VALUE, such as status=finished or algo.args.beta=0.1"])
        key, sign, value = found.groups()
        if sign not in ("=", "!=") and _as_number(value) is None:
            raise ConfigError([f"--filter {text}: {show(value)} is no number; {sign} compares numbers"])
        return cls("tag" if key == "tags" else key, sign, value, text)

    def keeps(self, run: ListedRun) -> bool:
        """Whether the run has the value; * and ? stand for any letters, and numbers are compared as numbers. A run
        without a value is kept only by !=."""
        found = run.read(self.key)
        if self.sign in ("=", "!="):
            return self._equals(found) == (self.sign == "=")
        number, wanted = _as_number(found), _as_number(self.value)
        return number is not None and wanted is not None and COMPARISONS[self.sign](number, wanted)

    def _equals(self, found: Any) -> bool:
        if self.key == "tag":
            return any(fnmatchcase(tag, self.value) for tag in found)
        number, wanted = _as_number(found), _as_number(self.value)
        if number is not None and wanted is not None:
            return number == wanted
        text = write_name(found) if isinstance(found, list | str) else show(found)
        return fnmatchcase(text, self.value)


def check_key(flag: str, key: str, runs: list[ListedRun]) -> None:
    """Refuse a key that neither every run nor the config of any run has, and that no run could have.

    Raises:
        ConfigError: with the nearest valid key.
    """
    if not (key in KEYS or any(key in run.config for run in runs) or key in known_keys()):
        near = nearest(key, KEYS)
        raise ConfigError([f"{flag}: {f'no such key; did you mean {near}?' if near else explain_key(key)}"])


def sort_runs(runs: list[ListedRun], key: str) -> list[ListedRun]:
    """By a key, the smallest first; runs that lack it come before all others."""

    def place(run: ListedRun) -> tuple:
        value = run.read(key)
        number = _as_number(value)
        return (0, 0.0, "") if value is None else (1, number, "") if number is not None else (2, 0.0, str(value))

    return sorted(runs, key=place)


def _as_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
