"""One experiment, a call per stage: check, load, baseline, train, evaluate, diagnose, report, push.

    status = run(cfg, Path("outputs/x"))     # 0: the folder holds a finished run

However the run ends, run.json says how, and the folder holds all that was measured until then.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from rlhf_exp import orders, processes
from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.hub import is_hub_id
from rlhf_exp.config.schema import Config, learns_from_samples
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.diagnose import diagnose
from rlhf_exp.errors import FAILED, ConfigError, name_error, printable, read_message, say
from rlhf_exp.evaluation.evaluators import PolicyEvaluator, ScorerEvaluator
from rlhf_exp.evaluation.validation import Validation
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import load_tokenizer, resolve_model, set_up_libraries
from rlhf_exp.models.source import ModelSource, locate_reward_model, locate_start_model
from rlhf_exp.push import push, push_command
from rlhf_exp.report import terminal_table, write_report
from rlhf_exp.rewards import build_rewards
from rlhf_exp.runs.checkpoints import check_newest
from rlhf_exp.runs.command import describe_stop
from rlhf_exp.runs.failures import ProcessFailed, find_failure, is_lost, outlast_main, record_failure, watch
from rlhf_exp.runs.folder import RunFolder, write_json
from rlhf_exp.runs.inputs import check_inputs, hash_inputs, hash_rows
from rlhf_exp.runs.load import load_run
from rlhf_exp.runs.stopping import Stop, StopSignals, tell
from rlhf_exp.sample.draw import sample
from rlhf_exp.tasks import Task, load_task
from rlhf_exp.tasks.prompts import check_context, check_rows, check_vocabulary
from rlhf_exp.tasks.sampled import learn_from
from rlhf_exp.train import train
from rlhf_exp.trainers import find_trainer
from rlhf_exp.trainers.vllm import check_server


def run(cfg: Config, run_dir: Path) -> int:
    """Run the experiment into `run_dir`; returns the exit status.

    Raises:
        ConfigError: a user's mistake that shows only with TRL, the data or the model loaded.
        BaseException: any other error, which is already recorded in run.json.
    """
    try:
        facts = processes.on_main(lambda: _check_and_list_facts(cfg, run_dir))
        folder = RunFolder.create(run_dir, facts)
    except RuntimeError as error:
        if is_lost(error):
            raise ProcessFailed(record_failure(run_dir, error)) from error
        raise  # in step: rank 0's error, which the others know
    with StopSignals() as signals:
        return _run(cfg, folder, signals)


def _run(cfg: Config, folder: RunFolder, signals: StopSignals) -> int:
    try:
        with watch(folder):
            _run_stages(cfg, folder, signals)
    except KeyboardInterrupt as error:
        if cause := find_failure(folder.path):  # it is the launcher that stops this process
            raise _fail(folder, signals, cause) from error
        stop = Stop.of(error)
        folder.give_up("stopped", stop.name)
        tell(f"\n{describe_stop(stop, folder.path, signals.saved_step)}")
        with suppress(KeyboardInterrupt):
            _report_what_there_is(folder)
        orders.give_up()
        outlast_main(folder.path)
        return stop.status
    except ConfigError as error:
        # A refused run may be overwritten by another one, but not one that was to be resumed.
        if cfg.resume:
            folder.put_back()
        else:
            folder.give_up("refused", "; ".join(error.problems))
        if not orders.do_all_refuse():
            record_failure(folder.path, error)
        raise
    except BaseException as error:  # SystemExit too: a reward may raise it, and the run has not finished
        if cause := record_failure(folder.path, error):
            raise _fail(folder, signals, cause) from error
        _fail(folder, signals, f"{type(error).__name__}: {read_message(error)}")
        raise
    folder.finish("finished")
    if not processes.is_main():
        return 0
    status = _report(folder)
    return _push(cfg, folder) if cfg.hub.push and status == 0 else status


def _push(cfg: Config, folder: RunFolder) -> int:
    """Push the model of a finished run; if that fails the run still counts as finished."""
    try:
        with folder.phase("push"):
            folder.record["pushed"] = push(cfg, folder.path)
    except KeyboardInterrupt as error:
        stop = Stop.of(error)
        tell(f"\nFinished; {stop.name} cut off the push. Push with: {push_command(cfg, folder.path)}")
        return stop.status
    if folder.record["pushed"]:
        print(f"pushed       {folder.record['pushed']}")
    return 0


def _fail(folder: RunFolder, signals: StopSignals, cause: str) -> ProcessFailed:
    """Close the record of a run that has failed; returns the error for a process whose peer has."""
    signals.are_ignored = processes.count() > 1  # the launcher now ends all processes
    folder.give_up("failed", cause)
    _report_what_there_is(folder)
    return ProcessFailed(cause)


def _report(folder: RunFolder) -> int:
    """Write the report of a finished run and print its figures; if that fails the run still counts as finished."""
    try:
        with folder.phase("report"):
            _write_report(folder)
    except OSError as error:
        reason = f"its report cannot be written, {error.strerror or error}"
        say(f"the run has finished, but {reason}; once it can: python -m rlhf_exp report {folder.path}")
        return FAILED
    except KeyboardInterrupt as error:
        stop = Stop.of(error)
        tell(f"\nFinished; {stop.name} cut off its report. Write it with: python -m rlhf_exp report {folder.path}")
        return stop.status
    print(terminal_table(folder.path))
    return 0


def _run_stages(cfg: Config, folder: RunFolder, signals: StopSignals) -> None:
    folder.check_is_shared()
    set_up_libraries(cfg)
    experiment = _load(cfg, folder)
    evaluator = (ScorerEvaluator if ALGORITHMS[cfg.algo.name].scores else PolicyEvaluator)(experiment)
    with folder.phase("baseline"):
        probe = evaluator.measure_start_model()
    if getattr(cfg.task, "baselines", False) and not ALGORITHMS[cfg.algo.name].scores:
        with folder.phase("baselines"):
            evaluator.measure_policies()
    if not ALGORITHMS[cfg.algo.name].trains:
        return
    with folder.phase("train"):
        train(experiment, probe, signals, Validation(experiment) if cfg.eval.every is not None else None)
    with folder.phase("evaluate"):
        evaluator.measure_trained_model()


def _load(cfg: Config, folder: RunFolder) -> Experiment:
    """Load the parts of the experiment, and check that they fit together, and that a resumed run has the same."""
    with folder.phase("load"):
        args = build_args(cfg)
        model = resolve_model(cfg, folder.path)
        tokenizer = load_tokenizer(model)
    task = _load_rows(cfg, folder, model, tokenizer)
    with folder.phase("load"):
        rewards = build_rewards(cfg, task)
        if cfg.algo.trainer is not None:
            find_trainer(cfg.algo)
        if cfg.reward.path is not None and is_hub_id(cfg.reward.path):
            check_inputs(cfg, folder, {"reward model": locate_reward_model(cfg).identify()})
    return Experiment(cfg, folder, model, tokenizer, task, rewards, args)


def _load_rows(cfg: Config, folder: RunFolder, model: ModelSource, tokenizer: PreTrainedTokenizerBase) -> Task:
    """The task's rows. If the task has none to learn from, they are first sampled from the start model."""
    with folder.phase("load"):
        task = load_task(cfg, tokenizer)
        check_vocabulary(tokenizer, task)
        folder.record["context_room"] = check_context(cfg, tokenizer, task)
        check_rows(cfg, task)
    if learns_from_samples(cfg):
        samples = cfg.task.samples
        if samples in (None, "self"):
            with folder.phase("sample"):
                samples = sample(cfg, folder.path / "samples", model, tokenizer)
        task = learn_from(cfg, task, Path(samples))
    inputs = {"start model": model.identify(), "rows to train on": hash_rows(task.train)}
    folder.record["rows"] = {"train": len(task.train), "held_out": len(task.eval), "held_out_pairs": len(task.pairs)}
    check_inputs(cfg, folder, {**inputs, "held-out rows": hash_rows([*task.eval, *task.pairs])})
    for note in task.notes:
        print(printable(note))
    write_json(folder.path / "data.json", task.facts)
    return task


def _check_and_list_facts(cfg: Config, run_dir: Path) -> dict[str, Any]:
    if problems := check_server(cfg) or (check_newest(run_dir, cfg) if cfg.resume else []):
        raise ConfigError(problems)
    device = "cpu" if cfg.device.use_cpu else torch.cuda.get_device_name()
    return {
        "name": cfg.run.name,
        "tags": cfg.run.tags,
        "algo": cfg.algo.name,
        "task": cfg.task.name,
        "model": locate_start_model(cfg).name,
        "loss_type": cfg.algo.args.get("loss_type"),
        "seed": cfg.seed,
        "max_tokens": cfg.max_tokens,
        "inputs": hash_inputs(cfg),
        "scale": cfg.scale.name,
        "device": f"{device}, {torch.get_num_threads()} threads" if device == "cpu" else device,
    }


def _write_report(folder: RunFolder) -> None:
    """Write the findings and the report from what the folder holds, also for a failed run."""
    run = load_run(folder.path)
    room = run.info.get("context_room")
    write_json(folder.path / "diagnosis.json", diagnose(run.metrics, run.evaluation, run.config, room))
    write_report([folder.path], folder.path)


def _report_what_there_is(folder: RunFolder) -> None:
    """Write the report of a run that did not finish. An error here must not hide the error that ended the run."""
    if not processes.is_main():
        return
    try:
        _write_report(folder)
    except Exception as error:
        say(f"no report was written: {name_error(error)}")
