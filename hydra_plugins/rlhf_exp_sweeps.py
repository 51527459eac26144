"""Hydra's launchers, as `python -m rlhf_exp -m` uses them: signals reach jobs in other processes, and a job of submitit
whose process dies does not end the others.

Hydra takes plugins from modules below hydra_plugins/ alone, which it imports whenever any program composes a config.
So nothing of the package is imported before it is needed. rlhf_exp/launch/sweep.py gives these classes the names
that users type, such as hydra/launcher=joblib.
"""

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import fields
from typing import Any

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus

with suppress(ImportError):
    from hydra_plugins.hydra_joblib_launcher.joblib_launcher import JoblibLauncher

    class ParallelLauncher(JoblibLauncher):
        """hydra/launcher=joblib: as many jobs at once as there are cores, and on a GPU one, since two would compete for
        its memory. joblib divides the cores among the processes (OMP_NUM_THREADS)."""

        def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
            from rlhf_exp.launch.workers import Relay

            self.share_cores(len(job_overrides))
            alone = self.joblib["n_jobs"] == 1  # joblib then runs the jobs in this process
            with nullcontext() if alone else Relay(self.task_function):
                return super().launch(job_overrides, initial_job_idx)

        def share_cores(self, jobs: int) -> None:
            """Choose how many of the jobs run at once, unless the user has."""
            from joblib import cpu_count

            if self.joblib["n_jobs"] == -1:  # joblib's default: all cores
                self.joblib["n_jobs"] = min(cpu_count(), jobs) if self.task_function.use_cpu else 1
            self.joblib["batch_size"] = 1  # after jobs that end at once, "auto" gives a process several in one go


with suppress(ImportError):
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf
    from hydra_plugins.hydra_submitit_launcher.submitit_launcher import BaseSubmititLauncher

    class SubmittingLauncher(BaseSubmititLauncher):
        """Submits each job and waits for all of them, also if the process of one dies. Output goes to files."""

        def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
            from rlhf_exp.launch.slurm import Queue
            from rlhf_exp.launch.workers import Relay

            folder = self.params["submitit_folder"]
            if folder.endswith("/%j"):  # submitit's default: a folder of that very name
                folder = str(self.task_function.folder / ".submitit")
            print(f"output of the jobs: {folder}", flush=True)
            with Relay(self.task_function) as relay:
                jobs = self._submit(folder, job_overrides, initial_job_idx)
                relay.cancel = Queue(jobs).cancel_pending
                return [self._read_result(job, number) for number, job in enumerate(jobs, initial_job_idx + 1)]

        def _submit(self, folder: str, job_overrides: Sequence[Sequence[str]], first: int) -> list[Any]:
            """The submitted jobs.

            Raises:
                ConfigError: the scheduler is missing, or refuses them.
            """
            import submitit

            from rlhf_exp.errors import ConfigError

            common = {item.name for item in fields(BaseQueueConf)}
            named = {name if name in common else f"{self._EXECUTOR}_{name}": self.params[name] for name in self.params}
            del named["submitit_folder"]
            limit = f"{self._EXECUTOR}_max_num_timeout"
            limits = {limit: named.pop(limit)} if limit in named else {}
            state = Singleton.get_state()
            rows = [(list(texts), "hydra.sweep.dir", number, f"job_id_for_{number}", state)
                    for number, texts in enumerate(job_overrides, first)]  # fmt: skip
            try:
                executor = submitit.AutoExecutor(cluster=self._EXECUTOR, folder=folder, **limits)
                executor.update_parameters(**named)
                return executor.map_array(self, *zip(*rows, strict=True))
            except RuntimeError as error:  # what sbatch prints, on stderr already
                raise ConfigError([f"hydra.launcher: {str(error).strip().splitlines()[-1]}"]) from None

        def _read_result(self, job: Any, number: int) -> JobReturn:
            """What a job returns, when it has ended."""
            from rlhf_exp.errors import say

            try:
                return job.results()[0]
            except RuntimeError:
                if not self.task_function.stopped_by():
                    say(f"the process of job {number} has died (state: {job.state}), see {job.paths.stderr}")
                return JobReturn(status=JobStatus.COMPLETED, _return_value=None)

    class SlurmLauncher(SubmittingLauncher):
        """hydra/launcher=submitit_slurm: a job array of Slurm."""

        _EXECUTOR = "slurm"

    class LocalLauncher(SubmittingLauncher):
        """hydra/launcher=submitit_local: all jobs at once on this machine, without a GPU unless gpus_per_node=1."""

        _EXECUTOR = "local"
