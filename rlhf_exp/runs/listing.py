"""Lists the runs below a folder from a few small files of each, so that hundreds take a second; imports no torch.

    listed = list_runs(Path("outputs"))
    listed[0].read("status"), listed[0].read("accuracy"), listed[0].read("eval.rows")
    Filter.parse("gain>0.1").keeps(listed[0])

What looks like a run and cannot be read is listed too, with the reason.
"""

import json
import operator
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from rlhf_exp.config.keys import known_keys, refuse_key
from rlhf_exp.config.values import nearest, one_of, show
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.figures import write_name
from rlhf_exp.runs.load import NotARun, read_config
from rlhf_exp.runs.lock import LOCK, find_owner
from rlhf_exp.runs.settings import flatten

DEPTH = 4
"""How far below the folder runs are looked for; nothing is looked for inside a run."""

STATUSES = ("running", "killed", "finished", "failed", "stopped", "refused", "broken", "foreign")
"""killed: run.json says running, and no process holds the folder. broken: a file that cannot be read. foreign: a folder
that another program has written."""

LABELS = ("name", "algo", "task", "model", "loss_type", "seed", "max_tokens", "steps", "error", "started", "finished")
"""What is read from run.json as it is there."""

KEYS = (*LABELS, "tag", "status", "accuracy", "gain", "run")
"""What can be read of every run beside the keys of its config. accuracy and gain are shares of 1."""

_COMPARE = {"=": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt,
            "<=": operator.le}  # fmt: skip
_FILTER = re.compile(r"([\w.]+)(!=|>=|<=|=|>|<)(.*)")


@dataclass
class Listed:
    """One folder: its run.json, and why it is no run that can be read; its other files are read when they are asked
    for."""

    path: Path
    info: dict = field(default_factory=dict)
    problem: str = ""
    kind: str = ""
    """Its status, if there is a problem."""

    @cached_property
    def status(self) -> str:
        if self.kind:
            return self.kind
        status = self.info["status"]
        return "killed" if status == "running" and find_owner(self.path) is None else status

    @property
    def tags(self) -> list[str]:
        found = self.info.get("tags")
        return [str(tag) for tag in found] if isinstance(found, list) else []

    @cached_property
    def evaluation(self) -> dict:
        try:
            found = json.loads((self.path / "evaluation.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @cached_property
    def config(self) -> dict[str, Any]:
        """The config by dotted key; {} if there is none that can be read."""
        try:
            found = read_config(self.path)
        except NotARun:
            return {}
        return flatten(found) if isinstance(found, dict) else {}

    @property
    def accuracy(self) -> dict | None:
        """Of the trained model; of a finished run that trains nothing, of the start model."""
        side = "trained" if "trained" in self.evaluation or self.status != "finished" else "baseline"
        return _find_interval(self.evaluation, side, "accuracy")

    @property
    def gain(self) -> dict | None:
        """The trained model's accuracy minus the start model's."""
        return _find_interval(self.evaluation, "paired", "difference")

    def read(self, key: str) -> Any:
        """The value of one of KEYS, or of a key of the config; None if it has none."""
        if key in ("accuracy", "gain"):
            return (getattr(self, key) or {}).get("value")
        if key in ("tag", "status", "run"):
            return {"tag": self.tags, "status": self.status, "run": str(self.path)}[key]
        return self.info.get(key) if key in LABELS else self.config.get(key)

    def describe(self) -> dict[str, Any]:
        """Everything but the config, for JSON; accuracy and gain with their intervals."""
        labels = {key: self.info.get(key) for key in LABELS}
        figures = {"accuracy": self.accuracy, "gain": self.gain}
        status = {"run": str(self.path), "status": self.status, "problem": self.problem or None}
        return status | labels | {"tags": self.tags} | figures


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
            ConfigError: it is none, or names a status that does not exist.
        """
        found = _FILTER.fullmatch(text)
        if not found or not found[3]:
            raise ConfigError([f"--filter {text}: must be KEY=VALUE, such as status=finished or algo.args.beta=0.1"])
        key, sign, value = found.groups()
        if key == "status" and "=" in sign and not any(fnmatchcase(status, value) for status in STATUSES):
            raise ConfigError([f"--filter {text}: {one_of(value, STATUSES)}"])
        if sign not in ("=", "!=") and _as_number(value) is None:
            raise ConfigError([f"--filter {text}: {show(value)} is no number; {sign} compares numbers"])
        return cls("tag" if key == "tags" else key, sign, value, text)

    def keeps(self, run: Listed) -> bool:
        """Whether the run has the value; * and ? stand for any letters, and numbers are compared as numbers. A run
        without a value is kept only by !=."""
        found = run.read(self.key)
        if self.sign == "!=":
            return not self._equals(found)
        if self.sign == "=":
            return self._equals(found)
        number = _as_number(found)
        return number is not None and _COMPARE[self.sign](number, _as_number(self.value))

    def _equals(self, found: Any) -> bool:
        if self.key == "tag":
            return any(fnmatchcase(tag, self.value) for tag in found)
        number, wanted = _as_number(found), _as_number(self.value)
        if number is not None and wanted is not None:
            return number == wanted
        text = write_name(found) if isinstance(found, list | str) else show(found)
        return fnmatchcase(text, self.value)


def list_runs(folder: Path) -> list[Listed]:
    """Every run at most DEPTH folders below `folder`, or the run that it is, the one that began last at the end.

    Raises:
        ConfigError: there is no such folder, or nothing in it looks like a run.
    """
    if not folder.is_dir():
        raise ConfigError([f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}"])
    found = [_read(path) for path in _find_folders(folder, folder.resolve(), DEPTH)]
    if not found:
        raise ConfigError([f"{folder}: no run in it, nor in the {DEPTH} levels of folders below"])
    return sorted(found, key=lambda run: (str(run.info.get("started") or ""), str(run.path)))


def check_key(flag: str, key: str, runs: list[Listed]) -> None:
    """Refuse a key that neither every run nor the config of any run has, and that no run could have.

    Raises:
        ConfigError: with the nearest valid key.
    """
    if key in KEYS or any(key in run.config for run in runs) or key in known_keys():
        return
    near = nearest(key, KEYS)
    why = f"no such key; did you mean {near}?" if near else refuse_key(key)
    raise ConfigError([f"{flag}: {why}"])


def sort_runs(runs: list[Listed], key: str) -> list[Listed]:
    """By a key, the smallest first; runs that lack it come before all others."""

    def place(run: Listed) -> tuple:
        value = run.read(key)
        number = _as_number(value)
        return (0, 0.0, "") if value is None else (1, number, "") if number is not None else (2, 0.0, str(value))

    return sorted(runs, key=place)


def _find_folders(folder: Path, root: Path, depth: int) -> Iterator[Path]:
    """Run folders from `folder` down. Links to a place inside `root` (outputs/latest) are left out, other links are
    runs but not searched."""
    if (folder / "run.json").exists() or (folder / ".hydra").is_dir():
        yield folder
        return
    if not depth:
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        yield folder
        return
    for entry in entries:
        if entry.name.startswith(".") or not entry.is_dir():
            continue
        path = folder / entry.name
        if not entry.is_symlink():
            yield from _find_folders(path, root, depth - 1)
        elif not path.resolve().is_relative_to(root) and (path / "run.json").is_file():
            yield path


def _read(path: Path) -> Listed:
    try:
        info = json.loads((path / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        if not (path / LOCK).exists():
            return Listed(path, problem="has no run.json", kind="foreign")
        kind = "killed" if find_owner(path) is None else "running"
        return Listed(path, problem="has begun, and has no run.json yet", kind=kind)
    except OSError as error:
        return Listed(path, problem=f"cannot be read, {error.strerror}", kind="broken")
    except ValueError:
        return Listed(path, problem="its run.json is torn", kind="broken")
    if not isinstance(info, dict) or info.get("status") not in STATUSES:
        return Listed(path, problem="its run.json is of another program", kind="foreign")
    return Listed(path, info)


def _find_interval(evaluation: dict, section: str, name: str) -> dict | None:
    part = evaluation.get(section)
    found = part.get(name) if isinstance(part, dict) else None
    return found if isinstance(found, dict) and {"value", "low", "high"} == set(found) else None


def _as_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
