"""Counts what training computes: the tokens trained on, completions sampled, and forward passes of each network.

    meter = ComputeMeter(train_tokens=400_000)
    meter.watch(trainer)                     # forward hooks, and a callback that ends training at that many tokens
    trainer.train()
    meter.counts                             # run.json's `work`

Passes are counted in sequences, not calls, so that 1 x 8 and 2 x 4 rows give the same count, and only inside optimizer
steps: the probe's passes, and those of a reference that is scored once before the first step (dpo, kto), are left out.
"""

import json
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import SaveStrategy

from rlhf_exp import processes
from rlhf_exp.models.generation import CACHE_NAMES
from rlhf_exp.runs.checkpoints import WORK


class ComputeMeter(TrainerCallback):
    """The counts of one run up to the last step, of all processes together, in `counts`:

    trained_tokens: tokens of prompt and completion that the policy learned from, without padding: a prompt counts with
        each of its completions, also where it is computed once for them, a row in every epoch, and a pair with both its
        sides. For algorithms that learn from given rows it is TRL's `num_tokens`.
    prompt_tokens, completion_tokens: of the rollouts, as TRL hands them on, however they were sampled: a prompt counts
        with each of its completions, a completion with its end token, both once. Their sum is TRL's `num_tokens`.
    train_passes, score_passes: whole sequences through the policy, with and without gradient.
    reference_passes, critic_passes: whole sequences through a separate reference or the teacher, or a critic. A
        reference that is the policy without its adapter counts in score_passes; a critic that reads the policy's hidden
        states has no passes.
    completions: of the rollouts.
    decode_passes: passes of one row for one token while sampling, without those that read the prompts, once for several
        completions. 0 with vLLM, which samples with its own copy of the policy.
    step_seconds: time inside optimizer steps, with sampling and rewards; without logging, probe and checkpoints.
    """

    def __init__(self, train_tokens: int | None = None) -> None:
        self.train_tokens = train_tokens
        names = ["trained_tokens", "prompt_tokens", "completion_tokens", "train_passes", "score_passes"]
        names += ["reference_passes", "critic_passes", "completions", "decode_passes"]
        self.counts: dict[str, Any] = dict.fromkeys(names, 0) | {"step_seconds": 0.0}
        self._new = dict.fromkeys(names, 0)  # on this process, in this step
        self._began: float | None = None  # None between steps, where nothing counts

    def watch(self, trainer: Any) -> None:
        """Hook the networks of a `Resumable` trainer, and become its first callback, so that all others see the tokens
        in the logs."""
        found = trainer.model, getattr(trainer, "teacher_model", None)
        networks: list[Any] = [one.get_base_model() if isinstance(one, PeftModel) else one for one in found]
        policy, teacher = networks
        if teacher is not None:  # TRL calls the backbones of both, and computes their logits itself
            policy, teacher = policy.base_model, teacher.base_model
        _hook(policy, self._count_policy)  # the `generate` of an adapter's model does not call that model's forward
        critic, reference = (getattr(trainer, name, None) for name in ("critic", "ref_model"))
        for network, name in ((teacher or reference, "reference_passes"), (critic, "critic_passes")):
            if network is not None and _reads_tokens(network):
                _hook(network, partial(self._count_pass, name))
        trainer.callback_handler.callbacks.insert(0, self)
        trainer.meter = self

    @property
    def share(self) -> float:
        """Of the run's budget of tokens that it has trained on, at most 1; 0 without a budget."""
        return min(1.0, self.counts["trained_tokens"] / self.train_tokens) if self.train_tokens else 0.0

    def is_spent(self) -> bool:
        """Whether the run has trained on its budget of tokens."""
        return self.share == 1

    def count_tokens(self) -> dict[str, int]:
        """What training processed, for run.json: what was sampled (`completion_tokens`), what was read
        (`prompt_tokens`: a rollout's prompts, or else the given rows, prompt and answer), and both (`tokens`)."""
        sampled = self.counts["completion_tokens"]
        given = self.counts["prompt_tokens"] if sampled else self.counts["trained_tokens"]
        return {"tokens": given + sampled, "prompt_tokens": given, "completion_tokens": sampled}

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """A resumed run continues the counts of its checkpoint."""
        kept = Path(args.output_dir) / f"checkpoint-{state.global_step}" / WORK
        if kept.exists():
            self.counts |= json.loads(kept.read_text(encoding="utf-8"))

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self._began = time.perf_counter()

    def on_step_end(self, args: TrainingArguments, state: Any, control: TrainerControl, **kwargs: Any) -> None:
        if self._began is not None:
            self.counts["step_seconds"] += time.perf_counter() - self._began
            self._began = None
        if self.is_spent():
            control.should_training_stop = True
            control.should_save |= args.save_strategy == SaveStrategy.STEPS  # as at the end of max_steps

    def on_optimizer_step(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Between the step and the deletion of its gradients, and before the scheduler sets the next step's rate by
        the tokens."""
        for name, n in zip(self._new, processes.sum_over_ranks(list(self._new.values())), strict=True):
            self.counts[name] += round(n)
            self._new[name] = 0

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if "train_runtime" not in logs:
            logs["trained_tokens"] = self.counts["trained_tokens"]
            logs["sampled_tokens"] = self.counts["completion_tokens"]
            logs["step_seconds"] = round(self.counts["step_seconds"], 3)

    def count_rollout(self, prompt_ids: list[list[int]], completion_ids: list[list[int]]) -> None:
        """Count the token ids of a rollout."""
        self._add("completions", len(completion_ids))
        self._add("prompt_tokens", sum(map(len, prompt_ids)))
        self._add("completion_tokens", sum(map(len, completion_ids)))

    def _count_policy(self, kwargs: Mapping[str, Any]) -> None:
        ids, mask = kwargs["input_ids"], kwargs.get("attention_mask")
        cache = next((kwargs[name] for name in CACHE_NAMES if kwargs.get(name) is not None), None)
        if cache is not None and kwargs.get("labels") is None:  # completions that continue from a prompt have labels
            self._add("decode_passes", len(ids) if cache.get_seq_length() > 0 else 0)
        elif torch.is_grad_enabled():
            self._count_pass("train_passes", kwargs)
            self._add("trained_tokens", ids.numel() if mask is None else int(mask.sum()))
        else:
            self._count_pass("score_passes", kwargs)

    def _count_pass(self, name: str, kwargs: Mapping[str, Any]) -> None:
        """The rows of a pass; packed ones (`algo.args.packing`) each begin at position 0."""
        positions, rows = kwargs.get("position_ids"), len(kwargs["input_ids"])
        if positions is not None and kwargs.get("attention_mask") is None:
            rows = int((positions == 0).sum())
        self._add(name, rows)

    def _add(self, name: str, n: int) -> None:
        if self._began is not None:
            self._new[name] += n


def _hook(network: torch.nn.Module, count: Any) -> None:
    def before(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        count({"input_ids": args[0], **kwargs} if args else kwargs)

    network.register_forward_pre_hook(before, with_kwargs=True)


def _reads_tokens(network: torch.nn.Module) -> bool:
    """Whether the network has an embedding of its own; a head on the policy's hidden states has none."""
    return any(isinstance(module, torch.nn.Embedding) for module in network.modules())
