"""One experiment, a call per stage: check, load, baseline, train, evaluate, diagnose, report, push.

    status = run(cfg, Path("outputs/x"), build_args(cfg))     # 0: the folder holds a finished run

However the run ends, run.json says how, and the folder holds all that was measured until then.
"""

import shlex
import shutil
import time
import traceback
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path

import torch
from huggingface_hub import HfApi
from transformers import PreTrainedTokenizerBase, TrainingArguments

from rlhf_exp import processes
from rlhf_exp.analysis.diagnose import diagnose_run
from rlhf_exp.analysis.diagnose.advice import advise
from rlhf_exp.analysis.diagnose.signals import Signals
from rlhf_exp.analysis.report import terminal_table, write_report
from rlhf_exp.config.defaults import explain_rows, read_settings
from rlhf_exp.config.hub import is_hub_id
from rlhf_exp.config.schema import Config
from rlhf_exp.describe.figures import list_rows, write_data
from rlhf_exp.dry_run.load import build_on_meta
from rlhf_exp.errors import FAILED, ConfigError, NonFiniteLoss, Stop, name_error, read_message, say, tell, within
from rlhf_exp.evaluation.completions import EvalSet
from rlhf_exp.evaluation.draw import sample
from rlhf_exp.evaluation.evaluators import PolicyEvaluator, ScorerEvaluator
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import find_teacher, load_tokenizer, resolve_model, set_up_libraries
from rlhf_exp.models.source import locate_reward_model, locate_start_model
from rlhf_exp.preflight import check_room, run_preflight
from rlhf_exp.preflight.check import Check
from rlhf_exp.rewards import build_rewards
from rlhf_exp.runs.checkpoints import FOLDER
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.runs.inputs import check_inputs, hash_inputs, hash_rows
from rlhf_exp.runs.load import load_run
from rlhf_exp.runs.records import Evaluation, read_record, write
from rlhf_exp.runs.stopping import StopSignals, describe_restart, describe_stop
from rlhf_exp.tasks import load_held_out, load_task
from rlhf_exp.tasks.prompts import check_budget, check_context, check_rows, check_tools, check_vocabulary
from rlhf_exp.tasks.sampled import learn_from
from rlhf_exp.train import train
from rlhf_exp.trainers import find_trainer

LEFT_OUT = "critic/*"
"""What is not pushed: PPO's critic. A model is used without it."""


def run(cfg: Config, run_dir: Path, args: TrainingArguments) -> int:
    """Run the experiment into `run_dir` with TRL's `args` (build_args); returns the exit status.

    Raises:
        ConfigError: a user's mistake that shows only with the data or the model loaded.
        BaseException: any other error, which is already recorded in run.json.
    """
    folder = RunFolder.create(run_dir, processes.on_main(_list_facts, cfg))
    with StopSignals() as signals:
        try:
            _run_stages(cfg, folder, args, signals)
        except BaseException as error:  # SystemExit too: a reward may raise it, and the run has not finished
            return _end(cfg, folder, signals, error)
        folder.finish("finished")
        if not cfg.keep_checkpoints and processes.is_main() and read_record(run_dir).status == "finished":
            shutil.rmtree(run_dir / FOLDER, ignore_errors=True)
        if cfg.preflight == "only":
            tell(f"preflight=only: nothing was trained; {folder.path / 'preflight.json'} holds the figures")
            return 0
        return _report_and_push(cfg, folder) if processes.is_main() else 0


def _end(cfg: Config, folder: RunFolder, signals: StopSignals, error: BaseException) -> int:
    """Close the record of a run that did not finish; returns the exit status of a signal, and raises any other error.
    It is said how to go on after a signal, and after what is not finite."""
    cause = _find_failed_rank(folder.path)
    if not processes.is_main() and not isinstance(error, KeyboardInterrupt):
        _record_failed_rank(folder, error)
    elif isinstance(error, ConfigError) and cfg.resume:
        folder.restore_record()
    elif isinstance(error, ConfigError):  # a refused run may be overwritten by another one
        folder.finish("refused", "; ".join(error.problems))
    elif isinstance(error, KeyboardInterrupt) and cause is None:  # else another rank has failed, and torchrun ends all
        stop = Stop.of(error)
        folder.finish("stopped", stop.name)
        tell(f"\n{describe_stop(stop, folder.path)}")
        with suppress(KeyboardInterrupt):
            _report_what_there_is(folder)
        return stop.status
    else:
        signals.are_ignored = processes.count() > 1  # torchrun now ends all ranks
        folder.finish("failed", cause or f"{type(error).__name__}: {read_message(error)}")
        _report_what_there_is(folder)
        if isinstance(error, NonFiniteLoss) and "train" not in folder.record.seconds:
            name = cfg.model.path or cfg.model.name
            tell(f"\nNothing was trained yet: it is the weights of {name}, or model.dtype={cfg.model.dtype}")
        elif isinstance(error, NonFiniteLoss):
            run = Signals([], Evaluation(), asdict(cfg))
            lower = [change.override for change in advise(run, [[run.lower_rate(4)]])[0]]
            lower += ["model.init=null"] * (cfg.model.init is not None)
            tell(f"\n{describe_restart(folder.path, lower)}")
        if cause:
            raise RuntimeError(cause) from error
    raise error


def _record_failed_rank(folder: RunFolder, error: BaseException) -> None:
    """Write why this rank, above 0, has failed. Rank 0 gets time to end the run first, if it has the same error, or one
    that this error follows from."""
    time.sleep(processes.GRACE_S)
    if read_record(folder.path).status != "running":
        return
    line = f"process {processes.rank()}: {name_error(error)}"
    log = folder.path / f"error-{processes.rank()}.log"
    with suppress(OSError):
        log.write_text(f"{line}\n{''.join(traceback.format_exception(error))}", encoding="utf-8")
        failed = folder.record.model_copy(update={"status": "failed", "error": line})
        write(folder.path / "run.json", failed, any_rank=True)


def _find_failed_rank(folder: Path) -> str | None:
    """The line about the rank above 0 that failed first; None if none has."""
    logs = sorted(folder.glob("error-*.log"), key=lambda log: log.stat().st_mtime)
    return f"{logs[0].read_text(encoding='utf-8').splitlines()[0]} (traceback in {logs[0]})" if logs else None


def _report_and_push(cfg: Config, folder: RunFolder) -> int:
    """Report on a finished run and push its model; if that fails the run still counts as finished."""
    later = shlex.join(["python", "-m", "rlhf_exp", "report", str(folder.path)])
    try:
        with folder.phase("report"):
            _write_report(folder)
        tell(terminal_table(folder.path), is_printable=True)
        if cfg.hub.push:
            later += f"; push it with: {push_command(cfg, folder.path)}"
            with folder.phase("push"):
                folder.record.pushed = push(cfg, folder.path)
            if folder.record.pushed:
                tell(f"pushed       {folder.record.pushed}")
    except KeyboardInterrupt as error:
        stop = Stop.of(error)
        tell(f"\nFinished; {stop.name} cut off its report. Write it with: {later}")
        return stop.status
    except OSError as error:
        say(f"the run has finished, but its report cannot be written, {error.strerror or error}; once it can: {later}")
        return FAILED
    return 0


def _run_stages(cfg: Config, folder: RunFolder, args: TrainingArguments, signals: StopSignals) -> None:
    set_up_libraries(cfg)
    experiment, memory = _load(cfg, folder, args)
    evaluator = (ScorerEvaluator if cfg.algo.row.scores else PolicyEvaluator)(experiment)
    with folder.phase("baseline"):
        probe = evaluator.measure_start_model()
    if cfg.algo.row.trains and memory is not None:
        with folder.phase("preflight"):
            run_preflight(experiment, {name: one.completions for name, one in evaluator.measured.items()}, memory)
    if cfg.preflight == "only":
        return
    if isinstance(evaluator, PolicyEvaluator) and getattr(cfg.task, "baselines", False):
        with folder.phase("baselines"):
            evaluator.measure_baselines()
    if not cfg.algo.row.trains:
        return
    with folder.phase("train"):
        train(experiment, probe, signals)
    with folder.phase("evaluate"):
        evaluator.measure_trained_model()


def _load(cfg: Config, folder: RunFolder, args: TrainingArguments) -> tuple[Experiment, Check | None]:
    """Load the parts of the experiment, and check that they fit together and into memory, and that a resumed run has
    the same. If the task has no rows to learn from, they are then sampled from the start model. The check of the memory
    is returned too, None where nothing is checked."""
    memory = None
    with folder.phase("load"):
        model = resolve_model(cfg, folder.path)
        if cfg.peft.lora is not None:
            build_on_meta(cfg, deepcopy(model.config))
        tokenizer = load_tokenizer(model)
        teacher = find_teacher(cfg, model, tokenizer)
        task = load_task(cfg, tokenizer)
        check_vocabulary(tokenizer, task, model.config.get_text_config().vocab_size)
        folder.record.context_room = check_context(cfg, tokenizer, task)
        check_rows(cfg, task)
        check_tools(cfg, tokenizer, task)
        if line := explain_rows(cfg):
            tell(line)
    if cfg.resume is None and cfg.preflight != "off":
        memory = check_room(Experiment(cfg, folder, model, tokenizer, task, [], args))
    if cfg.learns_from_samples:
        samples = Path(cfg.task.samples or "self")
        if cfg.task.samples in (None, "self"):
            with folder.phase("sample", announced=False):  # the samples' own folder says it
                samples = sample(cfg, folder.path / "samples", model, tokenizer)
        task = learn_from(cfg, task, samples)
    with folder.phase("load"):
        inputs = {"start model": model.identify(), "rows to train on": hash_rows(task.train)}
        check_inputs(cfg, folder, inputs | {"held-out rows": hash_rows([*task.eval, *task.pairs])})
        rows = {"train": task.train, "held_out": task.eval, "held_out_pairs": task.pairs}
        folder.record.rows = {name: len(found) for name, found in rows.items()}
        for note in task.notes:
            tell(note)
        write_data(folder.path, task.facts, list_rows(cfg, task), tokenizer)
        rewards = build_rewards(cfg, task)
        if cfg.algo.trainer is not None:
            find_trainer(cfg.algo)
        for key, of in cfg.list_reward_models().items():
            if is_hub_id(str(of.reward.path)):
                check_inputs(cfg, folder, {key: locate_reward_model(of).identify()})
        if teacher is not None:
            check_inputs(cfg, folder, {"teacher.path": teacher.identify()})
        vocabulary = model.config.get_text_config().vocab_size
        sets = {name: load_set(name, of, tokenizer, vocabulary) for name, of in cfg.sets.items()}
        check_inputs(cfg, folder, {f"rows of {name}": hash_rows(of.rows) for name, of in sets.items()})
    return Experiment(cfg, folder, model, tokenizer, task, rewards, args, sets, teacher), memory


def load_set(name: str, cfg: Config, tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> EvalSet:
    """The rows of one of `eval.sets`, with its grader and rewards; `cfg` is of the set (Config.sets).

    Raises:
        ConfigError: rows or rewards that cannot be used, in lines that begin with the set.
    """
    with within(f"eval.sets.{name}", is_key=True):
        task = load_held_out(cfg, tokenizer, cfg.eval.split, cfg.eval.limit)
        check_vocabulary(tokenizer, task, vocabulary)
        check_budget(cfg, tokenizer, task.eval)
        return EvalSet.of(cfg, task, tokenizer, build_rewards(cfg, task))


def _list_facts(cfg: Config) -> dict[str, object]:
    return {
        "name": cfg.run.name,
        "tags": cfg.run.tags,
        "algo": cfg.algo.name,
        "task": cfg.task.name,
        "model": locate_start_model(cfg).name,
        "parameters": read_settings(cfg).shape.parameters,
        "loss_type": cfg.algo.args.get("loss_type"),
        "seed": cfg.seed,
        "max_tokens": cfg.max_tokens,
        "inputs": hash_inputs(cfg),
        "scale": cfg.scale.name,
        "preflight": cfg.preflight,
        "device": f"cpu, {torch.get_num_threads()} threads" if cfg.device.use_cpu else torch.cuda.get_device_name(),
    }


def push(cfg: Config, run_dir: Path) -> str | None:
    """Upload `run_dir/model` in one commit, into a new repository if there is none. If that fails, one line says why
    and how to push later; the run has finished all the same.

    Returns:
        the address of the commit; None if it failed.
    """
    hub = HfApi(library_name="rlhf_exp")
    model, repo, title = run_dir / "model", str(cfg.hub.repo), f"Trained by rlhf_exp: {run_dir.name}"
    try:
        hub.create_repo(repo, private=cfg.hub.private, exist_ok=True)
        done = hub.upload_folder(repo_id=repo, folder_path=model, ignore_patterns=LEFT_OUT, commit_message=title)
    except Exception as error:  # of the network, the token or the repository; they have no common base class
        later = f"push later with: {push_command(cfg, run_dir)}"
        say(f"the run has finished, but {repo} was not pushed ({name_error(error)}); {later}")
        return None
    return done.commit_url


def push_command(cfg: Config, run_dir: Path) -> str:
    """The command of huggingface_hub that pushes the same."""
    private = ["--private"] if cfg.hub.private else []
    return shlex.join(["hf", "upload", str(cfg.hub.repo), str(run_dir / "model"), ".", "--exclude", LEFT_OUT, *private])


def _write_report(folder: RunFolder) -> None:
    """Write the findings and the report from what the folder holds, also for a failed run."""
    write(folder.path / "diagnosis.json", diagnose_run(load_run(folder.path)))
    write_report([folder.path], folder.path)


def _report_what_there_is(folder: RunFolder) -> None:
    """Write the report of a run that did not finish. An error here must not hide the error that ended the run."""
    try:
        if processes.is_main():
            _write_report(folder)
    except Exception as error:
        say(f"no report was written: {name_error(error)}")
