"""Writes validation.jsonl, adds its means to the metrics of training, and keeps the best policy (`eval.best`).

best = Best(folder, "validation/accuracy", trainer.save_model)
callbacks.insert(0, Validate(run_dir, validation.measure, every=10, best=best))
best.path                      # run_dir/best-40; None before the first measurement
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState

from rlhf_exp import processes
from rlhf_exp.runs.folder import RunFolder, append_jsonl, read_metrics, write_jsonl

PARTIAL, ROWS = ".best", "validation.jsonl"


class Best:
    """The policy with the highest figure, of equal ones the first. run.json's `best` says which it is, so that a
    resumed run continues to compare with it."""

    def __init__(self, folder: RunFolder, metric: str, save: Callable[[str], None]) -> None:
        self._folder, self._metric, self._save = folder, metric, save

    @property
    def path(self) -> Path | None:
        """Its folder."""
        found = self._folder.record.get("best")
        path = self._folder.path / f"best-{found['step']}" if found else None
        return processes.on_main(lambda: path if path and path.is_dir() else None)

    def offer(self, step: int, figures: dict[str, float]) -> None:
        """Save the policy of this step if none was better. The one before is removed once it is on disk."""
        value, before = figures[self._metric], self.path
        if before is not None and value <= self._folder.record["best"]["value"]:
            return
        partial, path = self._folder.path / PARTIAL, self._folder.path / f"best-{step}"
        processes.on_main(lambda: shutil.rmtree(partial, ignore_errors=True))
        self._save(str(partial))
        self._folder.record["best"] = {"step": step, "metric": self._metric, "value": value}
        processes.on_main(lambda: self._put(partial, path, before))

    def _put(self, partial: Path, path: Path, before: Path | None) -> None:
        if path.exists():
            shutil.rmtree(path)
        partial.rename(path)
        self._folder.save()
        if before is not None and before != path:
            shutil.rmtree(before)


Rows = dict[str, list[Any]]
"""The `id` of each validation row, and its value of each figure."""


class Validate(TrainerCallback):
    """Comes before the writer of the metrics, which then has the means over the rows in its row of the step."""

    def __init__(
        self, run_dir: Path, measure: Callable[[PreTrainedModel], Rows], every: int, best: Best | None
    ) -> None:
        self._run_dir, self._measure, self._every, self._best = run_dir, measure, every, best
        self._due = False

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """A resumed run keeps the measurements up to the checkpoint's step, as metrics.jsonl does."""
        path = self._run_dir / ROWS
        before = read_metrics(path) if state.global_step else []
        write_jsonl(path, [row for row in before if row["step"] <= state.global_step])

    def on_epoch_begin(self, args: Any, state: TrainerState, control: Any, model: Any = None, **kwargs: Any) -> None:
        """The start model is step 0, which has no row of TRL's."""
        if state.global_step == 0:
            append_jsonl(self._run_dir / "metrics.jsonl", {"step": 0, "time_s": 0.0, **self._look(0, model)})

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        ends = control.should_training_stop or state.global_step >= state.max_steps
        self._due = ends or state.global_step % self._every == 0
        control.should_log |= self._due

    def on_log(
        self, args: Any, state: TrainerState, control: Any, logs: dict[str, Any], model: Any = None, **kwargs: Any
    ) -> None:
        if self._due and "train_runtime" not in logs:
            logs.update(self._look(state.global_step, model))
            self._due = False

    def _look(self, step: int, model: PreTrainedModel) -> dict[str, float]:
        rows = self._measure(model)
        append_jsonl(self._run_dir / ROWS, {"step": step, **rows})
        figures = {f"validation/{name}": fmean(values) for name, values in rows.items() if name != "id"}
        if self._best is not None:
            self._best.offer(step, figures)
        return figures
