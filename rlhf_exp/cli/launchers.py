"""What Hydra's launchers need before they start the jobs of a sweep: basic, joblib, submitit_local, submitit_slurm.

prepare_launcher(config.hydra.launcher, folder, jobs=12, use_cpu=True)  ->  Placing.PARALLEL
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig

from rlhf_exp.errors import ConfigError, say

JOBLIB = "hydra_plugins.hydra_joblib_launcher.joblib_launcher.JoblibLauncher"
SUBMITIT = "hydra_plugins.hydra_submitit_launcher.submitit_launcher."
SLURM, LOCAL = f"{SUBMITIT}SlurmLauncher", f"{SUBMITIT}LocalLauncher"
ALL = -1
"""joblib's default of `hydra.launcher.n_jobs`."""
LOGS = ".submitit"
HOUR, WEEK = 60, 7 * 24 * 60
"""In minutes: submitit's default of what a job may take, also on one machine, and what it may take there."""

_queues: list[Any] = []
"""slurm.Queue of this process's sweep, if it was submitted."""


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
def wait_for_all(is_stopped: Callable[[], int]) -> Iterator[None]:
    """Inside, submitit's launchers wait for every job of a batch, and then say which ones' processes have died; they
    would leave at the first, and the command with them, while other jobs run.

    Args:
        is_stopped: whether a signal has ended the sweep, so that it is no news that jobs have not run.
    """
    from submitit import Executor, Job

    from rlhf_exp.cli.slurm import Queue

    results, map_array = Job.results, Executor.map_array
    numbers: dict[str, int] = {}

    def report(job: Job) -> list[Any]:
        try:
            return results(job)
        except RuntimeError as error:
            if not is_stopped():
                say(f"the process of job {numbers[job.job_id]} has died (state: {job.state}), see {job.paths.stderr}")
            return [JobReturn(status=JobStatus.FAILED, _return_value=error)]  # raised when it is read

    def record(executor: Executor, *args: Any, **kwargs: Any) -> list[Job]:
        try:
            jobs = map_array(executor, *args, **kwargs)
        except RuntimeError as error:  # what sbatch prints, on stderr already
            raise ConfigError([f"hydra.launcher: {str(error).strip().splitlines()[-1]}"]) from None
        numbers.update({job.job_id: number for number, job in enumerate(jobs, len(numbers) + 1)})
        _queues.append(Queue())
        _queues[-1].follow(jobs)
        return jobs

    Job.results, Executor.map_array = report, record
    try:
        yield
    finally:
        Job.results, Executor.map_array = results, map_array
        _queues.clear()


def cancel_pending() -> None:
    """Take the jobs out of Slurm's queue that have not begun."""
    for queue in _queues:
        queue.cancel_pending()


def is_lost_job(error: RuntimeError) -> bool:
    """Whether submitit reports with this error that the process of a job has died."""
    return type(error).__module__.startswith("submitit.")
