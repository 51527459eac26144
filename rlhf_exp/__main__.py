"""The command line: `python -m rlhf_exp algo=grpo task=countdown`.

A user's mistake is one line on stderr and exit status 2; a failed run is status 1, with its traceback in the run's
folder. Nothing here, in cli/ or in config/ imports an ML library before all checks of this package have passed.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hydra
from hydra._internal.hydra import Hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import env_override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp.cli.arguments import prepare_arguments
from rlhf_exp.cli.explain import explain
from rlhf_exp.cli.help import format_help
from rlhf_exp.cli.job import run_job
from rlhf_exp.cli.subcommand import run_command
from rlhf_exp.cli.sweep import list_jobs, refuse_jobs, report_study
from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import register_resolvers
from rlhf_exp.config.overrides import check_overrides
from rlhf_exp.errors import SIGNALLED, ConfigError, say
from rlhf_exp.runs.lock import make_new_once
from rlhf_exp.runs.stopping import Stop

TRACED = os.environ.get("HYDRA_FULL_ERROR") == "1"  # the user asks for Hydra's traceback
SETS_MODE = ("hydra.mode", "hydra.searchpath", "hydra/", "hydra=", "experiment")


class SweepRefused(BaseException):
    """A job of the sweep cannot run, so none is started. Not an Exception, after which Hydra would call the next
    job."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems


def main() -> int:
    """Run what the command line asks for; returns the exit status."""
    return run_command(_work, None, format_help)


def _work(arguments: list[str]) -> int:
    args = prepare_arguments()
    if problems := check_overrides(args.overrides):
        raise ConfigError(problems)
    with _compose_once(args):
        return _run_jobs(args.overrides)


def _run_jobs(overrides: list[str]) -> int:
    """Call Hydra, which composes one job or many and calls `job` for each."""
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
        statuses.append(run_job(cfg, settings, len(jobs)))
        if statuses[-1] > SIGNALLED:  # Ctrl-C ends the sweep, not only its job
            raise Stop(statuses[-1] - SIGNALLED)
        return statuses[-1]

    try:
        with env_override({"HYDRA_FULL_ERROR": "1"}):  # raise to us: Hydra's own report is long, its status 1
            hydra.main(config_path=str(ROOT / "conf"), config_name="config", version_base="1.3")(job)()
    except SweepRefused as refused:
        raise ConfigError(refused.problems) from None
    except SystemExit as done:  # after --hydra-help
        return done.code
    except (HydraException, OmegaConfBaseException, OSError, ValueError) as error:
        if TRACED:
            raise
        raise ConfigError([explain(error, overrides)]) from None
    bad = [status for status in statuses if status]
    if bad and len(statuses) > 1:
        say(f"{len(bad)} of {len(statuses)} jobs did not succeed")
    for folder in studies:
        report_study(Path(folder))
    return min(bad, default=0)  # the status of a failure (1) precedes that of a refusal (2)


def _check_sweep(jobs: list[list[str]]) -> None:
    """Check every job before the first starts. Prints a line, since importing TRL takes seconds."""
    if jobs:
        print(f"checking {len(jobs)} jobs", flush=True)
    if problems := refuse_jobs(jobs):
        raise SweepRefused([*problems, f"none of {len(jobs)} jobs was started"])


@contextmanager
def _compose_once(args: Namespace) -> Iterator[None]:
    """Keep Hydra from composing the config an extra time to look for `hydra.mode`, unless a study, an experiment or an
    override may set it: that takes a fifth of the time of a refusal."""
    get_mode = Hydra.get_mode
    elsewhere = args.config_path or args.config_name or args.config_dir
    if not elsewhere and not any(text.lstrip("+").startswith(SETS_MODE) for text in sys.argv[1:]):
        Hydra.get_mode = lambda *args, **kwargs: None
    try:
        yield
    finally:
        Hydra.get_mode = get_mode


if __name__ == "__main__":
    sys.exit(main())
