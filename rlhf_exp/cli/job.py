"""One experiment of the command line: its composed config is checked, its folder claimed, and the run started.

run_job(cfg, HydraConfig.get())      # the exit status; called for each job of a sweep
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from rlhf_exp import orders
from rlhf_exp.cli.subcommand import claim, guard
from rlhf_exp.cli.sweep import name_job, place_job
from rlhf_exp.config.compose import parse
from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.config.rules.files import find_missing_weights
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import FAILED, ConfigError, printable, say
from rlhf_exp.runs.failures import forget_failures
from rlhf_exp.runs.folder import write_text
from rlhf_exp.runs.lock import point_latest
from rlhf_exp.runs.manifest import find_damaged_models
from rlhf_exp.runs.plan import Plan, check_resume, check_run_folder, is_complete, plan_job, start_anew


def run_job(cfg: DictConfig, settings: DictConfig, jobs: int = 0, again: bool = False) -> int:
    """Check one composed config and run it; returns its exit status.

    Args:
        settings: Hydra's own part of the config.
        jobs: the number of jobs in the sweep, 0 if not known.
        again: a scheduler has ended this job before, and starts it again: it goes on in its folder.
    """
    where = ""
    if settings.mode == RunMode.MULTIRUN:
        job = name_job(settings.job.num, jobs, settings.overrides.task)
        where = f"{job}: "
        place_job(cfg, settings)
        cfg.skip_finished = cfg.skip_finished or again  # after its folder was named
        print(f"\n{job}" if settings.job.num else job, flush=True)
    if orders.is_broken():
        say(f"{where}not started, for the processes of an earlier job are gone")
        return FAILED
    return guard(lambda: check_and_run(cfg, settings)[0], where=where)


def check_composed(cfg: DictConfig, overrides: Sequence[str]) -> Config:
    """The checked config of an experiment that may start in its folder now.

    Raises:
        ConfigError: all that can be found without an import of torch.
    """
    checks = [find_missing_weights, find_damaged_models, *([] if _is_named_by_time(cfg) else [check_run_folder])]
    return parse(cfg, overrides, checks)


def _is_named_by_time(cfg: DictConfig) -> bool:
    """Whether the user names no folder, and resumes none: one that another run of the same second has gets a number."""
    named = str(OmegaConf.to_container(cfg, resolve=False).get("output_dir", ""))
    return "${now:" in named and cfg.get("resume") is None


def check_and_run(cfg: DictConfig, settings: DictConfig) -> tuple[int, Path | None]:
    """Check one composed config and run it; returns the exit status and the folder, None after a dry run.

    Raises:
        ConfigError: a user's mistake.
        Failed: any other error; the run's folder holds its traceback.
    """
    by_time = _is_named_by_time(cfg)
    config = check_composed(cfg, settings.overrides.task)
    kind = "dry run: " if config.dry_run else ""
    what = f"{config.algo.name} on {config.task.name}, model {config.model.name}, seed {config.seed}"
    print(f"{kind}{what}: {config.output_dir}", flush=True)
    prepare_hub(config)
    if config.dry_run:
        from rlhf_exp.dry_run.show import print_dry_run

        print_dry_run(config)
        return 0, None
    for note in check_resume(config) if config.resume else ():
        print(printable(note), flush=True)
    if config.resume and is_complete(config, folder := Path(config.resume)):
        print(f"finished already, nothing is left to do: {folder}; its report: {folder / 'report.html'}", flush=True)
        return 0, folder
    plan = plan_job(config) if config.skip_finished and not config.resume else Plan.START
    if plan == Plan.SKIP:
        print(f"finished already: {config.output_dir}", flush=True)
        return 0, Path(config.output_dir)
    if plan == Plan.RESUME:
        print(f"resuming: {config.output_dir}", flush=True)
        config = replace(config, resume=config.output_dir)
    if "trl" not in sys.modules:
        print("[start] imports torch and TRL", flush=True)
    from rlhf_exp.config.trl_args import build_args

    build_args(config)  # before there is a folder
    with claim(config.output_dir, numbered=by_time) as folder:
        if str(folder) != config.output_dir:
            print(f"another run has that folder; this one's is {folder}", flush=True)
        config = _settle(config, cfg, plan, folder)
        _write_hydra(folder, cfg, settings)
        forget_failures(folder)
        orders.give((config, folder))
        from rlhf_exp.callbacks.tracking import track
        from rlhf_exp.pipeline import run

        with point_latest(folder), track(config, folder):
            return run(config, folder), folder


def _settle(config: Config, cfg: DictConfig, plan: Plan, folder: Path) -> Config:
    """Check the folder again, now that no other process can write there, and remove what a run that is not resumed
    has left; returns the config with the folder's name."""
    cfg.output_dir = str(folder)
    config = replace(parse(cfg, further=[check_run_folder]), resume=config.resume)
    if cfg.skip_finished and cfg.resume is None and plan_job(config) != plan:
        raise ConfigError([f"output_dir={folder}: another process has run in it meanwhile; start again"])
    if config.resume is None:
        start_anew(folder, config)
    return config


def _write_hydra(folder: Path, cfg: DictConfig, settings: DictConfig) -> None:
    """Write `.hydra`: the config with every interpolation resolved, and the overrides."""
    texts = {"config": OmegaConf.to_yaml(cfg, resolve=True), "hydra": OmegaConf.to_yaml(settings)}
    texts["overrides"] = OmegaConf.to_yaml(settings.overrides.task)
    try:
        (folder / ".hydra").mkdir(exist_ok=True)
        for name, text in texts.items():
            write_text(folder / ".hydra" / f"{name}.yaml", text)
    except OSError as error:
        raise ConfigError([f"output_dir={folder}: cannot be written, {error.strerror}"]) from None
