"""Refuses missing files and folders that cannot be written; compose.py calls it after the other rules.

find_missing_files(cfg)  ->  ["task.path=nope.jsonl: no such file"]
"""

import errno
import os
import symtable
from pathlib import Path

from rlhf_exp.algorithms import load_object
from rlhf_exp.config.hub import is_hub_id
from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import MANY, nearest, suggest


def find_missing_files(cfg: Config) -> list[str]:
    """Required files that are missing, and folders that cannot be written."""
    if too_long := [f"{key}={path[:40]}...: File name too long" for key, path in _list_paths(cfg) if _is_long(path)]:
        return too_long
    problems = [*find_missing_models(cfg), *_check_task(cfg)]
    if Path(cfg.output_dir).resolve() == Path("/"):
        problems.append(f"output_dir={cfg.output_dir}: is the root of the file system; use a folder of its own")
    for key, folder in (("output_dir", cfg.output_dir), ("eval.cache_dir", cfg.eval.cache_dir)):
        if folder is not None and (reason := _refuse_folder(Path(folder))):
            problems.append(f"{key}={folder}: cannot be written, {reason}")
    return problems


def _list_paths(cfg: Config) -> list[tuple[str, str]]:
    """Every key that names a file or a folder, with its path."""
    named = [("output_dir", cfg.output_dir), ("resume", cfg.resume), ("eval.cache_dir", cfg.eval.cache_dir),
             ("model.path", cfg.model.path), ("model.base", cfg.model.base), ("reward.path", cfg.reward.path),
             ("task.samples", getattr(cfg.task, "samples", None))]  # fmt: skip
    named += [(f"{place}.path", task.path) for place, task in cfg.task.list_sources()]
    named += cfg.list_functions().items()
    return [(key, path) for key, path in named if path is not None]


def _is_long(path: str) -> bool:
    """Whether a file system cannot have such a name."""
    try:
        os.lstat(path)
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


def list_local_models(cfg: Config) -> list[tuple[str, str]]:
    """The keys of the start model that name a folder of this machine, with its path."""
    named = (("model.path", cfg.model.path), ("model.base", cfg.model.base))
    return [(key, path) for key, path in named if path is not None and not is_hub_id(path)]


def find_missing_models(cfg: Config) -> list[str]:
    """Folders that a key of model or reward names but that hold no model."""
    problems = [line for key, path in list_local_models(cfg) if (line := _refuse_model(key, path))]
    path = cfg.reward.path
    if path is not None and not is_hub_id(path):
        folder = Path(path).expanduser()
        if not folder.is_dir():
            problems.append(f"reward.path={path}: no such folder; must be the folder of a run of algo=reward_model")
        elif problem := refuse_pickle(folder / "model" if (folder / "model").is_dir() else folder):
            problems.append(f"reward.path={path}: {problem}")
    return problems


def refuse_pickle(folder: Path) -> str | None:
    """Why a model's or an adapter's folder without safetensors is not loaded, if it holds weights of another format."""
    if any(folder.glob("*.safetensors")) or not (pickles := sorted(folder.glob("*.bin"))):
        return None
    return (
        f"holds its weights as a pickle, {pickles[0].name}, which can run code when it is read;"
        " must hold safetensors: where you trust it, load it and call save_pretrained"
    )


def find_missing_weights(cfg: Config) -> list[str]:
    """Model folders without weights, which a run needs; other commands may need only the tokenizer."""
    return [
        f"{key}={path}: holds no weights; must hold safetensors next to its config.json"
        for key, path in list_local_models(cfg)
        if not _refuse_model(key, path) and not any(Path(path).expanduser().glob("*.safetensors"))
    ]


def _refuse_model(key: str, path: str) -> str | None:
    folder = Path(path).expanduser()
    if not any((folder / name).is_file() for name in ("config.json", "adapter_config.json")):
        what = "has no config.json" if folder.is_dir() else "no such folder"
        return f"{key}={path}: {what}; must be a model's folder or a hub id like org/name"
    return f"{key}={path}: {problem}" if (problem := refuse_pickle(folder)) else None


def refuse_function(key: str, where: str, ready: tuple[str, ...] = ()) -> list[str]:
    """Why `where` is no FILE.py:FUNCTION that is there, by the symbols of the file: nothing of it is run. `ready` are
    the names that are allowed instead."""
    file, _, function = where.rpartition(":")
    path = Path(file).expanduser()
    if path.suffix != ".py" or not function.isidentifier():
        allowed = f"one of {', '.join(ready)}, or " if ready else ""
        return [f"{key}: must be {allowed}FILE.py:FUNCTION{suggest(where, ready)}"]
    if path.exists() and not path.is_file():
        return [f"{key}: {file} is not a regular file"]
    if not path.is_file():
        return [f"{key}: no such file as {file}{_suggest_file(path, '*.py')}"]
    source = path.read_bytes()
    try:
        symbols = symtable.symtable(source, str(path), "exec").get_symbols()
    except (SyntaxError, ValueError) as error:  # which of them, for null bytes, depends on Python's version
        line = getattr(error, "lineno", None)
        return [f"{key}: is not Python, {getattr(error, 'msg', error)}{f' in line {line}' if line else ''}"]
    names = [symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()]
    if function in names or b"import *" in source:  # what a star brings, only running it can tell
        return []
    own = [symbol.get_name() for symbol in symbols if symbol.is_namespace()]
    there = f"its functions are {_list_some(own)}" if own else "it has no function"
    return [f"{key}: {path.name} has no {function}; {there}{suggest(function, names)}"]


def _suggest_file(path: Path, pattern: str = "*") -> str:
    """The name in the folder that is most similar to that of a missing file, or else some of those of the pattern."""
    if not path.parent.is_dir():
        return f"; there is no folder {path.parent}"
    names = sorted(file.name for file in path.parent.glob(pattern))
    if near := nearest(path.name.replace(".", "/"), (name.replace(".", "/") for name in names)):  # "." would end a key
        return f"; did you mean {near.replace('/', '.')}?"
    return f"; beside it {'is' if len(names) == 1 else 'are'} {_list_some(names)}" if names and pattern != "*" else ""


def _list_some(names: list[str]) -> str:
    return ", ".join([*names[:MANY], *(["..."] if len(names) > MANY else [])])


def _check_task(cfg: Config) -> list[str]:
    problems = []
    for key, task in cfg.task.list_sources():
        if task.source != "file" or task.path is None:
            continue
        if not Path(task.path).exists():
            problems.append(f"{key}.path={task.path}: no such file{_suggest_file(Path(task.path))}")
        elif not Path(task.path).is_file() and not (task.reads_folder and Path(task.path).is_dir()):
            problems.append(f"{key}.path={task.path}: not a regular file; must be {task.file}")
        elif task.first_look:
            problems += load_object(task.first_look)(task)
    for place, task in cfg.task.list_sources():
        for key, where in task.functions.items():
            problems += refuse_function(f"{place}.{key}={where}", where, task.ready_functions)
    samples = getattr(cfg.task, "samples", None)
    if samples not in (None, "self") and not (Path(samples) / "samples.jsonl").is_file():
        problems.append(
            f"task.samples={samples}: holds no samples.jsonl; must be self, or a folder that"
            f" `python -m rlhf_exp sample task={cfg.task.name}` has made"
        )
    return problems


def _refuse_folder(folder: Path) -> str | None:
    """Why `folder` cannot be created or written, judged by its nearest existing parent; None if it can."""
    parent = folder
    while not os.path.lexists(parent):
        parent = parent.parent
    if not parent.is_dir():
        return f"{parent} is not a folder"
    return None if os.access(parent, os.W_OK | os.X_OK) else f"{parent} is read-only"
