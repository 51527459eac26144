"""One experiment: its composed config is checked, its folder claimed, and the run started.

status, folder = run_checked(check_job(cfg, settings), cfg, settings)
"""

import sys
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rlhf_exp import processes
from rlhf_exp.config.compose import parse
from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.config.rules.files import find_missing_weights
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError, tell
from rlhf_exp.runs.files import write_text
from rlhf_exp.runs.lock import claim, point_latest
from rlhf_exp.runs.plan import Plan, check_resume, check_run_folder, plan_job, start_anew
from rlhf_exp.runs.records import read_record


def check_job(cfg: DictConfig, settings: DictConfig, absent: Collection[str] = ()) -> Config:
    """The checked config of an experiment; its folder is checked later (`plan_run`).

    Args:
        settings: Hydra's own part of the config.
        absent: see `parse`.

    Raises:
        ConfigError: all that can be found without an import of torch, and without a look into the run folder.
    """
    return parse(cfg, settings, [find_missing_weights], absent)


def is_named_by_time(cfg: DictConfig) -> bool:
    """Whether the user names no folder, and resumes none: one that another run of the same second has gets a number."""
    unresolved: Any = OmegaConf.to_container(cfg, resolve=False)
    return "${now:" in str(unresolved.get("output_dir")) and cfg.get("resume") is None


def run_checked(config: Config, cfg: DictConfig, settings: DictConfig) -> tuple[int, Path | None]:
    """Run the `config` that was checked; returns the exit status and the folder, None after a dry run. `cfg`: what it
    was made from.

    Raises:
        ConfigError: a user's mistake.
        BaseException: any other error, with a note if the run's folder holds its traceback.
    """
    numbered = is_named_by_time(cfg)
    if config.dry_run:
        plan_run(config, numbered)
        prepare_hub(config)
        from rlhf_exp.dry_run.show import print_dry_run

        print_dry_run(config)
        return 0, None
    connect(config)
    plan = processes.on_main(plan_run, config, numbered)
    prepare_hub(config)
    if plan == Plan.SKIP:
        return 0, Path(config.output_dir)
    if plan == Plan.RESUME:
        config = replace(config, resume=config.output_dir)
    if "trl" not in sys.modules:
        tell("[start] imports torch and TRL")
    with processes.enter_on_main(claim(config.output_dir, numbered)) as folder:
        from rlhf_exp.config.trl_args import build_args

        if str(folder) != config.output_dir:
            tell(f"another run has that folder; this one's is {folder}")
            cfg.output_dir = str(folder)
            config = replace(config, output_dir=str(folder))
        trl_args = build_args(config)
        processes.on_main(_prepare_folder, config, cfg, settings, folder)
        from rlhf_exp.callbacks.tracking import track
        from rlhf_exp.pipeline import run

        with ExitStack() as stack:
            if processes.is_main():
                stack.enter_context(point_latest(folder))
                stack.enter_context(track(config, folder, trl_args))
            return run(config, folder, trl_args), folder


def connect(config: Config) -> None:
    """Open the group of all processes as the config says; 1800 s is transformers' default."""
    processes.connect(config.algo.args.get("ddp_timeout") or 1800, config.device.use_cpu)


def plan_run(config: Config, numbered: bool) -> Plan:
    """Whether a run starts or resumes in its folder, or is finished already. Prints what it is, and what differs.

    Args:
        numbered: it gets a folder of its own.

    Raises:
        ConfigError: the folder holds another run, or cannot be resumed.
    """
    if problems := [] if numbered else check_run_folder(config):
        raise ConfigError(problems)
    if config.dry_run:
        return Plan.START
    model = config.model.path or config.model.name
    tell(f"{config.algo.name} on {config.task.name}, model {model}, seed {config.seed}: {config.output_dir}")
    folder = Path(config.resume or config.output_dir)
    if config.resume:
        for note in check_resume(config):
            tell(note)
        plan = Plan.SKIP if read_record(folder).status == "finished" else Plan.START
    else:
        plan = plan_job(config) if config.skip_finished else Plan.START
    if plan != Plan.START:
        done = f"finished already: {folder}; its report: {folder / 'report.html'}"
        tell(done if plan == Plan.SKIP else f"resuming: {folder}")
    return plan


def _prepare_folder(config: Config, cfg: DictConfig, settings: DictConfig, folder: Path) -> None:
    """Remove what a run that is not resumed has left, and write `.hydra`: the config with every interpolation resolved,
    and the overrides."""
    texts = {"config": OmegaConf.to_yaml(cfg, resolve=True), "hydra": OmegaConf.to_yaml(settings)}
    texts["overrides"] = OmegaConf.to_yaml(settings.overrides.task)
    if config.resume is None:
        start_anew(folder)
    for log in folder.glob("error-*.log"):
        log.unlink()
    (folder / ".hydra").mkdir(exist_ok=True)
    for name, text in texts.items():
        write_text(folder / ".hydra" / f"{name}.yaml", text)
