"""The jobs of a sweep, known before the first of them starts.

jobs = list_jobs()                      # inside the first job that Hydra calls: the overrides of every job
refuse_jobs(jobs, place)                # the problems of all, a line each; [] where every job may run

Hydra composes one job after the other and hands each over only when its turn has come. A job that is refused after the
others have run for a night costs that night.
"""

from collections.abc import Callable

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, open_dict

from rlhf_exp.config import Config, ConfigError, parse
from rlhf_exp.files import find_missing_weights
from rlhf_exp.hub import prepare_hub
from rlhf_exp.study import plan_job

SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"


def list_jobs() -> list[list[str]]:
    """The overrides of every job of the sweep that is running, in Hydra's order; empty where its sweeper chooses them
    as it goes (optuna)."""
    sweeper = HydraConfig.get().sweeper
    if sweeper._target_ != SWEEPER:
        return []
    swept = [f"{key}={value}" for key, value in (sweeper.params or {}).items()]
    typed = [text.input_line for text in _parse_typed() if not text.is_hydra_override()]
    return BasicSweeper.split_arguments(_parse([*swept, *typed]), max_batch_size=None)[0]


def list_swept() -> set[str]:
    """The keys that the study names, and those that were typed with several values."""
    typed = {text.input_line.partition("=")[0]: text.is_sweep_override() for text in _parse_typed()}
    return {key for key, several in typed.items() if several} | set(HydraConfig.get().sweeper.params or {})


def refuse_jobs(jobs: list[list[str]], place: Callable[[DictConfig, DictConfig], None]) -> list[str]:
    """Compose each job as Hydra will and check it as `run_job` will, its weights apart; returns the problems, each
    after its job. What is wrong with every job is said once.

    Args:
        place: (cfg, settings) puts the job's folder into `cfg`.
    """
    found: dict[str, list[int]] = {}
    folders: dict[str, int] = {}
    for number, overrides in enumerate(jobs):
        for problem in _check_job(number, overrides, place, folders):
            found.setdefault(problem, []).append(number)
    lines: list[tuple[int, str]] = []
    for problem, numbers in found.items():
        if len(numbers) == len(jobs) > 1:
            lines.append((-1, f"all {len(jobs)} jobs: {problem}"))
        else:
            lines += [(number, f"{name_job(number, len(jobs), jobs[number])}: {problem}") for number in numbers]
    return [line for _, line in sorted(lines, key=lambda found: found[0])]


def name_job(number: int, total: int, overrides: list[str]) -> str:
    """job 3 of 18 (seed=0 max_tokens=64); `number` counts from 0, `total` is 0 where it is not known."""
    return f"job {number + 1}{f' of {total}' if total else ''} ({' '.join(overrides)})"


def _parse_typed() -> list[Override]:
    return _parse(get_args_parser().parse_args().overrides)


def _parse(overrides: list[str]) -> list[Override]:
    return OverridesParser.create(config_loader=GlobalHydra.instance().config_loader()).parse_overrides(overrides)


def _check_job(
    number: int, overrides: list[str], place: Callable[[DictConfig, DictConfig], None], folders: dict[str, int]
) -> list[str]:
    from rlhf_exp.trl_args import build_args

    job = GlobalHydra.instance().config_loader().load_sweep_config(HydraConfig.instance().cfg, overrides)
    with open_dict(job):
        job.hydra.job.num = number
        settings = job.pop("hydra")
    try:
        place(job, settings)
        if (first := folders.setdefault(job.output_dir, number)) != number:
            way = "use skip_finished=false, which numbers them"
            return [f"output_dir={job.output_dir}: is the folder of job {first + 1} too; {way}"]
        config: Config = parse(job, folder_is_free=True, typed=overrides)  # a run that is there costs its own job alone
        if problems := find_missing_weights(config):
            return problems
        prepare_hub(config)
        if config.skip_finished and not config.resume:
            plan_job(config)
        build_args(config)
    except ConfigError as error:
        return error.problems
    return []
