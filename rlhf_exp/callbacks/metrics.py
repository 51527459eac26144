"""Writes metrics.jsonl during training, with KL and entropy of the policy on a fixed set of the start model's
completions, the probe; and draws the progress bar.

probe = Probe(start_model, rows, max_tokens=2048, pad_id=0)
probe.measure(policy)     # {"probe/kl": 0.1, "probe/entropy": 1.2}
trainer.callback_handler.callbacks.insert(0, MetricsWriter(run_dir, probe, every_steps=5))
trainer.add_callback(QuietProgress())
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerState
from transformers.trainer_callback import ProgressCallback

from rlhf_exp.models.kl import token_kl
from rlhf_exp.models.scoring import Model, Row, completion_logps, evaluating, split_rows, whole_weights
from rlhf_exp.progress import progress
from rlhf_exp.runs.records import Metrics, append, keep_lines

SHOWN = ("reward", "loss", "probe/kl", "completions/mean_length")


class Probe:
    """Completions of the start model, fixed for a run, at whose tokens the policy's distributions are measured.

    Rows are taken until there are `max_tokens` completion tokens. The start model's log-probabilities at them are kept:
    max_tokens x vocabulary float32 values in main memory.
    """

    def __init__(self, start_model: Model, rows: list[Row], max_tokens: int, pad_id: int) -> None:
        kept, left = [], max_tokens
        for prompt, completion in rows:
            if left <= 0:
                break
            kept.append((prompt, completion[:left]))
            left -= len(completion)
        vocabulary = start_model.config.get_text_config().vocab_size
        self._batches = [[kept[i] for i in batch] for batch in split_rows(kept, vocabulary)]
        self._pad_id = pad_id
        self._start_logps = [logps.cpu() for logps in self._logps(start_model)]

    def measure(self, policy: Model) -> dict[str, float]:
        """KL(policy || start) and the policy's entropy: exact over the whole vocabulary, means over the probe's
        completion tokens, in nats per token, at temperature 1. Neither is negative; KL is 0 for the start model."""
        kl = entropy = 0.0
        tokens = 0
        for logps, start in zip(self._logps(policy), self._start_logps, strict=True):
            kl += token_kl(logps, start.to(logps.device)).sum().item()
            entropy -= (logps.exp() * logps).sum().item()
            tokens += len(logps)
        return {"probe/kl": kl / tokens, "probe/entropy": entropy / tokens}

    @torch.no_grad()
    def _logps(self, model: Model) -> Iterator[torch.Tensor]:
        """For each batch (tokens, vocabulary) float32: the log-probabilities at every completion position."""
        with whole_weights(model), evaluating(model):
            for batch in self._batches:
                yield completion_logps(model, batch, self._pad_id)


class MetricsWriter(TrainerCallback):
    """Writes metrics.jsonl, and adds the probe's figures to TRL's."""

    def __init__(self, run_dir: Path, probe: Probe | None, every_steps: int) -> None:
        self._path = run_dir / "metrics.jsonl"
        self._probe = probe
        self._every_steps = every_steps
        self._start = 0.0

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """A resumed run keeps the lines up to the checkpoint's step, and continues their `time_s`."""
        kept = keep_lines(self._path, state.global_step, Metrics)
        self._start = time.perf_counter() - (kept[-1].time_s if kept else 0.0)

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """The callbacks after this one (wandb, tensorboard) get the same `logs`, with the probe's figures in them. Of
        several processes all measure and all stop, and rank 0 writes."""
        if "train_runtime" in logs:
            return
        due = state.global_step % self._every_steps == 0 or state.global_step in (1, state.max_steps)
        if self._probe is not None and due:
            logs.update(self._probe.measure(kwargs["model"]))
        time_s = round(time.perf_counter() - self._start, 3)
        append(self._path, Metrics.model_construct(step=state.global_step, time_s=time_s, **logs))


class QuietProgress(ProgressCallback):
    """The progress bar, which shows the newest figures instead of printing a line per step; in a log a line now and
    then."""

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self.training_bar = progress(state.max_steps, "train", "step", leave=True)
        self.current_step = 0

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if state.is_world_process_zero and self.training_bar is not None and logs:
            shown = {name.split("/")[-1]: f"{float(logs[name]):.3g}" for name in SHOWN if logs.get(name) is not None}
            if shown:
                self.training_bar.set_postfix(shown, refresh=False)
