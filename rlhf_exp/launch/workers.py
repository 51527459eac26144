"""Runs the jobs of a sweep: one after the other in this process, or in other processes by joblib or submitit.

    statuses = run_jobs(sweep, run_job, settings, use_cpu=True)      # the jobs' exit statuses

Files in a folder of notes say which process runs which job, and how each job has ended: the first process passes
signals on to them, and a process that dies does not take the results of others with it.
"""

import ctypes
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from omegaconf import DictConfig, OmegaConf

from rlhf_exp import processes
from rlhf_exp.errors import FAILED, SIGNALLED, ConfigError, Stop, say, tell
from rlhf_exp.launch.jobs import Sweep
from rlhf_exp.runs.files import write_json, write_text
from rlhf_exp.runs.stopping import SIGNALS, StopSignals

Work = Callable[[Sweep, int, bool], int]
"""Runs one job, by its number from 0, and whether it has begun before; returns its exit status."""
LAUNCHERS = ("basic", "joblib", "submitit_slurm")
STOP = "stop"
SUBMITTED = "SUBMITIT_EXECUTOR" in os.environ
"""Whether this process is a job of submitit, which sends it PREEMPTION before its time is up."""
PREEMPTION = signal.Signals[f"SIG{os.environ.get('SUBMITIT_PREEMPT_SIGNAL', 'USR2')}"]
PATIENCE = 2
"""Signals that are passed on to the jobs; the next one ends their processes at once."""


def run_jobs(sweep: Sweep, work: Work, settings: DictConfig, use_cpu: bool) -> list[int]:
    """Run all jobs as `hydra/launcher=` says; returns the exit status of each, FAILED of one whose process has died.

    Raises:
        ConfigError: no such launcher, or the scheduler refuses the jobs.
        Stop: a signal has ended jobs, and so the sweep.
    """
    launcher = settings.runtime.choices["hydra/launcher"]
    if launcher not in LAUNCHERS:
        raise ConfigError([f"hydra/launcher={launcher}: must be one of {', '.join(LAUNCHERS)}"])
    settings.sweep.dir = str(sweep.folder)
    options: Any = OmegaConf.to_container(OmegaConf.create({"hydra": settings}).hydra.launcher, resolve=True)
    options.pop("_target_")  # Hydra's own class
    if launcher == "joblib":
        options["n_jobs"] = choose_processes(options["n_jobs"], len(sweep.jobs), use_cpu)
    if launcher == "basic" or options.get("n_jobs") == 1:
        return _run_here(sweep, work)
    with TemporaryDirectory(prefix=".jobs_", dir=sweep.folder) as notes:
        jobs = Jobs(sweep, work, Path(notes))
        with Relay(jobs) as relay:
            if launcher == "joblib":
                _run_with_joblib(jobs, options)
            else:
                _run_with_slurm(jobs, relay, options)
        return jobs.list_statuses()


def choose_processes(wanted: int, jobs: int, use_cpu: bool) -> int:
    """How many jobs run at once with joblib, by `hydra.launcher.n_jobs`. By default (-1) as many as there are cores,
    and on a GPU one, since two would compete for its memory."""
    from joblib import cpu_count

    if wanted != -1:
        return wanted
    return min(cpu_count(), jobs) if use_cpu else 1


def _run_here(sweep: Sweep, work: Work) -> list[int]:
    """Run the jobs one after the other in this process. Of several processes each runs all jobs."""
    statuses = []
    for number in range(len(sweep.jobs)):
        status = work(sweep, number, False)
        if status and processes.count() > 1:
            processes.leave(status)
        if status > SIGNALLED:
            raise Stop(status - SIGNALLED)
        statuses.append(status)
    return statuses


def _run_with_joblib(jobs: "Jobs", options: dict[str, Any]) -> None:
    """Run the jobs in `n_jobs` processes, each of which takes one job after the other; joblib divides the cores among
    them (OMP_NUM_THREADS). After jobs that end at once its own batch size would give a process several in one go."""
    from joblib import Parallel, delayed

    try:
        Parallel(**options | {"backend": "loky", "batch_size": 1})(map(delayed(jobs.run), range(len(jobs.sweep.jobs))))
    except BrokenProcessPool:
        say("the process of a job has died (out of memory?), and those of the other jobs were ended")


def _run_with_slurm(jobs: "Jobs", relay: "Relay", options: dict[str, Any]) -> None:
    """Submit each job to Slurm and wait for all of them, also if the process of one dies. Output goes to files.

    Raises:
        ConfigError: the scheduler is missing, or refuses them.
    """
    import submitit
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf

    from rlhf_exp.launch.slurm import Queue

    folder, limit = options.pop("submitit_folder"), options.pop("max_num_timeout")
    if folder.endswith("/%j"):  # submitit's default: a folder of that very name
        folder = str(jobs.sweep.folder / ".submitit")
    tell(f"output of the jobs: {folder}")
    common = {item.name for item in fields(BaseQueueConf)}
    named = {name if name in common else f"slurm_{name}": value for name, value in options.items()}
    try:
        executor = submitit.AutoExecutor(cluster="slurm", folder=folder, slurm_max_num_timeout=limit)
        executor.update_parameters(**named)
        submitted = executor.map_array(jobs, range(len(jobs.sweep.jobs)))
    except RuntimeError as error:  # what sbatch prints, on stderr already
        raise ConfigError([f"hydra.launcher: {str(error).strip().splitlines()[-1]}"]) from None
    relay.cancel = Queue(submitted).cancel_pending
    for number, job in enumerate(submitted, 1):
        if job.exception() and not jobs.stopped_by():
            say(f"the process of job {number} has died (state: {job.state}), see {job.paths.stderr}")


@dataclass(frozen=True)
class Jobs:
    """The jobs of a sweep in other processes, which get a copy of this. `notes`: a folder for what is known of each
    job: its process, and its exit status once it has ended."""

    sweep: Sweep
    work: Work
    notes: Path

    def run(self, number: int) -> None:
        """Run a job in this process, which goes on to the next job after this one, and note its exit status. After a
        signal to one job no other is started."""
        again = number in self._read_notes()  # a scheduler has preempted the job, and starts it again
        requeue: Any = signal.getsignal(PREEMPTION)  # submitit's handler
        _end_with_parent()
        _prefix_lines(f"[{number + 1}/{len(self.sweep.jobs)}] ")
        for name in SIGNALS:
            if signal.getsignal(name) != signal.SIG_IGN:  # which StopSignals would leave alone
                signal.signal(name, lambda *_: None)  # between two jobs: an ended process ends all others too
        with StopSignals() as signals:
            try:
                self._note(number, pid=os.getpid(), slurm=_name_slurm_job())
                stopped = self.stopped_by()
                status = SIGNALLED + stopped if stopped else self.work(self.sweep, number, again)
            except KeyboardInterrupt:
                status = SIGNALLED + (signals.received or signal.SIGINT)
        if SUBMITTED and not self.stopped_by() and _is_preempted(status):
            try:
                requeue(PREEMPTION, None)  # ends this process
            except subprocess.CalledProcessError:  # Slurm has done so itself, there being no grace time
                sys.exit(status)  # without a result, for which the first process waits
            except RuntimeError as error:  # the time limit, for the last time
                say(str(error))
        self._note(number, status=status)
        if status > SIGNALLED and not SUBMITTED:  # a scheduler sends its signals to each job for itself
            write_text(self.notes / STOP, str(status - SIGNALLED))

    __call__ = run
    """As submitit calls it."""

    def checkpoint(self, number: int) -> Any:
        """What submitit puts into the queue again when it preempts a job."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, number)

    def list_statuses(self) -> list[int]:
        """The exit status of each job, now that none is running.

        Raises:
            Stop: a signal has ended jobs, and so the sweep.
        """
        if number := self.stopped_by():
            raise Stop(number)
        known = self._read_notes()
        return [known.get(number, {}).get("status", FAILED) for number in range(len(self.sweep.jobs))]

    def stop(self, number: int) -> int:
        """Send a signal to the running jobs, and start no other; returns how many are running."""
        write_text(self.notes / STOP, str(number))
        running = [job for job in self._read_notes().values() if "pid" in job]
        for job in running:
            if job["slurm"]:
                subprocess.run(["scancel", f"--signal={signal.Signals(number).name[3:]}", job["slurm"]], check=False)
            else:
                with suppress(ProcessLookupError):
                    os.kill(job["pid"], number)
        return len(running)

    def stopped_by(self) -> int:
        """The signal that ends the sweep; 0 if there was none."""
        path = self.notes / STOP
        return int(path.read_text()) if path.exists() else 0

    def _read_notes(self) -> dict[int, dict[str, Any]]:
        """What is known of each job that has begun, by its number."""
        return {int(path.stem): json.loads(path.read_text(encoding="utf-8")) for path in self.notes.glob("[0-9]*.json")}

    def _note(self, number: int, **facts: Any) -> None:
        """Write what is known of a job. If the folder is gone, so is the process that would read it."""
        with suppress(FileNotFoundError):
            write_json(self.notes / f"{number}.json", facts)


class Relay(StopSignals):
    """Inside its `with`, passes signals on to the jobs in other processes, since only a terminal sends them to all."""

    def __init__(self, jobs: Jobs) -> None:
        super().__init__()
        self._jobs, self._times = jobs, 0
        self.cancel: Callable[[], None] = lambda: None
        """Takes waiting jobs out of a scheduler's queue."""

    def _handle(self, number: int, frame: Any) -> None:
        self._times += 1
        if self._times > PATIENCE:
            raise Stop(number)
        running = self._jobs.stop(number)
        self.cancel()
        with suppress(OSError):  # `print` may not be called here, and the terminal may be gone
            os.write(2, f"\n{signal.Signals(number).name}: waits for {running} running jobs to stop\n".encode())


class Prefixed(io.TextIOBase):
    """A stream that writes whole lines, each after the same prefix; empty lines are left out."""

    def __init__(self, stream: TextIO) -> None:
        self.prefix, self._stream, self._rest = "", stream, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        self._stream.write("".join(f"{self.prefix}{line}\n" for line in lines if line.strip()))
        self._stream.flush()  # one write, so that lines of other processes are not within it
        return len(text)

    def fileno(self) -> int:
        return self._stream.fileno()


def _end_with_parent() -> None:
    """On Linux, have this process get SIGTERM if the first process is killed, unless it is a scheduler's."""
    if sys.platform == "linux" and not SUBMITTED:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _prefix_lines(prefix: str) -> None:
    """Set the prefix of this process's output. The streams stay the same ones: loggers keep them from job to job."""
    if not isinstance(sys.stdout, Prefixed):
        sys.stdout, sys.stderr = Prefixed(sys.stdout), Prefixed(sys.stderr)
    streams: Any = sys
    streams.stdout.prefix = streams.stderr.prefix = prefix


def _name_slurm_job() -> str | None:
    """4711_2 for task 2 of array 4711; None if this process is no job of Slurm."""
    if not SUBMITTED:
        return None
    from submitit import JobEnvironment

    return JobEnvironment().job_id


def _is_preempted(status: int) -> bool:
    """Whether a job that ends with `status` is to be put into the queue again. Slurm preempts with SIGTERM, and cancels
    with it (`scancel`); but a preempted job still runs then, in its grace time, or Slurm has put it into the queue."""
    if status == SIGNALLED + signal.SIGTERM and (job := _name_slurm_job()):
        command = ["squeue", "--noheader", f"--jobs={job}", "--Format=State:20,RestartCnt:20"]
        state = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
        is_over = state[:1] in (["COMPLETING"], ["CANCELLED"])
        return not is_over or int(state[1]) != int(os.environ.get("SLURM_RESTART_COUNT", 0))
    return status in (SIGNALLED + PREEMPTION, SIGNALLED + signal.SIGTERM)
