"""What Hydra's launchers need before they start the jobs of a sweep: basic, joblib, submitit_local, submitit_slurm.

prepare_launcher(config.hydra.launcher, folder, jobs=12, use_cpu=True)  ->  Placing.PARALLEL
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig

from rlhf_exp.errors import ConfigError

JOBLIB = "hydra_plugins.hydra_joblib_launcher.joblib_launcher.JoblibLauncher"
SUBMITIT = "hydra_plugins.hydra_submitit_launcher.submitit_launcher."
SLURM, LOCAL = f"{SUBMITIT}SlurmLauncher", f"{SUBMITIT}LocalLauncher"
ALL = -1
"""joblib's default of `hydra.launcher.n_jobs`."""
LOGS = ".submitit"
HOUR, WEEK = 60, 7 * 24 * 60
"""In minutes: submitit's default of what a job may take, also on one machine, and what it may take there."""

_submitted: list[Any] = []
"""submitit's jobs of this process's sweep."""


class Placing(Enum):
    """Where the jobs of a sweep run."""

    HERE = "in this process, one after the other"
    PARALLEL = "in other processes of this terminal"
    SUBMITTED = "in processes that write to files, perhaps on other machines"


def prepare_launcher(launcher: DictConfig, folder: Path, jobs: int, use_cpu: bool) -> Placing:
    """Check and complete `hydra.launcher`, which is changed.

    Args:
        folder: of the sweep.
        jobs: the number of jobs, 0 if not known.

    Raises:
        ConfigError: there is no Slurm here.
    """
    if launcher._target_ == JOBLIB:
        return Placing.PARALLEL if share_cores(launcher, jobs, use_cpu) else Placing.HERE
    if not launcher._target_.startswith(SUBMITIT):
        return Placing.HERE
    if launcher._target_ == SLURM and shutil.which("sbatch") is None:
        line = "hydra/launcher=submitit_slurm: there is no Slurm here (no sbatch on PATH); on one machine use"
        raise ConfigError([f"{line} hydra/launcher=joblib"])
    if launcher.submitit_folder.endswith("/%j"):  # submitit's default: a folder of that very name
        launcher.submitit_folder = str(folder / LOGS)
    if launcher._target_ == LOCAL and not use_cpu and not launcher.gpus_per_node:
        raise ConfigError(["hydra.launcher.gpus_per_node: with submitit_local jobs see no GPU, and with 1 all see the"
                           " first; use hydra/launcher=joblib, or device=cpu"])  # fmt: skip
    if launcher._target_ == LOCAL and launcher.timeout_min == HOUR:
        launcher.timeout_min = WEEK
    print(f"output of the jobs: {launcher.submitit_folder}", flush=True)
    return Placing.SUBMITTED


def share_cores(launcher: DictConfig, jobs: int, use_cpu: bool) -> bool:
    """Choose how many jobs joblib's launcher runs at once, unless the user has; returns whether it is several.

    That is one per core that this process may use, and on a GPU one, since two would compete for its memory. joblib
    divides the cores among the processes (OMP_NUM_THREADS), so that each has one thread.

    Args:
        launcher: `hydra.launcher`, which is changed.
        jobs: the number of jobs, 0 if not known.
    """
    from joblib import cpu_count, effective_n_jobs

    if launcher.n_jobs == ALL:
        cores = cpu_count() if use_cpu else 1
        launcher.n_jobs = min(cores, jobs or cores)
    launcher.batch_size = "1"  # after jobs that end at once, "auto" gives a process several in one go
    return effective_n_jobs(launcher.n_jobs) > 1


@contextmanager
def wait_for_all() -> Iterator[None]:
    """Inside, submitit's launchers wait for every job of a batch before they report that the process of one has died;
    they would leave at the first, and the command with them, while other jobs run."""
    from submitit import Executor, Job

    results, map_array = Job.results, Executor.map_array

    def report(job: Job) -> list[Any]:
        try:
            return results(job)
        except RuntimeError as error:
            return [JobReturn(status=JobStatus.FAILED, _return_value=error)]  # raised when it is read

    def record(executor: Executor, *args: Any, **kwargs: Any) -> list[Job]:
        jobs = map_array(executor, *args, **kwargs)
        _submitted.extend(jobs)
        return jobs

    Job.results, Executor.map_array = report, record
    try:
        yield
    finally:
        Job.results, Executor.map_array = results, map_array
        _submitted.clear()


def cancel_pending() -> None:
    """Take the jobs out of Slurm's queue that have not begun."""
    for job in _submitted:
        if job.state == "PENDING":
            job.cancel(check=False)


def is_lost_job(error: RuntimeError) -> bool:
    """Whether submitit reports with this error that the process of a job has died."""
    return type(error).__module__.startswith("submitit.")
