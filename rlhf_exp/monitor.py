"""Callbacks that watch a training run: metrics.jsonl, KL and entropy on a fixed probe, and a stop at NaN.

probe = Probe.from_samples(start_model, prompt_ids, completion_ids, max_tokens=2048)
trainer = build_trainer(..., callbacks=[MetricsWriter(run_dir, probe, every_steps=5)])
"""

import math
import time
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ProgressCallback

from rlhf_exp.run_folder import append_jsonl, read_metrics, write_jsonl

SHOWN = ("reward", "loss", "probe/kl", "completions/mean_length")


class NonFiniteLoss(RuntimeError):
    """Training produced NaN or infinity; going on would only destroy the weights."""


class Probe:
    """Completions of the start model, fixed for a run, on which the policy's next-token distributions are measured."""

    def __init__(self, rows: list[tuple[list[int], list[int]]], batch_size: int, pad_id: int) -> None:
        self._batches = [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
        self._pad_id = pad_id
        self._start_logps: list[torch.Tensor] = []

    @classmethod
    def from_samples(
        cls,
        start_model: PreTrainedModel,
        rows: list[tuple[list[int], list[int]]],
        max_tokens: int,
        pad_id: int,
        batch_size: int = 16,
    ) -> "Probe":
        """Take (prompt ids, completion ids) rows until `max_tokens` completion tokens, and keep the start model's
        log-probabilities there: max_tokens x vocabulary float32 values in main memory."""
        kept, left = [], max_tokens
        for prompt, completion in rows:
            if left <= 0:
                break
            kept.append((prompt, completion[:left]))
            left -= len(completion)
        probe = cls(kept, batch_size, pad_id)
        probe._start_logps = [logps.cpu() for logps in probe._logps(start_model)]
        return probe

    def measure(self, policy: PreTrainedModel) -> dict[str, float]:
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
    def _logps(self, model: PreTrainedModel) -> list[torch.Tensor]:
        """For each batch (tokens, vocabulary) float32: the log-probabilities at every completion position."""
        training = model.training
        model.eval()
        found = [completion_logps(model, batch, self._pad_id) for batch in self._batches]
        model.train(training)
        return found


def completion_logps(
    model: PreTrainedModel, rows: list[tuple[list[int], list[int]]], pad_id: int, temperature: float = 1.0
) -> torch.Tensor:
    """`completion_logits` as log-probabilities at `temperature`, in float32."""
    return torch.log_softmax(completion_logits(model, rows, pad_id).float() / temperature, dim=-1)


def completion_logits(model: PreTrainedModel, rows: list[tuple[list[int], list[int]]], pad_id: int) -> torch.Tensor:
    """Next-token logits at every completion position of (prompt ids, completion ids) rows, row after row: (all
    completion tokens, vocabulary), in the model's precision. Right-padded, with positions from 0, so that every
    architecture scores what it sampled."""
    width = max(len(prompt) + len(completion) for prompt, completion in rows)
    ids = torch.tensor([p + c + [pad_id] * (width - len(p) - len(c)) for p, c in rows], device=model.device)
    mask = torch.tensor([[1] * (len(p) + len(c)) + [0] * (width - len(p) - len(c)) for p, c in rows])
    skipped = min(len(prompt) for prompt, _ in rows) - 1  # positions that predict prompt tokens only
    logits = model(
        input_ids=ids, attention_mask=mask.to(model.device), use_cache=False, logits_to_keep=width - skipped
    ).logits[:, skipped - width :]
    picked = [
        row[len(p) - 1 - skipped : len(p) + len(c) - 1 - skipped] for row, (p, c) in zip(logits, rows, strict=True)
    ]
    return torch.cat(picked) if len(picked) > 1 else picked[0]


def token_kl(logps: torch.Tensor, reference_logps: torch.Tensor) -> torch.Tensor:
    """KL(policy || reference) at each position, in nats, exact over the vocabulary.

    Args:
        logps, reference_logps: (tokens, vocabulary) float32, normalised.

    Returns:
        (tokens,) float32, at least 0: each term is p (r - 1 - log r) with r = q / p, the same sum with no negative
        term to round below zero (Schulman's k3, summed instead of sampled).
    """
    log_ratio = reference_logps - logps
    return (logps.exp() * (torch.expm1(log_ratio) - log_ratio)).sum(-1)


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
