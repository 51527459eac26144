"""What training costs in work: the tokens trained on, completions sampled, and forward passes of each network.

    meter = WorkMeter(train_tokens=400_000)
    meter.watch(trainer)                     # forward hooks, and a callback that ends training at that many tokens
    trainer.train()
    meter.counts                             # run.json's `work`

Passes are counted in sequences, not calls, so that 1 x 8 and 2 x 4 rows count alike, and only inside optimizer steps:
what the monitor measures, and a reference that is scored once before the first step (dpo), is no part of them.
"""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from peft import PeftModel
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import SaveStrategy

from rlhf_exp.runs.folder import write_json
from rlhf_exp.runs.unfit import WORK

if TYPE_CHECKING:
    from transformers import Trainer


class WorkMeter(TrainerCallback):
    """Counts of one run, in `counts`:

    trained_tokens: tokens of prompt and completion that went forward and backward through the policy, padding left
        out; each epoch counts again, and so do both sides of a pair.
    train_passes, score_passes: sequences through the policy with and without gradient, from end to end.
    reference_passes, critic_passes: sequences through networks of their own; a reference that is the policy without
        its adapter is in score_passes, a critic that reads the policy's hidden states has no pass.
    completions, decode_passes: sequences that sampling began, and rows through the policy for a token each. vLLM
        samples elsewhere: both stay 0.
    step_seconds: inside optimizer steps, sampling and rewards included; logging, probe and checkpoints are not.
    """

    def __init__(self, train_tokens: int | None = None) -> None:
        self.train_tokens = train_tokens
        names = ("trained_tokens", "train_passes", "score_passes", "reference_passes", "critic_passes")
        self.counts: dict[str, Any] = dict.fromkeys((*names, "completions", "decode_passes"), 0) | {"step_seconds": 0.0}
        self._began: float | None = None  # None between steps, where nothing counts

    def watch(self, trainer: "Trainer") -> None:
        """Hook the trainer's networks, and become its first callback: every other one sees the tokens in the logs."""
        policy = trainer.model.get_base_model() if isinstance(trainer.model, PeftModel) else trainer.model
        _hook(policy, self._count_policy)  # an adapter's `generate` passes its own model by
        for attribute, name in (("ref_model", "reference_passes"), ("critic", "critic_passes")):
            network = getattr(trainer, attribute, None)
            if network is not None and _reads_tokens(network):
                _hook(network, lambda kwargs, name=name: self._add(name, len(kwargs["input_ids"])))
        trainer.callback_handler.callbacks.insert(0, self)
        trainer.checkpoint_writers.append(lambda folder: write_json(folder / WORK, self.counts))
        trainer.budget_spent = self.is_spent

    def is_spent(self) -> bool:
        """Whether the run has trained on as many tokens as it may."""
        return self.train_tokens is not None and self.counts["trained_tokens"] >= self.train_tokens

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """A resumed run goes on from its checkpoint's counts."""
        kept = _checkpoint(args, state) / WORK
        if state.global_step and kept.exists():
            self.counts |= json.loads(kept.read_text(encoding="utf-8"))

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._began = time.perf_counter()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.counts["step_seconds"] += time.perf_counter() - self._began
        self._began = None
        if self.is_spent():
            control.should_training_stop = True
            control.should_save |= args.save_strategy == SaveStrategy.STEPS  # as at the end of max_steps

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, Any], **kwargs: Any
    ) -> None:
        if "train_runtime" not in logs:
            logs["trained_tokens"] = self.counts["trained_tokens"]

    def _count_policy(self, kwargs: dict[str, Any]) -> None:
        ids, mask = kwargs["input_ids"], kwargs.get("attention_mask")
        cache = kwargs.get("past_key_values")
        if cache is not None:
            self._add("decode_passes", len(ids))
            self._add("completions", len(ids) if cache.get_seq_length() == 0 else 0)
        elif torch.is_grad_enabled():
            self._add("train_passes", len(ids))
            self._add("trained_tokens", ids.numel() if mask is None else int(mask.sum()))
        else:
            self._add("score_passes", len(ids))

    def _add(self, name: str, n: int) -> None:
        if self._began is not None:
            self.counts[name] += n


def _hook(network: torch.nn.Module, count: Any) -> None:
    def before(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        count({"input_ids": args[0], **kwargs} if args else kwargs)

    network.register_forward_pre_hook(before, with_kwargs=True)


def _reads_tokens(network: torch.nn.Module) -> bool:
    """Whether it is a network from the embedding on; a head on the policy's hidden states is not."""
    return any(isinstance(module, torch.nn.Embedding) for module in network.modules())


def _checkpoint(args: TrainingArguments, state: TrainerState) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"
