"""Makes checkpoints atomic: written to a staging folder, listed in a manifest, then renamed; and checks that they hold
what a resumed run reads. Imports no ML library.

    with staged(run_dir / "checkpoints", "checkpoint-40") as staging:
        save_into(staging / "checkpoint-40")
    rotate(run_dir / "checkpoints", keep=1)
    find_checkpoint(run_dir)         # Found(path=.../checkpoint-40, broken=["checkpoint-80: optimizer.pt is missing"])
    check_newest(run_dir, cfg)       # ["resume=outputs/x: checkpoint-40 cannot be resumed: optimizer.pt is missing"]

A process may be killed, or a machine lose its power, between any two lines here: an earlier whole checkpoint is then
still there.
"""

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rlhf_exp import processes
from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.schema import Config

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
STAGING, REMOVING, UNUSABLE = ".saving", ".removing-", "unusable-"
NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
"""Errors of network and user-space file systems that cannot sync a folder to the disk."""
NAME = re.compile(r"checkpoint-(\d+)")
PROGRESS, REFERENCE, WORK = "progress.json", "reference.safetensors", "work.json"


SAVED_BY = {"fsdp2": ("optimizer.bin", "pytorch_model_fsdp.bin"), "zero2": ("latest",), "zero3": ("latest",)}
"""What an engine saves instead of optimizer.pt."""


class Found(NamedTuple):
    """The newest whole checkpoint, and a line about each newer one that is incomplete."""

    path: Path | None
    broken: list[str]


def find_checkpoint(run_dir: Path) -> Found:
    """Look for the newest whole checkpoint of a run; changes nothing."""
    broken = []
    for path in reversed(_list_checkpoints(run_dir / FOLDER)):
        reason = explain_broken(path)
        if reason is None:
            return Found(path, broken)
        broken.append(f"{path.name}: {reason}")
    return Found(None, broken)


def explain_broken(path: Path) -> str | None:
    """Why a checkpoint is incomplete: a file of its manifest is missing or has another size. None if it is whole."""
    try:
        files = json.loads((path / MANIFEST).read_text(encoding="utf-8"))["files"]
    except FileNotFoundError:
        return f"has no {MANIFEST}; it was cut off, or is of an older version"
    except (ValueError, KeyError, TypeError):
        return f"{MANIFEST} cannot be read"
    for name, size in files.items():
        if not (path / name).is_file():
            return f"{name} is missing"
        if (found := (path / name).stat().st_size) != size:
            return f"{name} has {found:,} bytes in place of {size:,}"
    return None


def read_step(path: Path) -> int:
    """The optimizer step of `checkpoint-40`: 40."""
    return int(NAME.fullmatch(path.name)[1])


def name_of_rank(name: str) -> str:
    """Of several processes each has its own progress: `progress.json` of rank 0, `progress-1.json` of rank 1."""
    path = Path(name)
    return name if processes.is_main() else f"{path.stem}-{processes.rank()}{path.suffix}"


@contextmanager
def staged(folder: Path, name: str) -> Iterator[Path]:
    """Yields a staging folder; save into its folder `name`. At the end that is synced, gets its manifest, and is moved
    into `folder`; if saving fails, nothing of it remains.

    Raises:
        OSError: `folder` already holds a checkpoint of that name, or the disk is full.
    """
    staging = folder / STAGING
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        yield staging
        _seal(staging / name)
        (staging / name).rename(folder / name)
        _sync(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def rotate(folder: Path, keep: int | None) -> None:
    """Remove all checkpoints except the newest `keep`; none if that is None or 0.

    Each is renamed first, since an interrupted removal leaves some of its files.
    """
    for path in _list_checkpoints(folder)[: -keep if keep else 0]:
        shutil.rmtree(path.rename(folder / f"{REMOVING}{path.name}"))


def tidy(folder: Path, newest: Path | None) -> None:
    """Clean up before training resumes from `newest`, or starts: remove what a killed process left unfinished, and
    rename newer, incomplete checkpoints to `unusable-checkpoint-80`, since their names will be needed again."""
    for left in (*folder.glob(STAGING), *folder.glob(f"{REMOVING}*")):
        shutil.rmtree(left)
    for path in _list_checkpoints(folder):
        if newest is None or read_step(path) > read_step(newest):
            aside = folder / f"{UNUSABLE}{path.name}"
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)


def list_needed(cfg: Config) -> list[tuple[str, ...]]:
    """What a resumed run reads from a checkpoint; of several names in one entry, any will do."""
    weights = ("model.safetensors", "model.safetensors.index.json")
    n = processes.count()
    names = [*SAVED_BY.get(cfg.scale.name, ("optimizer.pt",)), "scheduler.pt", "trainer_state.json", PROGRESS, WORK]
    names += ["rng_state.pth"] if n == 1 else [f"rng_state_{rank}.pth" for rank in range(n)]
    names += ALGORITHMS[cfg.algo.name].checkpoint_files
    if cfg.algo.args.get("use_adaptive_entropy"):
        names.append("entropy_ctrl_state.json")
    if cfg.algo.args.get("sync_ref_model"):
        names.append(REFERENCE)
    return [weights if cfg.peft.lora is None else ("adapter_model.safetensors",), *((name,) for name in names)]


def explain_unfit(checkpoint: Path, cfg: Config) -> str | None:
    """Which file is missing, without which training would silently resume as another run; None if none is missing."""
    for names in list_needed(cfg):
        if not any((checkpoint / name).is_file() for name in names):
            return f"{names[0]} is missing"
    return None


def check_newest(run_dir: Path, cfg: Config) -> list[str]:
    """A line if the checkpoint that a run would resume from is not fit for it."""
    newest = find_checkpoint(run_dir).path
    reason = newest and explain_unfit(newest, cfg)
    return [f"resume={run_dir}: {newest.name} cannot be resumed: {reason}"] if reason else []


def _list_checkpoints(folder: Path) -> list[Path]:
    """Folders named checkpoint-STEP, by step."""
    return sorted((path for path in folder.glob("checkpoint-*") if NAME.fullmatch(path.name)), key=read_step)


def _seal(path: Path) -> None:
    """Sync every file to the disk, and then the manifest, which says that they are complete."""
    files = sorted(found for found in path.rglob("*") if found.is_file())
    for found in files:
        _sync(found)
    manifest = path / MANIFEST
    sizes = {str(found.relative_to(path)): found.stat().st_size for found in files}
    manifest.write_text(json.dumps({"files": sizes}, indent=2) + "\n", encoding="utf-8")
    _sync(manifest)
    for found in (*(inner for inner in path.rglob("*") if inner.is_dir()), path):
        _sync(found)


def _sync(path: Path) -> None:
    """Sync a file, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_FOLDER_SYNC or not path.is_dir():
            raise
    finally:
        os.close(descriptor)
