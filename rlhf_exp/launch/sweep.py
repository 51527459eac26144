"""Checks the jobs of a sweep before the first of them starts, and reports on them after the last.

    jobs = prepare_sweep(config, loader)             # the config with which Hydra begins the sweep
    run_sweep(jobs, config, lambda: ...)             # has Hydra's sweeper call `jobs`; the exit status

The sweepers in hydra_plugins/ call both. Hydra composes each job only when its turn comes, so without this check a
mistake in the last job would show only after all others have run.
"""

import sys
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf, open_dict

from rlhf_exp import processes
from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError, say
from rlhf_exp.launch.explain import set_text
from rlhf_exp.launch.job import check_job, connect, run_job
from rlhf_exp.launch.subcommand import Done, hide_bars
from rlhf_exp.launch.tuning import NO_TRIAL, check_tuning, print_best
from rlhf_exp.launch.workers import Jobs
from rlhf_exp.runs.lock import make_new
from rlhf_exp.runs.plan import plan_job

PLUGINS = "hydra_plugins.rlhf_exp_sweeps."
CLASSES = {
    "hydra/sweeper": {"basic": "CheckedSweeper", "optuna": "CheckedOptunaSweeper"},
    "hydra/launcher": {
        "joblib": "ParallelLauncher",
        "submitit_local": "LocalLauncher",
        "submitit_slurm": "SlurmLauncher",
    },
}
"""Options of Hydra's groups, and the class of ours that each names."""


def register_plugins() -> None:
    """Have the options of Hydra's sweepers and launchers name our classes; their other keys stay."""
    store = ConfigStore.instance()
    for group, classes in CLASSES.items():
        installed = store.list(group)
        for option in classes.keys() & {name.removesuffix(".yaml") for name in installed}:
            node = OmegaConf.merge(store.load(f"{group}/{option}.yaml").node, {"_target_": PLUGINS + classes[option]})
            store.store(option, node, group)


def prepare_sweep(config: DictConfig, loader: ConfigLoader, tuned: bool = False) -> Jobs:
    """Check every job before the first starts. `tuned`: Optuna chooses them one after the other.

    Raises:
        ConfigError: the problems of all jobs, a line each; none was started.
        Done: a dry run of a search has shown what its jobs have in common.
    """
    params = config.hydra.sweeper.params or {}
    typed = OverridesParser.create(config_loader=loader).parse_overrides(list(config.hydra.overrides.task))
    fixed = [str(text.input_line) for text in typed if not text.is_sweep_override()]
    swept = {text.get_key_element() for text in typed if text.is_sweep_override()} | set(params)
    listed = [fixed]
    if not tuned:
        given = OverridesParser.create(config_loader=loader).parse_overrides([f"{k}={v}" for k, v in params.items()])
        listed = BasicSweeper.split_arguments([*given, *typed], max_batch_size=None)[0]
    composed = [loader.load_sweep_config(config, overrides) for overrides in listed]
    first = composed[0]
    total = 0 if tuned else len(listed)
    jobs = Jobs(run_job, list(sys.argv), Path(config.hydra.sweep.dir), total, frozenset(swept),
                first.device.use_cpu, tuned)  # fmt: skip
    if problems := check_tuning(config.hydra, first) if tuned else []:
        raise ConfigError(problems)
    launcher = config.hydra.runtime.choices["hydra/launcher"]
    if processes.count() > 1 and launcher != "basic":
        several = f"not with {processes.count()} processes per run; use hydra/launcher=basic"
        raise ConfigError([f"hydra/launcher={launcher}: {several}"])
    if launcher != "basic":
        hide_bars()
    if first.dry_run and tuned:  # there would be no results to choose by
        from rlhf_exp.dry_run.show import print_dry_run

        print_dry_run(_check_job(jobs, first, 0, listed[0], {}))
        raise Done
    if not first.dry_run:
        print(f"checking {total or 'the'} jobs", flush=True)  # importing TRL takes seconds
    if problems := refuse_jobs(jobs, composed, listed):
        raise ConfigError([*problems, f"none of {total} jobs was started" if total else "no job was started"])
    return jobs


def run_sweep(jobs: Jobs, config: DictConfig, sweep: Callable[[], object]) -> int:
    """Make the sweep's folder, have Hydra run the jobs in it, and report on them; returns the exit status."""
    jobs.folder = processes.on_main(lambda: _make_folder(config))
    config.hydra.sweep.dir = str(jobs.folder)
    config.hydra.overrides.hydra.append(set_text("hydra.sweep.dir", str(jobs.folder)))  # for each job, composed anew
    with jobs.noting():
        try:
            sweep()
        except BrokenProcessPool:
            say("the process of a job has died (out of memory?), and those of the other jobs were ended")
        except ValueError as error:
            if not (jobs.tuned and str(error) == NO_TRIAL):
                raise
            say("no trial of the search has succeeded")
        statuses = jobs.end()
    bad = [status for status in statuses if status]
    if bad and len(statuses) > 1:
        say(f"{len(bad)} of {len(statuses)} jobs did not succeed")
    if processes.is_main() and not config.dry_run:
        report_study(jobs.folder)
        print_best(jobs.folder)
    return min(bad, default=0)  # the status of a failure (1) precedes that of a refusal (2)


def refuse_jobs(jobs: Jobs, composed: list[DictConfig], listed: list[list[str]]) -> list[str]:
    """Check each job as `run_job` will; returns the problems with their jobs. A problem of all jobs is listed once.
    TRL, which takes seconds to import, sees only jobs without others, and none of a dry run."""
    found: dict[str, list[int]] = {}
    places: dict[str, int] = {}
    configs: list[Config] = []
    for number, (job, overrides) in enumerate(zip(composed, listed, strict=True)):
        try:
            configs.append(_check_job(jobs, job, number, overrides, places))
        except ConfigError as error:
            for problem in error.problems:
                found.setdefault(problem, []).append(number)
    if not found and not configs[0].dry_run:
        connect(configs[0])
        from rlhf_exp.config.trl_args import build_args

        for number, checked in enumerate(configs):
            try:
                build_args(checked)
            except ConfigError as error:
                for problem in error.problems:
                    found.setdefault(problem, []).append(number)
    everyones = [problem for problem, numbers in found.items() if len(numbers) == len(listed) > 1]
    return [f"all {len(listed)} jobs: {problem}" for problem in everyones] + [
        f"{jobs.name(number, overrides)}: {problem}"
        for number, overrides in enumerate(listed)
        for problem, numbers in found.items()
        if number in numbers and problem not in everyones
    ]


def report_study(folder: Path) -> None:
    """Write the report on all runs below `folder` and print its figures, unless there are fewer than two."""
    from rlhf_exp.report import NotARun, find_runs, study_table, write_report

    if len(list(folder.glob("*/run.json"))) < 2:
        return
    try:
        runs = find_runs(folder)
        page = write_report(runs, folder)
        print(f"\n{study_table(runs)}\nreport  {page}")
    except NotARun as error:
        say(f"no report was written: {error}")


def _make_folder(config: DictConfig) -> Path:
    """The sweep's folder; one that is named by the time gets a number if another sweep has it."""
    unresolved: Any = OmegaConf.to_container(config.hydra.sweep, resolve=False)
    named, folder = unresolved["dir"], Path(config.hydra.sweep.dir)
    try:
        if "${now:" in named:
            return make_new(folder)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError([f"{folder}: cannot be written, {error.strerror}"]) from None
    return folder


def _check_job(jobs: Jobs, job: DictConfig, number: int, overrides: list[str], places: dict[str, int]) -> Config:
    """The checked config of a job; `places` are the settings, folders and repositories of the jobs before.

    Raises:
        ConfigError: its problems.
    """
    own = [str(key) for key in job if key not in ("hydra", "output_dir")]
    settings = OmegaConf.to_yaml(OmegaConf.masked_copy(job, own))
    if (first := places.setdefault(settings, number)) != number:
        raise ConfigError([f"has the settings of job {first + 1}; leave one of the two out"])
    with open_dict(job):
        job.hydra.job.num = number
        jobs.place(job, job.pop("hydra"))
    if (first := places.setdefault(job.output_dir, number)) != number:
        way = "use skip_finished=false, which numbers them"
        raise ConfigError([f"output_dir={job.output_dir}: is the folder of job {first + 1} too; {way}"])
    if job.hub.push and (first := places.setdefault(f"hub.repo={job.hub.repo}", number)) != number:
        way = f"name one for each, such as 'hub.repo={job.hub.repo}-${{seed}}'"
        raise ConfigError([f"hub.repo={job.hub.repo}: is the repository of job {first + 1} too; {way}"])
    # What is in its folder concerns a job alone, unless finished jobs are to be skipped.
    config = check_job(job, overrides)
    prepare_hub(config)
    if config.skip_finished and not config.resume:
        plan_job(config)
    return config
