"""Writes validation.jsonl, adds its means to the metrics of training, keeps the best policy (`eval.best`), and has the
run's page written.

best = Best(folder, "validation/accuracy", save)
callbacks.insert(0, Validate(run_dir, validation.measure, every=10, best=best))
best.path                      # run_dir/best-40; None before the first measurement
callbacks.insert(after_the_writer_of_metrics, WritePage(partial(write_live, run_dir)))
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from rlhf_exp import processes
from rlhf_exp.errors import tolerating
from rlhf_exp.models.scoring import Model
from rlhf_exp.runs import records
from rlhf_exp.runs.checkpoints import BestPolicy, find_best
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.runs.inputs import BEST
from rlhf_exp.runs.manifest import staged
from rlhf_exp.runs.records import Measurement, Metrics, append, keep_lines

ROWS = "validation.jsonl"


class Best:
    """The policy with the highest figure, of equal ones the first. best.json beside its weights says which it is, also
    in model/, so that a resumed run continues to compare with it (runs/checkpoints.py); run.json says it too."""

    def __init__(self, folder: RunFolder, metric: str, save: Callable[[Path], None]) -> None:
        self._folder, self._metric, self._save = folder, metric, save
        self._kept: BestPolicy | None = None

    @property
    def path(self) -> Path | None:
        """Its folder."""
        return self._kept and self._kept.path

    def resume(self) -> None:
        """Take up what the run has kept so far."""
        self._kept = processes.on_main(find_best, self._folder.path)
        self._folder.record.best = self._kept and self._kept.facts

    def offer(self, step: int, figures: dict[str, float]) -> None:
        """Save the policy of this step if none was better. The one before is removed once it is on disk."""
        facts = records.Best(step=step, metric=self._metric, value=figures[self._metric])
        new = BestPolicy(self._folder.path / f"best-{step}", facts)
        if self._kept is not None and new.value <= self._kept.value:
            return
        with processes.enter_on_main(staged(self._folder.path, new.path.name)) as staging:
            self._save(staging / new.path.name)
            records.write(staging / new.path.name / BEST, facts)
        self._folder.record.best = facts
        processes.on_main(self._remove_others, new.path)
        self._kept = new

    def _remove_others(self, kept: Path) -> None:
        self._folder.save()
        for before in self._folder.path.glob("best-*"):
            if before != kept:
                shutil.rmtree(before)


class Validate(TrainerCallback):
    """Comes before the writer of the metrics, which then has the means over the rows in its row of the step."""

    def __init__(
        self, run_dir: Path, measure: Callable[[Model, int], Measurement], every: int, best: Best | None
    ) -> None:
        self._run_dir, self._measure, self._every, self._best = run_dir, measure, every, best
        self._due = False

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, model: Any = None, **kwargs: Any) -> None:
        """A resumed run keeps the measurements up to the checkpoint's step, as metrics.jsonl does. If its best policy
        was removed, the checkpoint's takes its place."""
        kept = keep_lines(self._run_dir / ROWS, state.global_step, Measurement)
        if self._best is not None and state.global_step:
            self._best.resume()
            if self._best.path is None:
                known = kept[-1:] and kept[-1].step == state.global_step
                measured = kept[-1] if known else self._measure(model, state.global_step)
                self._best.offer(state.global_step, _average(measured))

    def on_epoch_begin(self, args: Any, state: TrainerState, control: Any, model: Any = None, **kwargs: Any) -> None:
        """The start model is step 0, which has no row of TRL's."""
        if state.global_step == 0:
            row = Metrics.model_validate({"step": 0, "time_s": 0.0, **self._look(0, model)})
            append(self._run_dir / "metrics.jsonl", row)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        ends = control.should_training_stop or state.global_step >= state.max_steps
        self._due = ends or state.global_step % self._every == 0
        control.should_log |= self._due

    def on_log(
        self, args: Any, state: TrainerState, control: Any, logs: Any = None, model: Any = None, **kwargs: Any
    ) -> None:
        if self._due and "train_runtime" not in logs:
            logs.update(self._look(state.global_step, model))
            self._due = False

    def _look(self, step: int, model: Model) -> dict[str, float]:
        measured = self._measure(model, step)
        append(self._run_dir / ROWS, measured)
        figures = _average(measured)
        if self._best is not None:
            self._best.offer(step, figures)
        return figures


class WritePage(TrainerCallback):
    """Has the page of the run written after each measurement. A failure costs a line, and not the run."""

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write

    def on_epoch_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.global_step == 0:
            self._attempt()

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if any(name.startswith("validation/") for name in logs):
            self._attempt()

    def _attempt(self) -> None:
        with tolerating("the page of the running run was not written", Exception):
            if processes.is_main():
                self._write()


def _average(measured: Measurement) -> dict[str, float]:
    return {f"validation/{name}": fmean(values) for name, values in measured.figures.items()}
