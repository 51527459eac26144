"""The training stage: TRL's trainer with this package's callbacks, from the first step or from a checkpoint.

train(experiment, probe, signals)       # the trained model is then in run_dir/model
"""

from functools import partial
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from rlhf_exp import processes
from rlhf_exp.analysis.diagnose import find_alarms
from rlhf_exp.analysis.report import write_live
from rlhf_exp.callbacks.alarms import Alarms
from rlhf_exp.callbacks.completions import CompletionsWriter
from rlhf_exp.callbacks.compute import ComputeMeter
from rlhf_exp.callbacks.metrics import MetricsWriter, Probe, QuietProgress
from rlhf_exp.callbacks.validation import Best, Validate, WritePage
from rlhf_exp.errors import AlarmStop, Stop, tell
from rlhf_exp.evaluation.evaluators import Validation
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.adapters import record_base
from rlhf_exp.models.scoring import Model
from rlhf_exp.preflight.first_steps import FirstSteps
from rlhf_exp.runs.checkpoints import clear_unfinished, find_checkpoint, read_step
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.runs.load import load_run
from rlhf_exp.runs.manifest import replace_folder, staged
from rlhf_exp.runs.records import Measurement
from rlhf_exp.runs.stopping import StopSignals
from rlhf_exp.trainers import build_trainer
from rlhf_exp.trainers.resuming import Resumable
from rlhf_exp.trainers.rollouts import Rollouts
from rlhf_exp.trainers.vllm import EngineCallback


def train(experiment: Experiment, probe: Probe | None, signals: StopSignals) -> None:
    """Train the start model, and save the result: the last policy, or with `eval.best` the best one.

    Raises:
        Stop: a signal or an alarm asked the run to end; its checkpoint is written.
    """
    cfg, folder, trainer = experiment.cfg, experiment.folder, build_trainer(experiment)

    def save(path: Path) -> None:
        trainer.save_model(str(path))
        if processes.is_main():
            (path / "training_args.bin").unlink(missing_ok=True)  # a pickle; the config is in .hydra
            if cfg.peft.lora is not None and cfg.hub.base_model is not None:
                record_base(path, cfg.hub.base_model)

    validation = Validation(experiment) if cfg.eval.every is not None else None
    best = Best(folder, validation.metric, save) if validation is not None and cfg.eval.best else None
    meter = add_callbacks(trainer, experiment, probe, signals, validation, best)
    train_from_checkpoint(trainer, folder, meter, resumed=cfg.resume is not None)
    if received := processes.broadcast(signals.received):
        raise Stop(received)
    if signals.alarm and not trainer.is_over():
        raise AlarmStop(signals.alarm)
    model = folder.path / "model"
    if best is None:
        with processes.enter_on_main(staged(folder.path, model.name)) as staging:
            save(staging / model.name)
    elif best.path is not None and best.path != model:  # it is there already if a run is resumed after training
        processes.on_main(replace_folder, best.path, model)


def add_callbacks(
    trainer: Resumable, experiment: Experiment, probe: Probe | None, signals: StopSignals,
    validation: Validation | None, best: Best | None,
) -> ComputeMeter:  # fmt: skip
    """Add this package's callbacks. The meter and the validation come before the writer, and the writer before all
    others, since each sees only what earlier ones have added to the logs; the page comes after the alarms."""
    for printed in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printed)
    cfg, monitor, callbacks = experiment.cfg, experiment.cfg.monitor, trainer.callback_handler.callbacks
    folder = experiment.folder.path
    run = load_run(folder)
    find = partial(find_alarms, config=run.config, evaluation=run.evaluation, room=run.info.context_room)
    if validation is not None:
        callbacks.insert(0, WritePage(partial(write_live, folder)))
    callbacks.insert(0, Alarms(folder, find, monitor, signals))
    callbacks.insert(0, MetricsWriter(folder, probe, monitor.every_steps))
    if validation is not None and cfg.eval.every is not None:

        def measure(policy: Model, step: int) -> Measurement:
            """Without PPO's critic, whose weights would be gathered too. FSDP2 also hangs in the first backward pass if
            the first forward pass, which names its root, was one of a policy with a separate critic."""
            with trainer.policy_alone():
                return validation.measure(policy, step)

        callbacks.insert(0, Validate(folder, measure, cfg.eval.every, best))
    if not trainer.args.disable_tqdm:
        trainer.add_callback(QuietProgress())
    if isinstance(trainer, Rollouts):
        if cfg.algo.args.get("use_vllm"):
            trainer.add_callback(EngineCallback(trainer))
        if monitor.completions:
            trainer.add_callback(CompletionsWriter(trainer, experiment.folder.path, monitor.completions))
    if cfg.preflight == "on":
        trainer.add_callback(FirstSteps(trainer, experiment))
    meter = ComputeMeter(cfg.train_tokens)
    trainer.add_callback(KeepRecord(experiment.folder, meter))
    meter.watch(trainer)
    callbacks.insert(0, SaveAndStop(signals))
    return meter


class SaveAndStop(TrainerCallback):
    """From the signal or the alarm on, asks for a checkpoint after every step, and ends training once one is saved. It
    must be the first callback, since a later one may postpone the saving."""

    def __init__(self, signals: StopSignals) -> None:
        self._signals = signals

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        self._signals.may_wait = True

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """With several processes each may get the signal at another step; all save after the same one."""
        self._signals.received = max(filter(None, processes.gather(self._signals.received)), default=None)
        if self._signals.received or self._signals.alarm:
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: TrainerControl, **kwargs: Any) -> None:
        if self._signals.received or self._signals.alarm:
            control.should_training_stop = True

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        self._signals.may_wait = False


class KeepRecord(TrainerCallback):
    """Writes into run.json how far training has come: all that is known of a run that is killed."""

    def __init__(self, folder: RunFolder, meter: ComputeMeter) -> None:
        self._folder, self._meter = folder, meter

    def on_log(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        _record(self._folder, self._meter, state.global_step)
        self._folder.save()

    on_save = on_log


def train_from_checkpoint(trainer: Resumable, folder: RunFolder, meter: ComputeMeter, resumed: bool) -> None:
    """Train, from the last whole checkpoint if the run is resumed. Steps, tokens and compute are recorded however
    training ends."""
    newest = processes.on_main(find_checkpoint, folder.path)
    start = newest.path if resumed else None
    for line in newest.broken:
        tell(f"{line}; put aside, {f'resuming from {start.name}' if start else 'starting anew'}")
    if start:
        tell(f"resuming after step {read_step(start)}")
    processes.on_main(clear_unfinished, Path(trainer.args.output_dir), start)
    try:
        trainer.train(resume_from_checkpoint=str(start) if start else None)
    finally:
        for callback in trainer.callback_handler.callbacks:
            if isinstance(callback, QuietProgress) and callback.training_bar is not None:
                callback.training_bar.close()  # after an error it would be drawn over the message
        _record(folder, meter, trainer.state.global_step)


def _record(folder: RunFolder, meter: ComputeMeter, steps: int) -> None:
    for name, value in {"steps": steps, **meter.count_tokens(), "work": meter.counts}.items():
        setattr(folder.record, name, value)
