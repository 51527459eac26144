"""Ends training at a signal, with a checkpoint: at the end of the step, or later where one may not be saved yet.

trainer.callback_handler.callbacks.insert(0, SaveAndStop(signals))
"""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rlhf_exp.runs.stopping import StopSignals


class SaveAndStop(TrainerCallback):
    """Asks for a checkpoint after every step since the signal, and ends training after the one that was saved. It comes
    first: a callback after it may put the saving off."""

    def __init__(self, signals: StopSignals) -> None:
        self._signals = signals

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._signals.may_wait = True

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._signals.received:
            control.should_save = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._signals.received:
            self._signals.saved_step = state.global_step
            control.should_training_stop = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._signals.may_wait = False
