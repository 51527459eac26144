"""Makes checkpoints atomic: written to a staging folder, listed in a manifest with sizes and hashes (manifest.py), then
renamed; and checks that they hold what a resumed run reads. Imports no ML library.

    with staged(run_dir / "checkpoints", "checkpoint-40") as staging:
        save_into(staging / "checkpoint-40")
    rotate(run_dir / "checkpoints", keep=1)
    find_checkpoint(run_dir)         # Found(path=.../checkpoint-40, broken=["checkpoint-80: optimizer.pt is missing"])
    check_newest(run_dir, cfg)       # ["resume=outputs/x: checkpoint-40 cannot be resumed: optimizer.pt is missing"]

A process may be killed, or a machine lose its power, between any two lines here: an earlier whole checkpoint is then
still there.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rlhf_exp import processes
from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.schema import Config
from rlhf_exp.runs.manifest import REMOVING, explain_broken, seal, sync

FOLDER = "checkpoints"
STAGING, UNUSABLE = ".saving", "unusable-"
NAME = re.compile(r"checkpoint-(\d+)")
PROGRESS, REFERENCE, WORK = "progress.json", "reference.safetensors", "work.json"


SAVED_BY = {"fsdp2": ("optimizer.bin", "pytorch_model_fsdp.bin"), "zero2": ("latest",), "zero3": ("latest",)}
"""What an engine saves instead of optimizer.pt."""


class Found(NamedTuple):
    """The newest whole checkpoint, and a line about each newer one that is incomplete or damaged."""

    path: Path | None
    broken: list[str]


def find_checkpoint(run_dir: Path, by_size: bool = False) -> Found:
    """Look for the newest whole checkpoint of a run; changes nothing. `by_size`: without its hashes, where none will be
    read."""
    broken = []
    for path in reversed(_list_checkpoints(run_dir / FOLDER)):
        reason = explain_broken(path, by_size)
        if reason is None:
            return Found(path, broken)
        broken.append(f"{path.name}: {reason}")
    return Found(None, broken)


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
        seal(staging / name)
        (staging / name).rename(folder / name)
        sync(folder)
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
