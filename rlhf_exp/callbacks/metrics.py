"""Writes metrics.jsonl during training, stops the run at NaN, and draws the progress bar.

trainer.callback_handler.callbacks.insert(0, MetricsWriter(run_dir, probe, every_steps=5))
trainer.add_callback(QuietProgress())
"""

import math
import time
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerState
from transformers.trainer_callback import ProgressCallback

from rlhf_exp.callbacks.probe import Probe
from rlhf_exp.errors import NonFiniteLoss
from rlhf_exp.runs.folder import append_jsonl, keep_rows

SHOWN = ("reward", "loss", "probe/kl", "completions/mean_length")


class MetricsWriter(TrainerCallback):
    """Writes metrics.jsonl, adds the probe's figures to TRL's, and stops the run when a loss is not finite."""

    def __init__(self, run_dir: Path, probe: Probe | None, every_steps: int, stop_on_nonfinite: bool = True) -> None:
        self._path = run_dir / "metrics.jsonl"
        self._probe = probe
        self._every_steps = every_steps
        self._stop_on_nonfinite = stop_on_nonfinite
        self._start = 0.0

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """A resumed run keeps the lines up to the checkpoint's step, and continues their `time_s`."""
        kept = keep_rows(self._path, state.global_step)
        self._start = time.perf_counter() - (kept[-1]["time_s"] if kept else 0.0)

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """The callbacks after this one (wandb, tensorboard) get the same `logs`, with the probe's figures in them. Of
        several processes all measure and all stop, and rank 0 writes."""
        if "train_runtime" in logs:
            return
        due = state.global_step % self._every_steps == 0 or state.global_step in (1, state.max_steps)
        if self._probe is not None and due:
            logs.update(self._probe.measure(kwargs["model"]))
        time_s = round(time.perf_counter() - self._start, 3)
        append_jsonl(self._path, {"step": state.global_step, "time_s": time_s, **logs})
        for name in ("loss", "grad_norm", "probe/kl"):  # probe/kl is of the weights after the step
            value = logs.get(name)
            if self._stop_on_nonfinite and value is not None and not math.isfinite(float(value)):
                raise NonFiniteLoss(
                    f"{name} is {float(value)} at step {state.global_step}; try a lower algo.args.learning_rate"
                    f" (now {args.learning_rate:g}) or algo.args.max_grad_norm (now {args.max_grad_norm:g})"
                )


class QuietProgress(ProgressCallback):
    """The progress bar, which shows the newest figures instead of printing a line per step. It is drawn only if stderr
    is a terminal: a log file would keep every redraw."""

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self.training_bar = tqdm(total=state.max_steps, desc="train", unit="step", dynamic_ncols=True, disable=None)
        self.current_step = 0

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if state.is_world_process_zero and self.training_bar is not None and logs:
            shown = {name.split("/")[-1]: f"{float(logs[name]):.3g}" for name in SHOWN if logs.get(name) is not None}
            if shown:
                self.training_bar.set_postfix(shown, refresh=False)
