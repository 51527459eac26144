"""Lists the runs below folders from a few small files of each, so that hundreds take a second; imports no torch.

    runs = list_runs([Path("outputs")])       # a frame, a row for each run, the one that began last at the end
    filter_runs(runs, "algo.args.beta=0.1"), sort_runs(runs, "trained")
    tabulate(runs)                            # the same as texts: accuracy is "22.7% -> 48.5%"

A run that cannot be read is listed too, with the reason.
"""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pandas as pd

from rlhf_exp.config.values import nearest
from rlhf_exp.errors import ConfigError, printable, show
from rlhf_exp.runs.figures import duration, percent, write_name
from rlhf_exp.runs.files import NotARun
from rlhf_exp.runs.load import DEPTH, list_run_folders
from rlhf_exp.runs.lock import find_owner
from rlhf_exp.runs.records import SIDES, Diagnosis, Evaluation, RunRecord, read
from rlhf_exp.runs.settings import flatten, read_config

COLUMNS = ("folder", "status", "algo", "task", "model", "max_tokens", "seed", "steps", "baseline", "trained", "health",
           "seconds", "started", "problem")  # fmt: skip
"""`baseline` and `trained` are accuracies, shares of 1, `seconds` those of all phases; None where not known."""
SHOWN = ("folder", "status", "algo", "task", "model", "max_tokens", "seed", "steps", "accuracy", "health", "time")


def list_runs(folders: list[Path]) -> pd.DataFrame:
    """Every run at most DEPTH levels below the folders, or the runs that they are, each once.

    Raises:
        ConfigError: there is no such folder, or no run in it.
    """
    found: dict[Path, dict[str, Any]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError([f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}"])
        if not (runs := list_run_folders(folder)):
            raise ConfigError([f"{folder}: no run in it, nor in the {DEPTH} levels of folders below"])
        found |= {path: _read(path) for path in runs}
    rows = sorted(found.values(), key=lambda run: (str(run["started"] or ""), run["folder"]))
    return pd.DataFrame(rows, columns=COLUMNS, dtype=object)


def filter_runs(runs: pd.DataFrame, condition: str) -> pd.DataFrame:
    """The runs whose KEY is VALUE in `KEY=VALUE`, such as `status=finished` or `run.name=abl*`; * and ? stand for any
    letters.

    Raises:
        ConfigError: it is no condition, or no run has the key.
    """
    key, sign, wanted = condition.partition("=")
    if not sign:
        raise ConfigError([f"--filter {condition}: must be KEY=VALUE, such as status=finished"])
    values = _read_key(runs, key, f"--filter {condition}")
    return runs[[fnmatchcase(text, wanted) for text in values]]


def sort_runs(runs: pd.DataFrame, key: str) -> pd.DataFrame:
    """By a key, the greatest last: by number where its values are some; runs that lack it come first.

    Raises:
        ConfigError: no run has the key.
    """
    texts = _read_key(runs, key, f"--sort {key}")
    numbers = pd.to_numeric(texts, errors="coerce")
    order = numbers if numbers.notna().any() else texts
    return runs.loc[order.sort_values(kind="stable", na_position="first").index]


def tabulate(runs: pd.DataFrame) -> pd.DataFrame:
    """The columns that a terminal shows, every cell a text; why a run cannot be read follows its folder."""
    rows = []
    for run in runs.to_dict("records"):
        accuracies = [percent(run[side]) for side in ("baseline", "trained") if run[side] is not None]
        cells = {key: write_name(run[key]) for key in SHOWN[:-3]}
        cells["folder"] += f": {run['problem']}" if run["problem"] else ""
        cells |= {"accuracy": " -> ".join(accuracies), "health": write_name(run["health"])}
        cells["time"] = "" if run["seconds"] is None else duration(run["seconds"])
        rows.append([printable(" ".join(text.split())) or "-" for text in cells.values()])
    return pd.DataFrame(rows, columns=SHOWN, dtype=object)


def count_statuses(runs: pd.DataFrame) -> str:
    """3 finished, 1 failed"""
    return ", ".join(f"{n} {status}" for status, n in runs["status"].value_counts().items())


def _read(path: Path) -> dict[str, Any]:
    """What is known of the run in a folder. It was killed if run.json says running and no process holds the folder; one
    with a file that cannot be read is broken."""
    unknown = dict.fromkeys(COLUMNS) | {"folder": str(path)}
    try:
        info, evaluation = read(path / "run.json", RunRecord), read(path / "evaluation.json", Evaluation)
        health = read(path / "diagnosis.json", Diagnosis).health
    except NotARun as error:
        return unknown | {"status": "broken", "problem": str(error).removeprefix(f"{path}/")}
    killed = info.status == "running" and find_owner(path) is None
    accuracies = {side: getattr(evaluation, side) and getattr(evaluation, side).accuracy for side in SIDES}
    return unknown | {
        **{key: getattr(info, key) for key in ("algo", "task", "model", "max_tokens", "seed", "steps", "started")},
        **{side: accuracy and accuracy["value"] for side, accuracy in accuracies.items()},
        "status": "killed" if killed else info.status,
        "health": health,
        "seconds": sum(info.seconds.values()) or None,
    }


def _read_key(runs: pd.DataFrame, key: str, flag: str) -> pd.Series:
    """The texts of a column, or of a key of the runs' configs."""
    if key in runs:
        return pd.Series(map(show, runs[key]), runs.index, dtype=object)
    configs = [_read_settings(Path(folder)) for folder in runs["folder"]]
    known = {name for config in configs for name in config}
    if key not in known and len(runs):
        near = nearest(key, [*COLUMNS, *sorted(known)])
        raise ConfigError([f"{flag}: no run has such a key{f'; did you mean {near}?' if near else ''}"])
    return pd.Series([show(config.get(key)) for config in configs], runs.index, dtype=object)


def _read_settings(folder: Path) -> dict[str, Any]:
    """The config by dotted key; {} if there is none that can be read."""
    try:
        return flatten(read_config(folder))
    except NotARun:
        return {}
