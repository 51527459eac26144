"""Lists the runs below a folder from a few small files of each, so that hundreds take a second; imports no torch.

    listed = list_runs(Path("outputs"))
    listed[0].read("status"), listed[0].read("accuracy"), listed[0].read("eval.rows")

What looks like a run and cannot be read is listed too, with the reason.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.figures import Figure
from rlhf_exp.runs.load import NotARun, read_config, read_json
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


@dataclass
class ListedRun:
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
        """evaluation.json; {} if there is none that can be read."""
        try:
            return read_json(self.path / "evaluation.json")
        except NotARun:
            return {}

    @cached_property
    def config(self) -> dict[str, Any]:
        """The config by dotted key; {} if there is none that can be read."""
        try:
            return flatten(read_config(self.path))
        except NotARun:
            return {}

    @property
    def accuracy(self) -> Figure:
        """Of the trained model; of a finished run that trains nothing, of the start model."""
        side = "trained" if "trained" in self.evaluation or self.status != "finished" else "baseline"
        return _find_interval(self.evaluation, side, "accuracy")

    @property
    def gain(self) -> Figure:
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


def list_runs(folder: Path) -> list[ListedRun]:
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


def _read(path: Path) -> ListedRun:
    try:
        info = read_json(path / "run.json")
    except NotARun as error:
        return ListedRun(path, problem=str(error).removeprefix(f"{path}/"), kind="broken")
    if info.get("status") in STATUSES:
        return ListedRun(path, info)
    if (path / "run.json").exists():
        return ListedRun(path, problem="its run.json is of another program", kind="foreign")
    if not (path / LOCK).exists():
        return ListedRun(path, problem="has no run.json", kind="foreign")
    kind = "killed" if find_owner(path) is None else "running"
    return ListedRun(path, problem="has begun, and has no run.json yet", kind=kind)


def _find_interval(evaluation: dict, section: str, name: str) -> Figure:
    part = evaluation.get(section)
    found = part.get(name) if isinstance(part, dict) else None
    is_interval = isinstance(found, dict) and {"value", "low", "high"} == set(found)
    return found if is_interval else None
