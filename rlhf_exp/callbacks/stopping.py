"""Ends training after a signal, once a checkpoint is saved: at the end of the step, or later if none may be saved yet.

trainer.callback_handler.callbacks.insert(0, SaveAndStop(signals))
"""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from rlhf_exp import processes
from rlhf_exp.runs.stopping import StopSignals


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
