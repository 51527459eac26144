"""Refuses missing files and folders that cannot be written; compose.py calls it after the other rules.

find_missing_files(cfg)  ->  ["task.path=nope.jsonl: no such file"]
"""

import os
import symtable
from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from rlhf_exp.config.hub import is_hub_id
from rlhf_exp.config.schema import Config, conflict
from rlhf_exp.config.values import suggest
from rlhf_exp.errors import Problem, show


def find_missing_files(cfg: Config) -> list[str]:
    """Required files that are missing, and folders that cannot be written.

    Raises:
        OSError: a name is too long for the file system.
    """
    return [*find_missing_models(cfg), *_check_task(cfg), *_check_folders(cfg)]


def _check_folders(cfg: Config) -> Iterator[Problem]:
    for path in (cfg.output_dir, cfg.resume, cfg.eval.cache_dir, *cfg.list_saved_models().values()):
        with suppress(FileNotFoundError, NotADirectoryError):
            Path(path or "").lstat()
    if Path(cfg.output_dir).resolve() == Path("/"):
        yield conflict(cfg, "output_dir", "is the root of the file system; use a folder of its own")
    for key, folder in (("output_dir", cfg.output_dir), ("eval.cache_dir", cfg.eval.cache_dir)):
        if folder is not None and (reason := _explain_unwritable(Path(folder))):
            yield conflict(cfg, key, f"cannot be written, {reason}", "missing")


def _explain_unwritable(folder: Path) -> str | None:
    """Why `folder` cannot be created or written, judged by its nearest existing parent; None if it can."""
    parent = folder
    while not os.path.lexists(parent):
        parent = parent.parent
    if not parent.is_dir():
        return f"{parent} is not a folder"
    return None if os.access(parent, os.W_OK | os.X_OK) else f"{parent} is read-only"


def list_local_models(cfg: Config) -> list[tuple[str, str]]:
    """The keys of the start model that name a folder of this machine, with its path."""
    named = (("model.path", cfg.model.path), ("model.base", cfg.model.base))
    return [(key, path) for key, path in named if path is not None and not is_hub_id(path)]


def find_missing_models(cfg: Config) -> Iterator[Problem]:
    """Folders that a key of model, reward or teacher names but that hold no model."""
    for key, place in list_local_models(cfg):
        if why := _explain_model(Path(place)):
            yield conflict(cfg, key, why, "missing")
    for key, path in cfg.list_saved_models().items():
        if is_hub_id(path):
            continue
        folder = Path(path).expanduser()
        whole = folder / "model" if (folder / "model").is_dir() else folder
        wanted = "a run or of a model, or a hub id" if key == "teacher.path" else "a run of algo=reward_model"
        unsaved = whole == folder and (folder / ".hydra" / "config.yaml").is_file()  # told later (models/source.py)
        if not unsaved and (why := _explain_model(whole, f"the folder of {wanted}")):
            yield conflict(cfg, key, why, "missing")


def _explain_model(path: Path, wanted: str = "a model's folder or a hub id like org/name") -> str | None:
    folder = path.expanduser()
    if not any((folder / name).is_file() for name in ("config.json", "adapter_config.json")):
        what = "has no config.json" if folder.is_dir() else "no such folder"
        return f"{what}; must be {wanted}"
    return explain_odd_file(folder) or explain_pickle(folder)


def explain_odd_file(folder: Path) -> str | None:
    """Why a model's folder is not read if something in it is neither a file nor a folder: reading a pipe would wait."""
    odd = sorted(one.name for one in folder.iterdir() if not (one.is_file() or one.is_dir()))
    odd += [one.name for one in folder.glob("*.safetensors") if one.is_dir()]
    return f"{odd[0]} is not a regular file" if odd else None


def explain_pickle(folder: Path) -> str | None:
    """Why a model's or an adapter's folder without safetensors is not loaded, if it holds weights of another format."""
    if any(folder.glob("*.safetensors")) or not (pickles := sorted(folder.glob("*.bin"))):
        return None
    return (
        f"holds its weights as a pickle, {pickles[0].name}, which can run code when it is read;"
        " must hold safetensors: where you trust it, load it and call save_pretrained"
    )


def find_missing_weights(cfg: Config) -> list[Problem]:
    """Model folders without weights, which a run needs; other commands may need only the tokenizer."""
    return [
        conflict(cfg, key, "holds no weights; must hold safetensors next to its config.json", "missing")
        for key, path in list_local_models(cfg)
        if not _explain_model(Path(path)) and not any(Path(path).expanduser().glob("*.safetensors"))
    ]


def check_function(key: str, where: str, ready: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Whether `where` is a FILE.py:FUNCTION that is there, by the symbols of the file: nothing of it is run. `ready`
    are the names that are allowed instead."""
    file, _, function = where.rpartition(":")
    path = Path(file).expanduser()
    if path.suffix != ".py" or not function.isidentifier():
        allowed = f"one of {', '.join(ready)}, or " if ready else ""
        yield Problem(key, "type", where, f"{allowed}FILE.py:FUNCTION{suggest(where, ready)}")
    elif path.exists() and not path.is_file():
        yield Problem(key, "missing", where, f"{file} is not a regular file")
    elif not path.is_file():
        yield Problem(key, "missing", where, f"no such file as {file}{_suggest_file(path)}")
    elif why := _explain_function(path, function):
        yield Problem(key, "missing", where, why)


def _explain_function(path: Path, function: str) -> str | None:
    source = path.read_bytes()
    try:
        symbols = symtable.symtable(source, str(path), "exec").get_symbols()  # type: ignore[arg-type]  # bytes too
    except (SyntaxError, ValueError) as error:  # which of them, for null bytes, depends on Python's version
        return f"is not Python, {error}"
    names = [symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()]
    if function in names or b"import *" in source:  # what a star brings, only running it can tell
        return None
    return f"{path.name} has no {function}{suggest(function, names) or f'; it has {show(names)}'}"


def _suggest_file(path: Path) -> str:
    """The file beside a missing one whose name is the most similar."""
    near = get_close_matches(path.name, [file.name for file in path.parent.glob("*")], n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _check_task(cfg: Config) -> Iterator[str]:
    for key, task in cfg.list_sources():
        if task.source == "file" and task.path is not None:
            path = Path(task.path)
            if not path.exists():
                yield conflict(cfg, f"{key}.path", f"no such file{_suggest_file(path)}", "missing")
            elif not path.is_file() and not (task.reads_folder and path.is_dir()):
                yield conflict(cfg, f"{key}.path", f"not a regular file; must be {task.path_form}", "missing")
            else:
                yield from task.find_row_problems()
        for name, where in task.functions.items():
            yield from check_function(f"{key}.{name}", where, task.ready_functions)
    samples = getattr(cfg.task, "samples", None)
    if samples not in (None, "self") and not (Path(samples) / "samples.jsonl").is_file():
        made = "the folder samples/ of a run with task.samples=self"
        yield conflict(cfg, "task.samples", f"holds no samples.jsonl; must be self, or {made}", "missing")
