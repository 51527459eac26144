"""Files that must be there, folders that must be writable; called by config.py after combinations.py.

find_missing_files(cfg)  ->  ["task.path=nope.jsonl: no such file"]
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rlhf_exp.checkpoints import find_checkpoint
from rlhf_exp.combinations.task import FILES, list_sources
from rlhf_exp.run_folder import read_record
from rlhf_exp.run_lock import find_owner

if TYPE_CHECKING:
    from rlhf_exp.schema import Config

HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


def find_missing_files(cfg: "Config") -> list[str]:
    """Files that must be there and are not, folders that cannot be written."""
    problems = [*find_missing_models(cfg), *_check_task(cfg), *_check_resume(cfg)]
    if Path(cfg.output_dir).resolve() == Path("/"):
        problems.append(f"output_dir={cfg.output_dir}: is the root of the file system; use a folder of its own")
    for key, folder in (("output_dir", cfg.output_dir), ("eval.cache_dir", cfg.eval.cache_dir)):
        if folder is not None and (reason := _refuse_folder(Path(folder))):
            problems.append(f"{key}={folder}: cannot be written, {reason}")
    return problems


def find_missing_models(cfg: "Config") -> list[str]:
    """Folders that a key of model or reward names and that hold none."""
    problems = []
    for key, path in (("model.path", cfg.model.path), ("model.base", cfg.model.base)):
        if path is None or is_hub_id(path):
            continue
        folder = Path(path).expanduser()
        if not any((folder / name).is_file() for name in ("config.json", "adapter_config.json")):
            what = "has no config.json" if folder.is_dir() else "no such folder"
            problems.append(f"{key}={path}: {what}; must be a model's folder or a hub id like org/name")
        elif (pickles := sorted(folder.glob("*.bin"))) and not any(folder.glob("*.safetensors")):
            problems.append(
                f"{key}={path}: holds its weights as a pickle, {pickles[0].name}, which can run code when it is read;"
                " must hold safetensors: where you trust it, load it and call save_pretrained"
            )
    path = cfg.reward.path
    if path is not None and not is_hub_id(path) and not Path(path).expanduser().is_dir():
        problems.append(f"reward.path={path}: no such folder; must be the folder of a run of algo=reward_model")
    return problems


def _check_task(cfg: "Config") -> list[str]:
    problems = []
    for key, task in list_sources(cfg):
        if task.source != "file" or task.path is None:
            continue
        if not Path(task.path).exists():
            problems.append(f"{key}.path={task.path}: no such file")
        elif task.name in ("countdown", "brevity") and not Path(task.path).is_file():
            problems.append(f"{key}.path={task.path}: not a file; must be {FILES[task.name]}")
    samples = getattr(cfg.task, "samples", None)
    if samples not in (None, "self") and not (Path(samples) / "samples.jsonl").is_file():
        problems.append(
            f"task.samples={samples}: holds no samples.jsonl; must be self, or a folder that"
            f" `python -m rlhf_exp.sample task={cfg.task.name}` has made"
        )
    return problems


def _check_resume(cfg: "Config") -> list[str]:
    key, folder = ("output_dir", cfg.output_dir) if cfg.resume is None else ("resume", cfg.resume)
    if owner := find_owner(Path(folder)):
        return [f"{key}={folder}: a run is going on in it ({owner})"]
    if cfg.resume is not None:
        if not (Path(folder) / "run.json").is_file():
            return [f"resume={folder}: not a run's folder, it has no run.json"]
        found = find_checkpoint(Path(folder))
        if found.path is None:
            broken = f" that is whole ({', '.join(found.broken)})" if found.broken else " yet"
            start = f"start anew with its overrides and output_dir={folder}"
            return [f"resume={folder}: has no checkpoint{broken}; {start}"]
    elif not cfg.skip_finished and _holds_run(Path(folder)):  # with it, study.py looks closer
        return [f"output_dir={folder}: already holds a run; use another folder, or resume={folder}"]
    return []


def _holds_run(folder: Path) -> bool:
    """Whether a run is there to be lost; one that was refused, or ended before its first checkpoint, has nothing."""
    status = read_record(folder).get("status")
    kept = status == "finished" or (folder / "model").exists() or find_checkpoint(folder).path is not None
    return status not in (None, "refused") and kept


def is_hub_id(path: str) -> bool:
    """`org/name` or `name`, unless its first part is a local folder: then a local path is meant."""
    return bool(HUB_ID.fullmatch(path)) and not os.path.isdir(path.split("/")[0])


def _refuse_folder(folder: Path) -> str | None:
    """Why `folder` cannot be made or written, judged by the nearest parent that exists."""
    parent = folder
    while not os.path.lexists(parent):
        parent = parent.parent
    if not parent.is_dir():
        return f"{parent} is not a folder"
    return None if os.access(parent, os.W_OK | os.X_OK) else f"{parent} is read-only"
