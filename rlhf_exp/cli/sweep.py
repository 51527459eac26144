"""Lists and checks the jobs of a sweep before the first of them starts, and names their folders.

with begin_sweep(config) as jobs:       # the config with which Hydra begins the sweep; refuses it if one job is bad
    jobs.run(3, work)                   # Hydra's launcher calls it for each job

Hydra composes each job only when its turn comes, so without this check a mistake in the last job would show only after
all others have run.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf, open_dict

from rlhf_exp import processes
from rlhf_exp.cli.launchers import Placing, prepare_launcher, wait_for_all
from rlhf_exp.cli.subcommand import Done, hide_bars
from rlhf_exp.cli.tuning import check_tuning, is_tuned
from rlhf_exp.cli.workers import Jobs
from rlhf_exp.config.compose import parse
from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.config.rules.files import find_missing_weights
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError, say
from rlhf_exp.runs.manifest import find_damaged_models
from rlhf_exp.runs.plan import plan_job

SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
MOST_LETTERS = 100  # in the name of a job's folder; a longer one is shortened and ends with a hash


class SameJob(Exception):
    """A job with the settings of one before."""


@contextmanager
def begin_sweep(config: DictConfig) -> Iterator[Jobs]:
    """Check every job before the first starts, and choose how many run at once.

    Raises:
        ConfigError: the problems of all jobs, a line each; none was started.
    """
    folder = Path(config.hydra.sweep.dir)  # read before the jobs are composed, which copy a name that was made
    listed = list_jobs(config)
    first = compose_job(config, listed[0] if listed else list_fixed())
    if is_tuned(config.hydra):
        if problems := check_tuning(config.hydra, first):
            raise ConfigError(problems)
        if first.dry_run:  # there would be no results to choose by
            _show_fixed(first)
            raise Done
    if processes.count() > 1 and (launcher := config.hydra.runtime.choices["hydra/launcher"]) != "basic":
        several = f"not with {processes.count()} processes per run; use hydra/launcher=basic"
        raise ConfigError([f"hydra/launcher={launcher}: {several}"])
    placing = prepare_launcher(config.hydra.launcher, folder, len(listed), first.device.use_cpu)
    if placing != Placing.HERE:
        hide_bars()
    if first.dry_run:  # each job then checks itself
        if problems := refuse_jobs(config, listed, together=True):
            raise ConfigError(problems)
    else:
        print(f"checking {len(listed) or 'the'} jobs", flush=True)  # importing TRL takes seconds
        if problems := refuse_jobs(config, listed or [list_fixed()]):
            raise ConfigError(
                [*problems, f"none of {len(listed)} jobs was started" if listed else "no job was started"]
            )
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".jobs_", dir=folder) as statuses:
        jobs = Jobs(list(sys.argv), Path(statuses), len(listed), first.dry_run)
        with ExitStack() as stack:
            if placing != Placing.HERE:
                stack.enter_context(jobs.pass_on_signals())
            if placing == Placing.SUBMITTED:
                stack.enter_context(wait_for_all(jobs.stopped_by))
                stack.enter_context(jobs.watch())
            yield jobs


def list_jobs(config: DictConfig) -> list[list[str]]:
    """The overrides of every job of a sweep, in Hydra's order; empty if its sweeper chooses them one after the other
    (optuna)."""
    sweeper = config.hydra.sweeper
    if sweeper._target_ != SWEEPER:
        return []
    swept = [f"{key}={value}" for key, value in (sweeper.params or {}).items()]
    typed = [text.input_line for text in _parse_typed() if not text.is_hydra_override()]
    return BasicSweeper.split_arguments(_parse([*swept, *typed]), max_batch_size=None)[0]


def list_fixed() -> list[str]:
    """The typed overrides that all jobs have."""
    return [text.input_line for text in _parse_typed() if not (text.is_hydra_override() or text.is_sweep_override())]


def compose_job(config: DictConfig, overrides: list[str]) -> DictConfig:
    """A job's config, Hydra's part included, as Hydra itself will compose it."""
    return GlobalHydra.instance().config_loader().load_sweep_config(config, overrides)


def refuse_jobs(config: DictConfig, jobs: list[list[str]], together: bool = False) -> list[str]:
    """Compose each job as Hydra will, and check it as `run_job` will, except for its weights; returns the problems with
    their jobs. A problem of all jobs is listed once. TRL, which takes seconds to import, sees only jobs without others.

    Args:
        together: only what a job alone cannot show: that it equals another.
    """
    found: dict[str, list[int]] = {}
    places: dict[str, int] = {}
    configs: list[Config] = []
    for number, overrides in enumerate(jobs):
        try:
            configs.append(_check_job(compose_job(config, overrides), number, overrides, places))
        except SameJob as error:
            found[str(error)] = [number]
        except ConfigError as error:
            for problem in () if together else error.problems:
                found.setdefault(problem, []).append(number)
    if not found and not together:
        for number, checked in enumerate(configs):
            for problem in _check_arguments(checked):
                found.setdefault(problem, []).append(number)
    lines: list[tuple[int, str]] = []
    for problem, numbers in found.items():
        if len(numbers) == len(jobs) > 1:
            lines.append((-1, f"all {len(jobs)} jobs: {problem}"))
        else:
            lines += [(number, f"{name_job(number, len(jobs), jobs[number])}: {problem}") for number in numbers]
    return [line for _, line in sorted(lines, key=lambda found: found[0])]


def name_job(number: int, total: int, overrides: list[str]) -> str:
    """job 3 of 18 (seed=0 max_tokens=64); `number` counts from 0, `total` is 0 if not known."""
    return f"job {number + 1}{f' of {total}' if total else ''} ({' '.join(overrides)})"


def place_job(cfg: DictConfig, settings: DictConfig) -> None:
    """Set the folder of a sweep's job. With skip_finished its name has no number, since numbers change when the study
    grows, and finished jobs must be found again; Optuna tries the same settings several times, always in one order."""
    name = _name_folder(settings)
    plain = cfg.skip_finished and name and not is_tuned(settings)
    name = name if plain else f"{settings.job.num:02d}_{name}"
    cfg.output_dir = str(Path(settings.sweep.dir) / name)


def report_study(folder: Path) -> None:
    """Write the report on all runs below `folder` and print its figures, unless there are fewer than two."""
    from rlhf_exp.report import NotARun, find_runs, study_table, write_report

    try:
        runs = find_runs(folder)
    except NotARun:
        return
    if len(runs) > 1:
        try:
            page = write_report(runs, folder)
            print(f"\n{study_table(runs)}\nreport  {page}")
        except NotARun as error:
            say(f"no report was written: {error}")


def _name_folder(settings: DictConfig) -> str:
    """A folder's name from the overrides that the sweep varies, in letters that `resume=` takes without quotes.

    These are the study's parameters, and overrides that were typed with several values: `seed=0,1`, `seed=range(3)`.
    """
    typed = {text.input_line.partition("=")[0]: text.is_sweep_override() for text in _parse_typed()}
    swept = {key for key, several in typed.items() if several} | set(settings.sweeper.params or {})
    own = [text.replace("=", "-", 1) for text in settings.overrides.task if text.split("=")[0] in swept]
    name = re.sub(r"[^\w.+-]+", "_", "_".join(own).replace("experiment-", ""))
    if len(name) <= MOST_LETTERS:
        return name
    return f"{name[: MOST_LETTERS - 9]}-{sha256(' '.join(own).encode()).hexdigest()[:8]}"


def _parse_typed() -> list[Override]:
    return _parse(get_args_parser().parse_args().overrides)


def _parse(overrides: list[str]) -> list[Override]:
    return OverridesParser.create(config_loader=GlobalHydra.instance().config_loader()).parse_overrides(overrides)


def _show_fixed(first: DictConfig) -> None:
    """Print what a job would be without what is searched for."""
    from rlhf_exp.dry_run.show import print_dry_run

    with open_dict(first):
        del first["hydra"]
    print_dry_run(parse(first, list_fixed(), [find_missing_weights]))


def _check_job(job: DictConfig, number: int, overrides: list[str], places: dict[str, int]) -> Config:
    """The checked config of a job; `places` are the settings, folders and repositories of the jobs before.

    Raises:
        SameJob: it is one of those.
        ConfigError: its problems.
    """
    settings = OmegaConf.masked_copy(job, [name for name in job if name not in ("hydra", "output_dir")])
    if (first := places.setdefault(OmegaConf.to_yaml(settings), number)) != number:
        raise SameJob(f"has the settings of job {first + 1}; leave one of the two out")
    with open_dict(job):
        job.hydra.job.num = number
        place_job(job, job.hydra)
        del job["hydra"]
    if (first := places.setdefault(job.output_dir, number)) != number:
        way = "use skip_finished=false, which numbers them"
        raise ConfigError([f"output_dir={job.output_dir}: is the folder of job {first + 1} too; {way}"])
    if job.hub.push and (first := places.setdefault(f"hub.repo={job.hub.repo}", number)) != number:
        way = f"name one for each, such as 'hub.repo={job.hub.repo}-${{seed}}'"
        raise ConfigError([f"hub.repo={job.hub.repo}: is the repository of job {first + 1} too; {way}"])
    # Not check_run_folder: a run that is there concerns its own job alone.
    config = parse(job, overrides, [find_missing_weights, find_damaged_models])
    prepare_hub(config)
    if config.skip_finished and not config.resume:
        plan_job(config)
    return config


def _check_arguments(config: Config) -> list[str]:
    """What TRL itself refuses."""
    from rlhf_exp.config.trl_args import build_args

    try:
        build_args(config)
    except ConfigError as error:
        return error.problems
    return []
