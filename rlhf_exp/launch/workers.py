"""The jobs of a sweep as Hydra's launchers call them, in this process or in others (joblib, submitit).

    jobs = Jobs(run_job, list(sys.argv), folder, total=12, swept=frozenset(["seed"]), use_cpu=True)
    with Relay(jobs):
        ...                      # Hydra's launcher: jobs(cfg) for each job, in another process with a copy of `jobs`
    jobs.end()                   # the jobs' exit statuses

Files in `jobs.notes` say which process runs which job, and how each job has ended.
"""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TextIO

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from rlhf_exp import processes
from rlhf_exp.errors import FAILED, SIGNALLED, Stop, say
from rlhf_exp.runs.files import write_json, write_text
from rlhf_exp.runs.stopping import SIGNALS, StopSignals

STOP = "stop"
SUBMITTED = "SUBMITIT_EXECUTOR" in os.environ
"""Whether this process is a job of submitit, which sends it PREEMPTION before its time is up."""
PREEMPTION = signal.Signals[f"SIG{os.environ.get('SUBMITIT_PREEMPT_SIGNAL', 'USR2')}"]
PATIENCE = 2
"""Signals that are passed on to the jobs; the next one ends their processes at once."""
MOST_LETTERS = 100  # in the name of a job's folder; a longer one is shortened and ends with a hash


def name_folder(overrides: Iterable[str], swept: Collection[str]) -> str:
    """The folder of a job by what its sweep varies, in letters that `resume=` takes without quotes."""
    own = [text.replace("=", "-", 1) for text in overrides if text.split("=")[0] in swept]
    name = re.sub(r"[^\w.+-]+", "_", "_".join(own).replace("experiment-", ""))
    if len(name) > MOST_LETTERS:
        name = f"{name[: MOST_LETTERS - 9]}-{sha256(' '.join(own).encode()).hexdigest()[:8]}"
    return name


def _name_process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


@dataclass
class Jobs:
    """What the jobs of one sweep have in common, also in processes that lack the command line.

    Attributes:
        work: runs one job: of its config, Hydra's part of it, these Jobs, and whether it has begun before.
        argv: the command line.
        folder: of the sweep.
        total: how many jobs there are.
        swept: the keys that the jobs differ in.
    """

    work: Callable[[DictConfig, DictConfig, "Jobs", bool], int]
    argv: list[str]
    folder: Path
    total: int
    swept: frozenset[str]
    use_cpu: bool
    notes: Path = Path()  # a folder that `run_sweep` makes
    home: tuple[str, int] = field(default_factory=_name_process)

    def __call__(self, cfg: DictConfig) -> None:
        """Run one job and note its exit status.

        Raises:
            Stop: a signal has ended the job, and the sweep runs in this process; elsewhere no further job is started.
        """
        settings: DictConfig = HydraConfig.get()  # type: ignore[assignment]
        number, at_home = settings.job.num, _name_process() == self.home
        again = (self.notes / f"{number}.json").exists()  # a scheduler has preempted the job, and starts it again
        status = self.work(cfg, settings, self, again) if at_home else self._run_here(cfg, settings, again)
        self._note(number, status=status)
        if status and processes.count() > 1:
            processes.leave(status)
        if status > SIGNALLED and not SUBMITTED:  # a scheduler sends its signals to each job for itself
            write_text(self.notes / STOP, str(status - SIGNALLED), any_rank=True)
            if at_home:
                raise Stop(status - SIGNALLED)

    def name(self, number: int, overrides: list[str]) -> str:
        """job 3 of 18 (seed=0 max_tokens=64); `number` counts from 0."""
        return f"job {number + 1} of {self.total} ({' '.join(overrides)})"

    def place(self, cfg: DictConfig, settings: DictConfig) -> None:
        """Set the folder of a job. With skip_finished its name has no number, since numbers change when the study
        grows, and finished jobs must be found again."""
        name = name_folder(settings.overrides.task, self.swept)
        if not cfg.skip_finished or not name:
            name = f"{settings.job.num:02d}_{name}"
        cfg.output_dir = str(self.folder / name)

    def end(self) -> dict[int, int]:
        """The exit status of each job by its number, now that none is running: FAILED if it has none, for its process
        has died.

        Raises:
            Stop: a signal has ended jobs, and so the sweep.
        """
        if number := self.stopped_by():
            raise Stop(number)
        ended = {number: job.get("status", FAILED) for number, job in self._read_notes().items()}
        return {number: ended.get(number, FAILED) for number in range(self.total)}

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

    def _run_here(self, cfg: DictConfig, settings: DictConfig, again: bool) -> int:
        """Run a job in a process of the launcher, which goes on to the next job after this one."""
        number = settings.job.num
        sys.argv[:] = self.argv
        requeue: Any = signal.getsignal(PREEMPTION)  # submitit's handler
        _prefix_lines(f"[{number + 1}/{self.total}] " if self.total else f"[{number + 1}] ")
        for name in SIGNALS:
            if signal.getsignal(name) != signal.SIG_IGN:  # which StopSignals would leave alone
                signal.signal(name, lambda *_: None)  # between two jobs: an ended process ends all others too
        with StopSignals() as signals:
            try:
                self._note(number, pid=os.getpid(), slurm=_name_slurm_job())
                stopped = self.stopped_by()
                status = SIGNALLED + stopped if stopped else self.work(cfg, settings, self, again)
            except KeyboardInterrupt:
                status = SIGNALLED + (signals.received or signal.SIGINT)
        if SUBMITTED and not self.stopped_by() and _is_preempted(status):
            try:
                requeue(PREEMPTION, None)  # ends this process
            except subprocess.CalledProcessError:  # Slurm has done so itself, there being no grace time
                sys.exit(status)  # without a result, for which the first process waits
            except RuntimeError as error:  # the time limit, for the last time
                say(str(error))
        return status

    def _read_notes(self) -> dict[int, dict[str, Any]]:
        """What is known of each job that has begun, by its number."""
        return {int(path.stem): json.loads(path.read_text(encoding="utf-8")) for path in self.notes.glob("[0-9]*.json")}

    def _note(self, number: int, **facts: Any) -> None:
        """Write what is known of a job. If the folder is gone, so is the process that would read it."""
        with suppress(FileNotFoundError):
            write_json(self.notes / f"{number}.json", facts, any_rank=True)


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


def _prefix_lines(prefix: str) -> None:
    """Set the prefix of this process's output. The streams stay the same ones: loggers keep them from job to job."""
    if not isinstance(sys.stdout, Prefixed):
        sys.stdout, sys.stderr = Prefixed(sys.stdout), Prefixed(sys.stderr)
    streams: Any = sys
    streams.stdout.prefix = streams.stderr.prefix = prefix


def _name_slurm_job() -> str | None:
    """4711_2 for task 2 of array 4711, whose SLURM_JOB_ID may be 4711 too, by which Slurm's commands understand the
    whole array; None if this process is no job of Slurm."""
    if os.environ.get("SUBMITIT_EXECUTOR") != "slurm":
        return None
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ["SLURM_JOB_ID"]


def _is_preempted(status: int) -> bool:
    """Whether a job that ends with `status` is to be put into the queue again. Slurm preempts with SIGTERM, and cancels
    with it (`scancel`); but a preempted job still runs then, in its grace time, or Slurm has put it into the queue."""
    if status == SIGNALLED + signal.SIGTERM and (job := _name_slurm_job()):
        command = ["squeue", "--noheader", f"--jobs={job}", "--Format=State:20,RestartCnt:20"]
        state = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
        is_over = state[:1] in (["COMPLETING"], ["CANCELLED"])
        return not is_over or int(state[1]) != int(os.environ.get("SLURM_RESTART_COUNT", 0))
    return status in (SIGNALLED + PREEMPTION, SIGNALLED + signal.SIGTERM)
