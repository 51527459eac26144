"""Callbacks that watch a training run: metrics.jsonl, KL and entropy on a fixed probe, and a stop at NaN.

probe = Probe.from_samples(start_model, prompt_ids, completion_ids, max_tokens=2048)
trainer = build_trainer(..., callbacks=[MetricsWriter(run_dir, probe, every_steps=5)])
"""

import math
import time
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ProgressCallback

from rlhf_exp.callbacks.probe import Probe
from rlhf_exp.runs.folder import append_jsonl, read_metrics, write_jsonl

SHOWN = ("reward", "loss", "probe/kl", "completions/mean_length")


class NonFiniteLoss(RuntimeError):
    """Training produced NaN or infinity; going on would only destroy the weights."""


class MetricsWriter(TrainerCallback):
    """Writes metrics.jsonl, adds the probe's figures to TRL's, and stops the run at a loss that is not finite."""

    def __init__(self, run_dir: Path, probe: Probe | None, every_steps: int, stop_on_nonfinite: bool = True) -> None:
        self._path = run_dir / "metrics.jsonl"
        self._probe = probe
        self._every_steps = every_steps
        self._stop_on_nonfinite = stop_on_nonfinite
        self._start = 0.0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """A resumed run keeps the lines up to the checkpoint's step, and its clock."""
        kept = (
            [row for row in read_metrics(self._path) if row["step"] <= state.global_step] if state.global_step else []
        )
        write_jsonl(self._path, kept)
        self._start = time.perf_counter() - (kept[-1]["time_s"] if kept else 0.0)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any],
        model: PreTrainedModel,
        **kwargs: Any,
    ) -> None:
        """`logs` is shared with the callbacks after this one (wandb, tensorboard): they get the probe's figures too."""
        if not state.is_world_process_zero or "train_runtime" in logs:
            return
        due = state.global_step % self._every_steps == 0 or state.global_step in (1, state.max_steps)
        if self._probe is not None and due:
            logs.update(self._probe.measure(model))
        time_s = round(time.perf_counter() - self._start, 3)
        append_jsonl(self._path, {"step": state.global_step, "time_s": time_s, **logs})
        for name in ("loss", "grad_norm", "probe/kl"):  # the probe sees weights that the next step would sample from
            value = logs.get(name)
            if self._stop_on_nonfinite and value is not None and not math.isfinite(float(value)):
                raise NonFiniteLoss(
                    f"{name} is {float(value)} at step {state.global_step}; try a lower algo.args.learning_rate"
                    f" (now {args.learning_rate:g}) or algo.args.max_grad_norm (now {args.max_grad_norm:g})"
                )


class QuietProgress(ProgressCallback):
    """The progress bar, with the newest figures beside it instead of a printed line a step; none where stderr is not a
    terminal, of whose redraws a log would keep every one."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            self.training_bar = tqdm(total=state.max_steps, desc="train", unit="step", dynamic_ncols=True, disable=None)
        self.current_step = 0

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero and self.training_bar is not None and logs:
            shown = {name.split("/")[-1]: f"{float(logs[name]):.3g}" for name in SHOWN if logs.get(name) is not None}
            if shown:
                self.training_bar.set_postfix(shown, refresh=False)
