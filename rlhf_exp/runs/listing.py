"""Lists the runs below folders from a few small files of each, so that hundreds take a second; imports no torch.

    list_runs([Path("outputs")])[-1].cells     # of the newest: [folder, status, ..., "22.7% -> 48.5%", "ok", "240 s"]

A run that cannot be read is listed too, with the reason.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rlhf_exp.errors import ConfigError, printable
from rlhf_exp.runs.figures import duration, percent, write_name
from rlhf_exp.runs.files import NotARun
from rlhf_exp.runs.load import DEPTH, list_run_folders
from rlhf_exp.runs.lock import find_owner
from rlhf_exp.runs.records import Diagnosis, Evaluation, RunRecord, read

SETTINGS = ("algo", "task", "model", "max_tokens", "seed", "steps")
COLUMNS = ("folder", "status", *SETTINGS, "accuracy", "health", "time")


class Listed(NamedTuple):
    """A run, and its row of the table."""

    path: Path
    started: str
    status: str
    cells: list[str]


def list_runs(folders: list[Path]) -> list[Listed]:
    """Every run at most DEPTH levels below the folders, or the runs that they are, each once, the newest last.

    Raises:
        ConfigError: there is no such folder, or no run in it.
    """
    found: dict[Path, Listed] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError([f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}"])
        if not (runs := list_run_folders(folder)):
            raise ConfigError([f"{folder}: no run in it, nor in the {DEPTH} levels of folders below"])
        found |= {path: _read(path) for path in runs}
    return sorted(found.values(), key=lambda run: (run.started, str(run.path)))


def count_statuses(runs: Iterable[Listed]) -> str:
    """3 finished, 1 failed"""
    return ", ".join(f"{n} {status}" for status, n in Counter(run.status for run in runs).most_common())


def _read(path: Path) -> Listed:
    """What is known of the run in a folder. It was killed if run.json says running and no process holds the folder; one
    with a file that cannot be read is broken, and the reason follows its folder."""
    try:
        info, evaluation = read(path / "run.json", RunRecord), read(path / "evaluation.json", Evaluation)
        health = read(path / "diagnosis.json", Diagnosis).health
    except NotARun as error:
        cells = [f"{path}: {str(error).removeprefix(f'{path}/')}", "broken", *[""] * (len(COLUMNS) - 2)]
        return Listed(path, "", "broken", _clean(cells))
    killed = info.status == "running" and find_owner(path) is None
    status = "killed" if killed else str(info.status)
    measured = [section.accuracy for section in (evaluation.baseline, evaluation.trained) if section]
    accuracy = " -> ".join(percent(figure["value"]) for figure in measured if figure)
    seconds = sum(info.seconds.values())
    settings = [write_name(getattr(info, key)) for key in SETTINGS]
    cells = [str(path), status, *settings, accuracy, health or "", duration(seconds) if seconds else ""]
    return Listed(path, info.started or "", status, _clean(cells))


def _clean(cells: list[str]) -> list[str]:
    """Cells that a terminal shows in one line, - for an empty one."""
    return [printable(" ".join(text.split())) or "-" for text in cells]
