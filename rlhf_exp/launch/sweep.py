"""Runs the jobs of a sweep: all are checked before the first starts, and reported on after the last.

run_sweep(*read_sweep(Typed(["seed=0,1"]), ["-m", "seed=0,1"]))      # the exit status
"""

from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rlhf_exp import processes
from rlhf_exp.commands import guard, hide_bars
from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError, collecting, refusing, say, tell
from rlhf_exp.launch.job import check_job, connect, run_checked
from rlhf_exp.launch.jobs import Sweep
from rlhf_exp.launch.workers import run_jobs
from rlhf_exp.runs.environment import note_command
from rlhf_exp.runs.lock import make_new
from rlhf_exp.runs.plan import check_run_folder, plan_job


def run_sweep(sweep: Sweep, settings: DictConfig, reports: bool = True) -> int:
    """Check the jobs, make the sweep's folder, run them, and report unless a study does; returns the exit status. A dry
    run prints a table of them instead.

    Raises:
        ConfigError: the problems of all jobs, a line each; none was started.
        Stop: a signal has ended the sweep.
    """
    launcher = settings.runtime.choices["hydra/launcher"]
    if launcher != "basic":
        hide_bars()
        if processes.count() > 1:
            raise ConfigError([f"hydra/launcher={launcher}: takes one process per run; use hydra/launcher=basic"])
    configs = check_jobs(sweep)
    if configs[0].dry_run:
        from rlhf_exp.dry_run.show import print_dry_runs

        varied = [" ".join(text for text in job if text.split("=")[0] in sweep.swept) for job in sweep.jobs]
        print_dry_runs({text or "the job": config for text, config in zip(varied, configs, strict=True)})
        return 0
    named_by_time = "${now:" in OmegaConf.to_yaml(settings.sweep)
    sweep = replace(sweep, folder=processes.on_main(_make_folder, sweep.folder, named_by_time))
    statuses = run_jobs(sweep, run_job, settings, configs[0].device.use_cpu)
    bad = {number: status for number, status in enumerate(statuses, 1) if status}
    if bad and len(statuses) > 1:
        which = ", ".join(f"{number}: status {status}" for number, status in bad.items())
        say(f"{len(bad)} of {len(statuses)} jobs did not succeed ({which})")
    if reports and processes.is_main():
        report_study(sweep.folder)
    return min(bad.values(), default=0)  # the status of a failure (1) precedes that of a refusal (2)


def run_job(sweep: Sweep, number: int, again: bool = False) -> int:
    """Run one job of a sweep; returns its exit status. `again`: a scheduler has ended it before, and starts it again:
    it resumes in its folder."""

    def run() -> int:
        cfg, settings = sweep.compose(number)
        cfg.skip_finished = cfg.skip_finished or again
        return run_checked(check_job(cfg, settings), cfg, settings)[0]

    note_command(sweep.arguments)
    tell(f"\n{sweep.name(number)}" if number else sweep.name(number))
    return guard(run, where=f"{sweep.name(number)}: ")


def check_jobs(sweep: Sweep) -> list[Config]:
    """Check each job as `run_job` will; returns their configs. TRL, which takes seconds to import, sees only jobs
    without other problems, and none of a dry run.

    Raises:
        ConfigError: a line for each problem, with its job; a problem of all jobs is listed once.
    """
    total = len(sweep.jobs)
    composed = [sweep.compose(number) for number in range(total)]
    problems = [list[str]() for _ in composed]  # of each job
    configs: list[Config] = []
    places: dict[str, int] = {}
    if not composed[0][0].dry_run:
        tell(f"checking {total} jobs")  # importing TRL takes seconds
    for number, (cfg, settings) in enumerate(composed):
        with collecting(problems[number]):
            configs.append(_check_job(cfg, settings, number, places))
    if not any(problems) and not configs[0].dry_run:
        connect(configs[0])
        from rlhf_exp.config.trl_args import build_args

        for number, config in enumerate(configs):
            with collecting(problems[number]):
                build_args(config)
    if any(problems):
        everyones = [problem for problem in problems[0] if total > 1 and all(problem in own for own in problems)]
        lines = [f"all {total} jobs: {problem}" for problem in everyones]
        for number, own in enumerate(problems):
            lines += [f"{sweep.name(number)}: {problem}" for problem in own if problem not in everyones]
        raise ConfigError([*lines, f"none of {total} jobs was started"])
    return configs


def report_study(folder: Path) -> None:
    """Write the report on all runs below `folder` and print its figures, unless there are fewer than two."""
    from rlhf_exp.analysis.report import find_runs, write_report

    if len(list(folder.glob("*/run.json"))) < 2:
        return
    try:
        page = write_report(find_runs(folder), folder, show=tell)
        tell(f"report  {page}")
    except ConfigError as error:
        say(f"no report was written: {error}")


def _make_folder(folder: Path, named_by_time: bool) -> Path:
    """Make the sweep's folder; one that is named by the time gets a number if another sweep has it."""
    with refusing(f"{folder}: cannot be written", OSError):
        if named_by_time:
            return make_new(folder)
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _check_job(cfg: DictConfig, settings: DictConfig, number: int, places: dict[str, int]) -> Config:
    """The checked config of a job; `places` are the settings, folders and repositories of the jobs before.

    Raises:
        ConfigError: its problems.
    """
    own = OmegaConf.to_yaml(OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "output_dir"]))
    taken = {own: "has the settings", f"output_dir={cfg.output_dir}": f"output_dir={cfg.output_dir}: is that"}
    if cfg.hub.push:
        taken[f"hub.repo={cfg.hub.repo}"] = f"hub.repo={cfg.hub.repo}: is that"
    for place, line in taken.items():
        if (first := places.setdefault(place, number)) != number:
            raise ConfigError([f"{line} of job {first + 1} too; leave one out, or give each its own"])
    # What is in its folder concerns a job alone, unless finished jobs are to be skipped.
    config = check_job(cfg, settings)
    prepare_hub(config)
    if config.skip_finished and not config.resume:
        plan_job(config)
    elif config.dry_run and (problems := check_run_folder(config)):
        raise ConfigError(problems)
    return config
