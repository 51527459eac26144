"""Lists the runs below a folder from a few small files of each, so that hundreds take a second, and selects and sorts
them by what is known about them; imports no torch.

    listed = list_runs(Path("outputs"))      # as `python -m rlhf_exp runs --json` prints them
    listed[0]["status"], listed[0]["gain"]["value"], read_key(listed[0], "eval.rows")
    filter_runs(listed, "tag=abl*"), sort_runs(listed, "algo.args.beta")
    tabulate(listed)                         # ({"task": "countdown"}, {"seed": ["0", "1"], "gain": [...], ...})

A run that cannot be read is listed too, with the reason.
"""

import operator
import re
from collections import Counter
from contextlib import suppress
from fnmatch import fnmatchcase
from math import isnan, nan
from pathlib import Path
from typing import Any

from rlhf_exp.config.keys import explain_key, known_keys
from rlhf_exp.config.values import nearest, show
from rlhf_exp.errors import ConfigError, printable
from rlhf_exp.runs.figures import Figure, percent, points, write_name
from rlhf_exp.runs.load import DEPTH, NotARun, list_run_folders, read_json, read_saved
from rlhf_exp.runs.lock import find_owner
from rlhf_exp.runs.settings import flatten, read_typed

LABELS = ("name", "algo", "task", "model", "loss_type", "seed", "max_tokens", "steps", "error", "started", "finished")
"""What is read from run.json as it is there."""

KEYS = (*LABELS, "tag", "status", "accuracy", "gain", "run")
"""What can be read of every run beside the keys of its config. accuracy and gain are shares of 1."""

SHARED = ("task", "algo", "model")
"""Columns that a table leaves out where runs do not differ in them."""

MOST = 6

COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_FILTER = re.compile(r"([\w.]+)(!=|>=|<=|=|>|<)(.+)")


def list_runs(folder: Path) -> list[dict[str, Any]]:
    """Every run at most DEPTH folders below `folder`, or the run that it is, the one that began last at the end.

    Raises:
        ConfigError: there is no such folder, or no run in it.
    """
    if not folder.is_dir():
        raise ConfigError([f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}"])
    if not (found := [_read(path) for path in list_run_folders(folder)]):
        raise ConfigError([f"{folder}: no run in it, nor in the {DEPTH} levels of folders below"])
    return sorted(found, key=lambda run: (str(run["started"] or ""), run["run"]))


def read_key(run: dict[str, Any], key: str) -> Any:
    """The value of one of KEYS, or of a key of the run's config; None if it has none."""
    if key in ("accuracy", "gain"):
        return (run[key] or {}).get("value")
    key = "tags" if key == "tag" else key
    return run[key] if key in run else read_settings(run).get(key)


def filter_runs(runs: list[dict[str, Any]], condition: str) -> list[dict[str, Any]]:
    """The runs for which a condition holds, such as `status=finished`, `tag=abl*` or `gain>0.1`: * and ? stand for any
    letters, and numbers are compared as numbers. A run without a value is kept only by !=.

    Raises:
        ConfigError: it is no condition, or its key is none.
    """
    found = _FILTER.fullmatch(condition)
    if not found:
        raise ConfigError([f"--filter {condition}: must be KEY=VALUE, such as status=finished or algo.args.beta=0.1"])
    key, sign, wanted = found.groups()
    if sign in COMPARISONS and isnan(_as_number(wanted)):
        raise ConfigError([f"--filter {condition}: {show(wanted)} is no number; {sign} compares numbers"])
    _check_key(f"--filter {condition}", key, runs)
    return [run for run in runs if _holds(read_key(run, key), sign, wanted)]


def find_varied(runs: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Of each run what was typed, of the MOST keys that most runs' users typed, and not all with one value; without the
    keys of run.json."""
    typed = [read_typed(map(str, _read_saved(run, "overrides", list))) for run in runs]
    keys = Counter(key for found in typed for key in found if key not in KEYS)
    varied = [key for key, _ in keys.most_common() if len({found.get(key) for found in typed}) > 1]
    return [{key: found.get(key, "") for key in varied[:MOST]} for found in typed]


def tabulate(runs: list[dict[str, Any]]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """What several runs share of SHARED, and by name the other columns in which any run has something else than -, with
    the settings in which runs differ."""
    rows = [
        {name: printable(" ".join(text.split())) or "-" for name, text in _write_cells(run, typed).items()}
        for run, typed in zip(runs, find_varied(runs), strict=True)
    ]
    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    shared = {name: columns.pop(name)[0] for name in SHARED if len(rows) > 1 and len({*columns[name]}) == 1}
    return shared, {name: cells for name, cells in columns.items() if {*cells} != {"-"}}


def sort_runs(runs: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """By a key, the smallest first; runs that lack it come before all others.

    Raises:
        ConfigError: there is no such key.
    """
    _check_key(f"--sort {key}", key, runs)

    def place(run: dict[str, Any]) -> tuple:
        value = read_key(run, key)
        number = _as_number(value)
        return value is not None, isnan(number), 0.0 if isnan(number) else number, str(value)

    return sorted(runs, key=place)


def _read(path: Path) -> dict[str, Any]:
    """What is known of the run in a folder. It was killed if run.json says running and no process holds the folder; one
    that cannot be read is broken. Its accuracy is the trained model's; of a finished run that trains nothing, the start
    model's. Its gain is the trained model's accuracy minus the start model's."""
    try:
        info, problem = read_json(path / "run.json"), None
        status = str(info.get("status"))
    except NotARun as error:
        info, problem, status = {}, str(error).removeprefix(f"{path}/"), "broken"
    if status == "running" and find_owner(path) is None:
        status = "killed"
    evaluation: dict[str, Any] = {}
    with suppress(NotARun):
        evaluation = read_json(path / "evaluation.json")
    side = "trained" if "trained" in evaluation or status != "finished" else "baseline"
    tags = info.get("tags")
    return {
        "run": str(path),
        "status": status,
        "problem": problem,
        **{key: info.get(key) for key in LABELS},
        "tags": [str(tag) for tag in tags] if isinstance(tags, list) else [],
        "accuracy": _find_interval(evaluation, side, "accuracy"),
        "gain": _find_interval(evaluation, "paired", "difference"),
    }


def _write_cells(run: dict[str, Any], typed: dict[str, str]) -> dict[str, str]:
    """The text of each column, with what was `typed` after the seed. The algorithm is written with a loss that is not
    the one of its name: grpo/dr_grpo."""
    loss = write_name(run["loss_type"])
    cells = {key: write_name(run[key]) for key in ("name", "tags", "task", "algo", "model", "seed")} | typed
    cells |= {key: write_name(run[key]) for key in ("status", "steps")}
    cells["algo"] += f"/{loss}" if loss not in ("", cells["algo"]) else ""
    cells |= {"accuracy": percent(run["accuracy"]), "gain": points(run["gain"])}
    cells["began (UTC)"] = write_name(run["started"])[:16].replace("T", " ")
    return cells | {"run": f"{run['run']}{f': {problem}' if (problem := run['problem']) else ''}"}


def _check_key(flag: str, key: str, runs: list[dict[str, Any]]) -> None:
    """Refuse a key that neither every run nor the config of any run has, and that no run could have."""
    if key not in (*KEYS, "tags") and key not in known_keys() and not any(key in read_settings(run) for run in runs):
        near = nearest(key, KEYS)
        raise ConfigError([f"{flag}: {f'no such key; did you mean {near}?' if near else explain_key(key)}"])


def read_settings(run: dict[str, Any]) -> dict[str, Any]:
    """The config by dotted key; {} if there is none that can be read."""
    return flatten(_read_saved(run, "config", dict))


def _read_saved(run: dict[str, Any], name: str, form: type[dict] | type[list]) -> Any:
    with suppress(NotARun):
        return read_saved(Path(run["run"]), name, form)
    return form()


def _find_interval(evaluation: dict, section: str, name: str) -> Figure:
    part = evaluation.get(section)
    found = part.get(name) if isinstance(part, dict) else None
    if not isinstance(found, dict) or {"value", "low", "high"} != set(found):
        return None
    return found if all(isinstance(value, float | int | None) for value in found.values()) else None


def _holds(found: Any, sign: str, wanted: str) -> bool:
    number, limit = _as_number(found), _as_number(wanted)
    if sign in COMPARISONS:
        return COMPARISONS[sign](number, limit)
    if not (isnan(number) or isnan(limit)):
        return (number == limit) == (sign == "=")
    texts = [found if isinstance(found, str) else show(found)]
    if isinstance(found, list):
        texts = [*map(str, found), write_name(found)]
    return any(fnmatchcase(text, wanted) for text in texts) == (sign == "=")


def _as_number(value: Any) -> float:
    """NaN if it is none."""
    try:
        return nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return nan
