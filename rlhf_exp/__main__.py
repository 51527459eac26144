"""The command line: `python -m rlhf_exp algo=grpo task=countdown`.

A user's mistake is one line on stderr and exit status 2; a failed run is status 1, its traceback in the run's
folder. Nothing here or in config.py imports an ML library: that waits until every check of our own has passed.
"""

import os
import sys
import traceback
from dataclasses import replace
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import env_override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp.cli.arguments import prepare_arguments
from rlhf_exp.cli.explain import explain
from rlhf_exp.cli.help import format_help
from rlhf_exp.cli.subcommand import claim, fail, flush, keep_bars_out_of_logs, refuse
from rlhf_exp.cli.sweep import list_jobs, name_job, place_job, refuse_jobs, report_study
from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import parse
from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.config.overrides import check_overrides
from rlhf_exp.config.resolvers import register_resolvers
from rlhf_exp.config.rules.paths import find_missing_weights
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import FAILED, SIGNALLED, ConfigError, say
from rlhf_exp.runs.folder import write_text
from rlhf_exp.runs.lock import link_latest, make_new_once
from rlhf_exp.runs.plan import Plan, check_resume, check_run_folder, plan_job, start_anew
from rlhf_exp.runs.stopping import Stop

TRACED = os.environ.get("HYDRA_FULL_ERROR") == "1"  # the user wants Hydra's traceback


class SweepRefused(BaseException):
    """A job of the sweep cannot run, so none does. Hydra keeps an Exception and calls the next job."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems


def main() -> int:
    """Run what the command line asks for; returns the exit status."""
    keep_bars_out_of_logs()
    try:
        args = prepare_arguments()
        if args.help:
            print(format_help(), end="")
            return 0
        if problems := check_overrides(args.overrides):
            return refuse(problems)
        return _run_jobs(args.overrides)
    except ConfigError as error:
        return refuse(error.problems)
    except KeyboardInterrupt as error:
        return Stop.of(error).status


def run_job(cfg: DictConfig, jobs: int = 0) -> int:
    """Check one composed config and run it; returns its exit status. `jobs` is how many a sweep has, where known."""
    settings = HydraConfig.get()
    where, numbered = "", False
    if settings.mode == RunMode.MULTIRUN:
        job = name_job(settings.job.num, jobs, settings.overrides.task)
        where = f"{job}: "
        place_job(cfg, settings)
        print(f"\n{job}" if settings.job.num else job, flush=True)
    elif "${now:" in OmegaConf.to_container(cfg, resolve=False)["output_dir"]:  # nobody named it
        numbered = True
    try:
        config = parse(cfg, settings.overrides.task, [check_run_folder])
        if problems := find_missing_weights(config):
            raise ConfigError(problems)
        print(f"{_describe(config)}: {config.output_dir}", flush=True)
        prepare_hub(config)
        if config.dry_run:
            from rlhf_exp.dry_run import print_dry_run

            print_dry_run(config)
            return 0
        for note in check_resume(config) if config.resume else ():
            print(note, flush=True)
        plan = plan_job(config) if config.skip_finished and not config.resume else Plan.START
        if plan == Plan.SKIP:
            print(f"finished already: {config.output_dir}", flush=True)
            return 0
        if plan == Plan.RESUME:
            print(f"goes on: {config.output_dir}", flush=True)
            config = replace(config, resume=config.output_dir)
        if "trl" not in sys.modules:
            print("[start] imports torch and TRL", flush=True)
        from rlhf_exp.config.trl_args import build_args

        build_args(config)  # before there is a folder
        with claim(config.output_dir, numbered) as folder:
            if str(folder) != config.output_dir:
                print(f"another run has that folder; this one's is {folder}", flush=True)
            return _run(_settle(config, cfg, plan, folder), folder, where)
    except ConfigError as error:
        return refuse(error.problems, where=where)


def _run_jobs(overrides: list[str]) -> int:
    """Hand over to Hydra, which composes one job or many and calls `run_job` for each."""
    register_resolvers()
    make_new_once.cache_clear()
    OmegaConf.register_new_resolver("rlhf_exp.new_folder", make_new_once, replace=True)
    statuses: list[int] = []
    studies: set[str] = set()
    jobs: list[list[str]] = []

    def job(cfg: DictConfig) -> int:
        settings = HydraConfig.get()
        if settings.mode == RunMode.MULTIRUN and not statuses:
            jobs.extend(list_jobs())
        if settings.mode == RunMode.MULTIRUN and not cfg.dry_run:
            if not statuses:
                _check_sweep(jobs)
            studies.add(settings.sweep.dir)
        try:
            statuses.append(run_job(cfg, len(jobs)))
        except (Exception, SystemExit) as error:  # a bug, before there was a folder: the other jobs still run
            traceback.print_exc()
            say(f"failed: {type(error).__name__}: {error}")
            statuses.append(FAILED)
        if statuses[-1] > SIGNALLED:  # Ctrl-C ends the sweep, not only its job
            raise Stop(statuses[-1] - SIGNALLED)
        return statuses[-1]

    try:
        with env_override({"HYDRA_FULL_ERROR": "1"}):  # raise to us: Hydra's own report is long, its status 1
            hydra.main(config_path=str(ROOT / "conf"), config_name="config", version_base="1.3")(job)()
    except SweepRefused as refused:
        return refuse(refused.problems)
    except (HydraException, OmegaConfBaseException, OSError, ValueError) as error:
        if TRACED:
            raise
        return refuse([explain(error, overrides)])
    bad = [status for status in statuses if status]
    if bad and len(statuses) > 1:
        say(f"{len(bad)} of {len(statuses)} jobs did not succeed")
    for folder in studies:
        report_study(Path(folder))
    return min(bad, default=0)  # a failure before a refusal


def _describe(config: Config) -> str:
    """grpo on countdown, model tiny, seed 0"""
    kind = "dry run: " if config.dry_run else ""
    return f"{kind}{config.algo.name} on {config.task.name}, model {config.model.name}, seed {config.seed}"


def _check_sweep(jobs: list[list[str]]) -> None:
    """Check every job before the first starts, and say so: it takes the seconds that TRL's import takes."""
    if jobs:
        print(f"checking {len(jobs)} jobs", flush=True)
    if problems := refuse_jobs(jobs):
        raise SweepRefused([*problems, f"none of {len(jobs)} jobs was started"])


def _run(config: Config, folder: Path, where: str) -> int:
    try:
        from rlhf_exp.callbacks.tracking import track
        from rlhf_exp.run import run

        with track(config, folder):
            return run(config, folder)
    except ConfigError as error:
        return refuse(error.problems, where=where)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever broke, SystemExit too: the other jobs of a sweep still run
        return fail(error, folder, where=where)


def _settle(config: Config, cfg: DictConfig, plan: Plan, folder: Path) -> Config:
    """Look again at what the folder holds, now that nobody else can write there, and write `.hydra` into it."""
    cfg.output_dir = str(folder)
    config = replace(parse(cfg, further=[check_run_folder]), resume=config.resume)
    if cfg.skip_finished and cfg.resume is None and plan_job(config) != plan:
        raise ConfigError([f"output_dir={folder}: another process has run in it meanwhile; start again"])
    if config.resume is None:
        start_anew(folder, config)
    _write_hydra(folder, cfg)
    link_latest(folder)
    return config


def _write_hydra(folder: Path, cfg: DictConfig) -> None:
    """Write `.hydra`: the config with every interpolation resolved, and the overrides."""
    settings = HydraConfig.get()
    texts = {"config": OmegaConf.to_yaml(cfg, resolve=True), "hydra": OmegaConf.to_yaml(settings)}
    texts["overrides"] = OmegaConf.to_yaml(settings.overrides.task)
    try:
        (folder / ".hydra").mkdir(exist_ok=True)
        for name, text in texts.items():
            write_text(folder / ".hydra" / f"{name}.yaml", text)
    except OSError as error:
        raise ConfigError([f"output_dir={folder}: cannot be written, {error.strerror}"]) from None


if __name__ == "__main__":
    sys.exit(flush(main()))
