"""Asks Slurm how jobs are. Submitit asks `sacct`, which knows nothing on a cluster that keeps no accounts.

queue = Queue(jobs)         # in the process that waits for submitit's jobs: these ask `squeue`
queue.cancel_pending()
"""

import subprocess
from collections.abc import Iterable

from submitit import Job
from submitit.slurm.slurm import SlurmInfoWatcher

ENDED = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"}
FORGOTTEN = "ended"
"""The state of a job that Slurm no longer lists, minutes after its end (MinJobAge)."""


class Queue(SlurmInfoWatcher):
    """How the followed jobs are, by `squeue`, which is asked at least once a minute."""

    def __init__(self, jobs: Iterable[Job] = ()) -> None:
        """Make the jobs ask here."""
        super().__init__()
        self._jobs = list(jobs)
        for job in self._jobs:
            job.watcher = self
            self.register_job(job.job_id)

    def cancel_pending(self) -> None:
        """Take the jobs out of Slurm's queue that have not begun; nobody will read what the others return."""
        if self._jobs:
            subprocess.run(["scancel", "--state=PENDING", *(job.job_id for job in self._jobs)], check=False)
            self.clear()  # ask at once how they are now
        for job in self._jobs:
            job._results_timeout_s = 0

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        return self.get_state(job_id, mode) in {*ENDED, FORGOTTEN}

    def _make_command(self) -> list[str]:
        return ["squeue", "--me", "--array", "--states=all", "--noheader", "--format=%i|%T"]

    def read_info(self, string: bytes | str) -> dict[str, dict[str, str]]:
        text = string if isinstance(string, str) else string.decode()
        states = dict(line.split("|") for line in text.split())
        return {job: {"State": states.get(job, FORGOTTEN)} for job in self._registered}
