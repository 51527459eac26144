"""Ends training early: after a signal, once a checkpoint is saved; and if the loss cannot change any weight, so that
the run would train to its end and hand back the start model.

trainer.add_callback(CheckGradients())     # raises NoGradient in training
trainer.callback_handler.callbacks.insert(0, SaveAndStop(signals))
"""

from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rlhf_exp import processes
from rlhf_exp.errors import NoGradient
from rlhf_exp.runs.stopping import StopSignals

ENOUGH = 10
"""So many steps without a gradient end the run; in a shorter run all of them."""

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

    def on_save(self, args: Any, state: Any, control: TrainerControl, **kwargs: Any) -> None:
        if self._signals.received:
            control.should_training_stop = True

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        self._signals.may_wait = False


class CheckGradients(TrainerCallback):
    """Ends a run on given rows in whose first steps no weight has a gradient other than 0; NaN counts as one. A loss
    may reach 0 later, so from the first gradient on it looks no more. The rate plays no part: its warm-up may begin at
    0. Rows that are sampled are left out, since groups of equal rewards give no gradient either.

    Not looked at: a resumed run, and gradients that DeepSpeed or an optimizer does not keep where torch does.
    """

    def __init__(self) -> None:
        self._is_looking = True
        self._steps = 0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        unseen = args.deepspeed or any(part in str(args.optim) for part in WITHIN_BACKWARD)
        self._is_looking = not (unseen or state.global_step)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Of several processes each may have no part of a weight, and all decide alike."""
        if self._is_looking:
            grads = (parameter.grad for parameter in model.parameters() if parameter.grad is not None)
            own = any(bool(_local(grad).any()) for grad in grads)
            self._is_looking = not processes.sum_over_ranks([float(own)])[0]
            self._steps += 1
            if self._steps == ENOUGH:
                self._refuse()

    def on_train_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if self._steps and state.global_step >= state.max_steps:  # not after a signal
            self._refuse()

    def _refuse(self) -> None:
        if self._is_looking:
            raise NoGradient(
                f"the loss cannot change the model: the gradients of all weights were 0 in {self._steps} steps; look"
                " for a value of algo.args that makes the loss constant"
            )


def _local(grad: torch.Tensor) -> torch.Tensor:
    """This process's part of a gradient that fully_shard has divided."""
    return grad.to_local() if hasattr(grad, "to_local") else grad
