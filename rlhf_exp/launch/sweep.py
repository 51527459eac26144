"""Checks the jobs of a sweep before the first of them starts, and reports on them after the last.

    run_sweep(config, loader)      # the config with which Hydra begins a sweep; the exit status

Hydra composes each job only when its turn comes, so without this check a
mistake in the last job would show only after all others have run.
"""

import sys
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hydra._internal.callbacks import Callbacks
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf, open_dict

from rlhf_exp import processes
from rlhf_exp.commands import hide_bars
from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.config.reading import REPLACING, set_text
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError, say, tell
from rlhf_exp.launch.job import check_job, connect, run_job
from rlhf_exp.launch.workers import Jobs
from rlhf_exp.runs.lock import make_new
from rlhf_exp.runs.plan import check_run_folder, plan_job

PLUGINS = {
    "hydra/launcher/joblib": "ParallelLauncher",
    "hydra/launcher/submitit_local": "LocalLauncher",
    "hydra/launcher/submitit_slurm": "SlurmLauncher",
}
"""Options of Hydra's groups, and the class in hydra_plugins/ that each names."""


def register_plugins() -> None:
    """Have the options of Hydra's launchers name our classes; their other keys stay."""
    store = ConfigStore.instance()
    for place, name in PLUGINS.items():
        group, _, option = place.rpartition("/")
        if f"{option}.yaml" in store.list(group):
            target = {"_target_": f"hydra_plugins.rlhf_exp_sweeps.{name}"}
            store.store(option, OmegaConf.merge(store.load(f"{place}.yaml").node, target), group, **REPLACING)


def prepare_sweep(config: DictConfig, loader: ConfigLoader) -> tuple[Jobs, dict[str, Config]]:
    """Check every job before the first starts.

    Returns:
        the jobs, and the config of each by what its sweep varies.

    Raises:
        ConfigError: the problems of all jobs, a line each; none was started.
    """
    params, choices = config.hydra.sweeper.params or {}, config.hydra.runtime.choices
    launcher = choices["hydra/launcher"]
    parser = OverridesParser.create(config_loader=loader)
    typed = parser.parse_overrides(list_typed(config))
    swept = {text.get_key_element() for text in typed if text.is_sweep_override()} | set(params)
    given = parser.parse_overrides([f"{key}={value}" for key, value in params.items()])
    listed = BasicSweeper.split_arguments([*given, *typed], max_batch_size=None)[0]
    composed = [loader.load_sweep_config(config, overrides) for overrides in listed]
    first, total = composed[0], len(listed)
    folder = Path(config.hydra.sweep.dir)
    jobs = Jobs(run_job, list(sys.argv), folder, total, frozenset(swept), first.device.use_cpu)
    if launcher != "basic":
        hide_bars()
        if processes.count() > 1:
            raise ConfigError([f"hydra/launcher={launcher}: takes one process per run; use hydra/launcher=basic"])
    if not first.dry_run:
        tell(f"checking {total} jobs")  # importing TRL takes seconds
    problems, configs = check_jobs(jobs, composed, listed)
    if problems:
        raise ConfigError([*problems, f"none of {total} jobs was started"])
    varied = [" ".join(text for text in job if text.split("=")[0] in swept) or "the job" for job in listed]
    return jobs, dict(zip(varied, configs, strict=True))


def list_typed(config: DictConfig) -> list[str]:
    """The overrides of a sweep as they were typed: the seed in `model.path=outputs/x/seed-${seed}` is each job's."""
    return list(OmegaConf.to_container(config.hydra.overrides.task, resolve=False))  # type: ignore[arg-type]


def run_sweep(config: DictConfig, loader: ConfigLoader) -> int:
    """Check the jobs, make the sweep's folder, have Hydra's sweeper run them, and report; returns the exit status. A
    dry run prints a table of them instead."""
    jobs, configs = prepare_sweep(config, loader)
    if config.dry_run:
        from rlhf_exp.dry_run.show import print_dry_runs

        print_dry_runs(configs)
        return 0
    jobs.folder = processes.on_main(lambda: _make_folder(config))
    config.hydra.sweep.dir = str(jobs.folder)
    config.hydra.overrides.hydra.append(set_text("hydra.sweep.dir", str(jobs.folder)))  # for each job, composed anew
    with TemporaryDirectory(prefix=".jobs_", dir=jobs.folder) as notes:
        jobs.notes = Path(notes)
        try:
            context = HydraContext(config_loader=loader, callbacks=Callbacks(config))
            sweeper = Plugins.instance().instantiate_sweeper(config=config, hydra_context=context, task_function=jobs)
            sweeper.sweep(arguments=list_typed(config))
        except BrokenProcessPool:
            say("the process of a job has died (out of memory?), and those of the other jobs were ended")
        statuses = jobs.end()
    bad = {number + 1: status for number, status in statuses.items() if status}
    if bad and len(statuses) > 1:
        which = ", ".join(f"{number}: status {status}" for number, status in bad.items())
        say(f"{len(bad)} of {len(statuses)} jobs did not succeed ({which})")
    if processes.is_main():
        report_study(jobs.folder)
    return min(bad.values(), default=0)  # the status of a failure (1) precedes that of a refusal (2)


def check_jobs(jobs: Jobs, composed: list[DictConfig], listed: list[list[str]]) -> tuple[list[str], list[Config]]:
    """Check each job as `run_job` will; returns the problems with their jobs, and the configs, if there are none. A
    problem of all jobs is listed once. TRL, which takes seconds to import, sees only jobs without others, and none of a
    dry run."""
    found: dict[str, list[int]] = {}
    places: dict[str, int] = {}

    def check(number: int, call: Callable[..., Any], *given: Any) -> Any:
        try:
            return call(*given)
        except ConfigError as error:
            for problem in error.problems:
                found.setdefault(problem, []).append(number)

    configs = [check(n, _check_job, jobs, job, n, listed[n], places) for n, job in enumerate(composed)]
    if not found and not configs[0].dry_run:
        connect(configs[0])
        from rlhf_exp.config.trl_args import build_args

        for number, config in enumerate(configs):
            check(number, build_args, config)
    everyones = [problem for problem, numbers in found.items() if len(numbers) == len(listed) > 1]
    problems = [f"all {len(listed)} jobs: {problem}" for problem in everyones] + [
        f"{jobs.name(number, overrides)}: {problem}"
        for number, overrides in enumerate(listed)
        for problem, numbers in found.items()
        if number in numbers and problem not in everyones
    ]
    return problems, configs


def report_study(folder: Path) -> None:
    """Write the report on all runs below `folder` and print its figures, unless there are fewer than two."""
    from rlhf_exp.analysis.report import find_runs, study_table, write_report

    if len(list(folder.glob("*/run.json"))) < 2:
        return
    try:
        runs = find_runs(folder)
        page = write_report(runs, folder)
        tell(f"\n{study_table(runs)}\nreport  {page}")
    except ConfigError as error:
        say(f"no report was written: {error}")


def _make_folder(config: DictConfig) -> Path:
    """The sweep's folder; one that is named by the time gets a number if another sweep has it."""
    unresolved: Any = OmegaConf.to_container(config.hydra.sweep, resolve=False)
    folder = Path(config.hydra.sweep.dir)
    try:
        if "${now:" in unresolved["dir"]:
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
    with open_dict(job):
        job.hydra.job.num = number
        jobs.place(job, hydra := job.pop("hydra"))
    settings = OmegaConf.to_yaml(OmegaConf.masked_copy(job, [str(key) for key in job if key != "output_dir"]))
    taken = {settings: "has the settings", f"output_dir={job.output_dir}": f"output_dir={job.output_dir}: is that"}
    if job.hub.push:
        taken[f"hub.repo={job.hub.repo}"] = f"hub.repo={job.hub.repo}: is that"
    for place, line in taken.items():
        if (first := places.setdefault(place, number)) != number:
            raise ConfigError([f"{line} of job {first + 1} too; leave one out, or give each its own"])
    # What is in its folder concerns a job alone, unless finished jobs are to be skipped.
    config = check_job(job, hydra)
    prepare_hub(config)
    if config.skip_finished and not config.resume:
        plan_job(config)
    elif config.dry_run and (problems := check_run_folder(config)):
        raise ConfigError(problems)
    return config
