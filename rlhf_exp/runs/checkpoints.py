"""Finds what a run has saved to resume from: its checkpoints, and with `eval.best` its best policy. Imports no ML
library.

    find_checkpoint(run_dir)         # (path=.../checkpoint-40, broken=["checkpoint-80: optimizer.pt is missing"])
    rotate(run_dir / "checkpoints", keep=1)
    find_best(run_dir).best          # (path=.../best-40, facts=Best(step=40, metric="validation/accuracy", ...))

Checkpoints are written by manifest.staged. A process may be killed, or a machine lose its power, between any two lines:
an earlier whole checkpoint is then still there. best.json lies beside a best policy's weights, first in best-STEP/,
then in model/.
"""

import re
import shutil
from contextlib import suppress
from math import inf, isnan
from pathlib import Path
from typing import NamedTuple

from rlhf_exp import processes
from rlhf_exp.runs.files import NotARun
from rlhf_exp.runs.inputs import BEST
from rlhf_exp.runs.manifest import REMOVING, STAGING, explain_broken, explain_damage
from rlhf_exp.runs.records import Best, read, read_record

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


class KeptBest(NamedTuple):
    """The best whole policy, and a line about each that is damaged."""

    best: BestPolicy | None
    broken: list[str]
    lost: int | None
    """The step of the best damaged one, if that is better than `best`."""


def find_checkpoint(run_dir: Path, by_size: bool = False, up_to: float = inf) -> NewestCheckpoint:
    """Look for the newest whole checkpoint of a run, of those up to a step; changes nothing. `by_size`: without its
    hashes, where none will be read."""
    broken: list[str] = []
    for path in reversed(_list_checkpoints(run_dir / FOLDER)):
        if read_step(path) > up_to:
            continue
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


def find_best(run_dir: Path) -> KeptBest:
    """Look for the best whole policy in a run's folder, of equal ones the first; changes nothing. run.json says too
    which was the best, where its folder has no best.json, or a damaged one."""
    recorded = read_record(run_dir).best
    damaged = [recorded] if recorded else []
    whole, broken = list[BestPolicy](), list[str]()
    for path in (*run_dir.glob("best-*"), run_dir / "model"):
        # In model/ reports write cards.
        reason = explain_damage(path) if path.name == "model" else explain_broken(path)
        facts = _read_facts(path)
        if reason:
            broken.append(f"{path.name}: {reason}")
            damaged += [facts] if facts else []
        elif facts:
            whole.append(BestPolicy(path, facts))
    best = min(whole, key=lambda policy: _rank(policy.facts), default=None)
    lost = min(damaged, key=_rank, default=None)
    is_better = lost is not None and (best is None or _rank(lost) < _rank(best.facts))
    return KeptBest(best, broken, lost.step if lost and is_better else None)


def _rank(facts: Best) -> tuple[float, int]:
    """Less for a better policy; one whose figure is not a number comes last."""
    return inf if isnan(facts.value) else -facts.value, facts.step


def _read_facts(folder: Path) -> Best | None:
    """best.json; None if there is none, or it is damaged."""
    with suppress(NotARun):
        return read(folder / BEST, Best) if (folder / BEST).is_file() else None
    return None


def _list_checkpoints(folder: Path) -> list[Path]:
    """Folders named checkpoint-STEP, by step."""
    return sorted((path for path in folder.glob("checkpoint-*") if NAME.fullmatch(path.name)), key=read_step)
