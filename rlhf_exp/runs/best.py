"""Finds the best policy that a run has kept (`eval.best`): best.json lies beside its weights, first in best-STEP/, then
in model/. Imports no ML library.

    find_best(run_dir)        # Kept(path=.../best-40, step=40, metric="validation/accuracy", value=0.45)
    explain_lost(run_dir)     # "best-40: model.safetensors is damaged: ..."; None if it is whole
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from rlhf_exp.runs.folder import read_record
from rlhf_exp.runs.inputs import BEST
from rlhf_exp.runs.manifest import explain_damage

LEAST = float("-inf")
"""The value of a policy whose figure is not a number; null in JSON."""


class Kept(NamedTuple):
    """A policy that was the best when it was measured."""

    path: Path
    step: int
    metric: str
    value: float

    @property
    def facts(self) -> dict[str, Any]:
        """What best.json and run.json hold of it."""
        return {"step": self.step, "metric": self.metric, "value": self.value}


def find_best(run_dir: Path) -> Kept | None:
    """The best policy in a run's folder, of equal ones the first; None if there is none.

    Where no folder has a best.json, which older versions did not write, run.json says which it is.
    """
    found = [kept for path in (*run_dir.glob("best-*"), run_dir / "model") if (kept := _read(path, path / BEST))]
    if found:
        return max(found, key=lambda kept: (kept.value, -kept.step))
    recorded = _parse(run_dir / "model", read_record(run_dir).get("best"))
    if recorded and (run_dir / f"best-{recorded.step}").is_dir():
        return recorded._replace(path=run_dir / f"best-{recorded.step}")
    return recorded if recorded and recorded.path.is_dir() else None


def explain_lost(run_dir: Path) -> str | None:
    """Why the best policy of a run that has been measured is not there any more; None if it is."""
    if (kept := find_best(run_dir)) is None:
        return "its best policy so far is gone"
    reason = explain_damage(kept.path)
    return reason and f"its best policy so far is damaged ({kept.path.name}/{reason})"


def _read(folder: Path, file: Path) -> Kept | None:
    try:
        return _parse(folder, json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def _parse(folder: Path, facts: Any) -> Kept | None:
    try:
        value = facts["value"]
        return Kept(folder, int(facts["step"]), str(facts["metric"]), LEAST if value is None else float(value))
    except (ValueError, KeyError, TypeError):
        return None
