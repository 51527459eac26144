"""The command line: `python -m rlhf_exp algo=grpo task=countdown`.

A user's mistake is one line on stderr and exit status 2; a failed run is status 1, with its traceback in the run's
folder. Nothing here, in cli/ or in config/ imports an ML library before all checks of this package have passed.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.callbacks import Callbacks
from hydra._internal.hydra import Hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp import orders, processes
from rlhf_exp.cli.arguments import prepare_arguments
from rlhf_exp.cli.commands import call_command
from rlhf_exp.cli.explain import explain
from rlhf_exp.cli.follow import follow
from rlhf_exp.cli.help import format_help
from rlhf_exp.cli.job import run_job
from rlhf_exp.cli.launchers import is_lost_job
from rlhf_exp.cli.subcommand import run_command
from rlhf_exp.cli.sweep import begin_sweep, report_study
from rlhf_exp.cli.tuning import NO_TRIAL, is_tuned, print_best, read_objective
from rlhf_exp.cli.workers import Jobs
from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import register_resolvers
from rlhf_exp.config.overrides import check_overrides
from rlhf_exp.errors import FAILED, ConfigError, say
from rlhf_exp.runs.lock import make_new

TRACED = os.environ.get("HYDRA_FULL_ERROR") == "1"  # the user asks for Hydra's traceback
SETS_MODE = ("hydra.mode", "hydra.searchpath", "hydra/", "hydra=", "experiment")


def main() -> int:
    """Run what the command line asks for, an experiment or another command; returns the exit status. Of several
    processes rank 0 does so, and the others take part in the runs that it starts."""
    status = call_command(sys.argv[1:])
    if status is not None:
        return status
    if not processes.is_main() and not processes.check():
        return orders.leave(follow())
    status = run_command(_work, None, format_help)
    if processes.count() > 1 and not processes.check():
        orders.end(status)
        orders.leave(status)
    return status


def _work(arguments: list[str]) -> int:
    args = prepare_arguments()
    if problems := processes.check():
        raise ConfigError(problems)
    if problems := check_overrides(args.overrides):
        raise ConfigError(problems)
    with _compose_once(args):
        return _run_jobs(args.overrides, arguments)


def _run_jobs(overrides: list[str], typed: list[str]) -> int:
    """Call Hydra, which composes one job or many and calls `job` for each, perhaps in other processes. `typed`: the
    overrides and the flags, as they were typed."""
    register_resolvers()
    # Cached with the config, since it is asked for the name again with every job.
    OmegaConf.register_new_resolver("rlhf_exp.new_folder", lambda name: str(make_new(Path(name))), use_cache=True,
                                    replace=True)  # fmt: skip
    statuses: list[int] = []
    jobs: Jobs | None = None
    lost = False

    def job(cfg: DictConfig) -> float | None:
        settings = HydraConfig.get()
        if jobs is None:
            statuses.append(run_job(cfg, settings))
            return statuses[0]
        again = jobs.has_begun(settings.job.num)
        status = jobs.run(settings.job.num, lambda: run_job(cfg, settings, jobs.total, again))
        return read_objective(Path(cfg.output_dir)) if is_tuned(settings) and status == 0 else None

    def begin(config: DictConfig) -> None:
        nonlocal jobs
        jobs = stack.enter_context(begin_sweep(config))

    with ExitStack() as stack:
        try:
            with _call_before_sweep(begin), _raising():
                hydra.main(config_path=str(ROOT / "conf"), config_name="config", version_base="1.3")(job)()
        except SystemExit as done:  # after --hydra-help
            return done.code
        except BrokenProcessPool:
            say("the process of a job has died (out of memory?), and those of the other jobs were ended")
            lost = True
        except RecursionError as error:
            raise ConfigError([explain(error, overrides)]) from None
        except RuntimeError as error:
            if not is_lost_job(error):
                raise
            lost = True
        except (HydraException, OmegaConfBaseException, OSError, ValueError) as error:
            if TRACED:
                raise
            if not (jobs and jobs.end() and str(error) == NO_TRIAL):
                raise ConfigError([explain(error, overrides, typed)]) from None
            say("no trial of the search has succeeded")
        statuses += jobs.end() if jobs else []
        if lost and not any(statuses):
            statuses.append(FAILED)
    bad = [status for status in statuses if status]
    if bad and len(statuses) > 1:
        say(f"{len(bad)} of {len(statuses)} jobs did not succeed")
    if jobs and not jobs.dry_run:
        report_study(jobs.folder.parent)
        print_best(jobs.folder.parent)
    return min(bad, default=0)  # the status of a failure (1) precedes that of a refusal (2)


@contextmanager
def _call_before_sweep(begin: Callable[[DictConfig], None]) -> Iterator[None]:
    """Have Hydra call `begin` with the config of a sweep before it launches the jobs, in this process, as it calls
    the callbacks that a config names by import paths."""
    notify = Callbacks.on_multirun_start

    def start(callbacks: Callbacks, config: DictConfig, **kwargs: Any) -> None:
        notify(callbacks, config, **kwargs)
        begin(config)

    Callbacks.on_multirun_start = start
    try:
        yield
    finally:
        Callbacks.on_multirun_start = notify


@contextmanager
def _raising() -> Iterator[None]:
    """Have Hydra raise its errors, since its own report is long. A reward may clear the environment."""
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        if not TRACED:
            os.environ.pop("HYDRA_FULL_ERROR", None)


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
