"""Finds what a run has saved to resume from: its checkpoints, and with `eval.best` its best policy. Imports no ML
library.

    find_checkpoint(run_dir)         # (path=.../checkpoint-40, broken=["checkpoint-80: optimizer.pt is missing"])
    rotate(run_dir / "checkpoints", keep=1)
    find_best(run_dir)               # (path=.../best-40, facts=Best(step=40, metric="validation/accuracy", ...))

Checkpoints are written by manifest.staged. A process may be killed, or a machine lose its power, between any two lines:
an earlier whole checkpoint is then still there. best.json lies beside a best policy's weights, first in best-STEP/,
then in model/.
"""

import re
import shutil
from math import inf, isnan
from pathlib import Path
from typing import NamedTuple

from rlhf_exp import processes
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.inputs import BEST
from rlhf_exp.runs.manifest import REMOVING, STAGING, explain_broken, explain_damage
from rlhf_exp.runs.records import Best, read

FOLDER, UNUSABLE = "checkpoints", "unusable-"
NAME = re.compile(r"checkpoint-(\d+)")
PROGRESS, REFERENCE, WORK = "progress.json", "reference.safetensors", "work.json"


class NewestCheckpoint(NamedTuple):
    """The newest whole checkpoint, and a line about each newer one that is incomplete or damaged."""

    path: Path | None
    broken: list[str]


class BestPolicy(NamedTuple):
    """A policy that was the best when it was measured."""

    path: Path
    facts: Best

    @property
    def value(self) -> float:
        """The lowest of all if its figure is not a number."""
        return -inf if isnan(self.facts.value) else self.facts.value


def find_checkpoint(run_dir: Path, by_size: bool = False) -> NewestCheckpoint:
    """Look for the newest whole checkpoint of a run; changes nothing. `by_size`: without its hashes, where none will be
    read."""
    broken: list[str] = []
    for path in reversed(_list_checkpoints(run_dir / FOLDER)):
        reason = explain_broken(path, by_size)
        if reason is None:
            return NewestCheckpoint(path, broken)
        broken.append(f"{path.name}: {reason}")
    return NewestCheckpoint(None, broken)


def read_step(path: Path) -> int:
    """The optimizer step of `checkpoint-40`: 40."""
    return int(path.name.rpartition("-")[2])


def name_of_rank(name: str) -> str:
    """Each of several processes has its own progress: `progress.json` of rank 0, `progress-1.json` of rank 1."""
    path = Path(name)
    return name if processes.is_main() else f"{path.stem}-{processes.rank()}{path.suffix}"


def rotate(folder: Path, keep: int | None) -> None:
    """Remove all checkpoints except the newest `keep`; none if that is None or 0.

    Each is renamed first, since an interrupted removal leaves some of its files.
    """
    for path in _list_checkpoints(folder)[: -keep if keep else 0]:
        shutil.rmtree(path.rename(folder / f"{REMOVING}{path.name}"))


def clear_unfinished(folder: Path, newest: Path | None) -> None:
    """Before training resumes from `newest`, or starts: remove what a killed process left unfinished, and rename newer,
    incomplete checkpoints to `unusable-checkpoint-80`, since their names will be needed again."""
    for left in (*folder.glob(STAGING), *folder.glob(f"{REMOVING}*")):
        shutil.rmtree(left)
    for path in _list_checkpoints(folder):
        if newest is None or read_step(path) > read_step(newest):
            aside = folder / f"{UNUSABLE}{path.name}"
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)


def find_best(run_dir: Path) -> BestPolicy | None:
    """Look for the best policy in a run's folder, of equal ones the first; changes nothing.

    Raises:
        ConfigError: one is damaged.
    """
    found = list[BestPolicy]()
    for path in (*run_dir.glob("best-*"), run_dir / "model"):
        # In model/ reports write cards.
        if path.is_dir() and (reason := explain_damage(path) if path.name == "model" else explain_broken(path)):
            why = f"{reason}; remove the folder, and the best policy is looked for from the resumed step on"
            raise ConfigError([f"{path}: {why}"])
        if (path / BEST).is_file():
            found.append(BestPolicy(path, read(path / BEST, Best)))
    return min(found, key=lambda policy: (-policy.value, policy.facts.step), default=None)


def _list_checkpoints(folder: Path) -> list[Path]:
    """Folders named checkpoint-STEP, by step."""
    return sorted((path for path in folder.glob("checkpoint-*") if NAME.fullmatch(path.name)), key=read_step)
