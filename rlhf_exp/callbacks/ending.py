"""Ends training early: after a signal, once a checkpoint is saved; and if the loss cannot change any weight, so that
the run would train to its end and hand back the start model.

CheckGradients().watch(trainer)     # raises NoGradient in training
trainer.callback_handler.callbacks.insert(0, SaveAndStop(signals))
"""

from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rlhf_exp import processes
from rlhf_exp.errors import NoGradient
from rlhf_exp.runs.stopping import StopSignals
from rlhf_exp.trainers.resuming import Resumable

ENOUGH = 10
"""So many steps with rows to learn from and without a gradient end the run; in a shorter run all of them."""

WITHIN_BACKWARD = ("lomo", "layerwise")
"""Parts of the names of optimizers that use and drop each gradient during the backward pass."""


class SaveAndStop(TrainerCallback):
    """From the signal on, asks for a checkpoint after every step, and ends training once one is saved. It must be the
    first callback, since a later one may postpone the saving."""

    def __init__(self, signals: StopSignals) -> None:
        self._signals = signals

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        self._signals.may_wait = True

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Of several processes each may get the signal at another step, and all save after the same one."""
        self._signals.received = max(processes.gather(self._signals.received), key=lambda found: found or 0)
        if self._signals.received:
            control.should_save = True

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._signals.received:
            self._signals.saved_step = state.global_step
            control.should_training_stop = True

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        self._signals.may_wait = False


class CheckGradients(TrainerCallback):
    """Looks at the policy's gradients at each optimizer step until one is not 0, in a healthy run the first step, and
    then no more: a loss may reach 0 later.

    A step counts only if its rows teach something: given rows always do; sampled ones unless the advantages of all
    tokens that are in the loss are 0, as where all rewards of each group are equal. That may be a control, or
    problems that are too hard so far, and proves nothing: with such rows alone, training takes its course. Nor do the
    steps count in which only PPO's critic learns. The rate plays no part, so that its warm-up may begin at 0.

    Not looked at: a resumed run, and gradients that DeepSpeed or an optimizer does not keep where torch does.
    """

    def __init__(self) -> None:
        self._trainer: Resumable | None = None  # None: no longer looking
        self._teaches = False
        self._without = 0

    def watch(self, trainer: Resumable) -> None:
        """Become a callback, and see the rows of each pass."""
        if trainer.is_deepspeed_enabled or any(part in str(trainer.args.optim) for part in WITHIN_BACKWARD):
            return
        self._trainer, compute_loss = trainer, trainer.compute_loss

        def compute_and_note(model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            self._teaches = self._teaches or _teaches(inputs)
            return compute_loss(model, inputs, *args, **kwargs)

        trainer.compute_loss = compute_and_note  # type: ignore[method-assign]
        trainer.add_callback(self)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.global_step:
            self._stop_looking()

    def on_pre_optimizer_step(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Of several processes each may have rows that teach nothing, or no part of a weight, and all decide alike."""
        if self._trainer is None:
            return
        own = self._teaches, _has_gradient(self._trainer)
        taught, found = processes.sum_over_ranks([float(value) for value in own])
        self._teaches = False
        if found:
            self._stop_looking()
        elif taught and state.global_step >= getattr(args, "critic_warmup_steps", 0):
            self._without += 1
            if self._without == ENOUGH:
                self._refuse()

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if self._without and state.global_step >= state.max_steps:  # not after a signal
            self._refuse()

    def _refuse(self) -> None:
        steps = "the only step" if self._without == 1 else f"each of {self._without} steps"
        raise NoGradient(
            f"the loss cannot change the model: the gradients of all weights were 0 in {steps} with something to learn"
            " from; look for a value of algo.args that makes the loss constant"
        )

    def _stop_looking(self) -> None:
        if self._trainer is not None:
            del self._trainer.compute_loss  # the class's own is then called again
        self._trainer, self._without = None, 0


def _teaches(inputs: dict[str, Any]) -> bool:
    """Whether the rows of a pass have anything to learn from: `advantages` are (batch,) or (batch, time)."""
    if "advantages" not in inputs:
        return True
    advantages = inputs["advantages"]
    return bool((advantages.reshape(len(advantages), -1) * inputs["completion_mask"]).any())


def _has_gradient(trainer: Resumable) -> bool:
    """Whether a weight that training changes has a gradient other than 0; NaN counts. PPO's critic is left out."""
    critic = getattr(trainer, "critic", None)
    others = set() if critic is None else {id(parameter) for parameter in critic.parameters()}
    grads = (parameter.grad for parameter in trainer.model.parameters() if id(parameter) not in others)
    return any(bool(_local(grad).any()) for grad in grads if grad is not None)


def _local(grad: torch.Tensor) -> torch.Tensor:
    """This process's part of a gradient that fully_shard has divided."""
    return grad.to_local() if hasattr(grad, "to_local") else grad
