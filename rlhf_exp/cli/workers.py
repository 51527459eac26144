"""Runs the jobs of a sweep in other processes than the one that was started: with joblib's and submitit's launchers.

    jobs = Jobs(list(sys.argv), folder, total=12, dry_run=False)
    with jobs.pass_on_signals():
        ...                      # in the process of a job, which gets a copy of `jobs`: jobs.run(3, work)
    jobs.end()                   # the jobs' exit statuses

Files in `folder` say which process runs which job, and how each job has ended.
"""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, TextIO

from rlhf_exp.cli.launchers import cancel_pending
from rlhf_exp.errors import FAILED, SIGNALLED, say
from rlhf_exp.runs.folder import write_json, write_text
from rlhf_exp.runs.stopping import AGAIN, ECHO_S, SIGNALS, Stop, StopSignals

STOP = "stop"
SUBMITTED = "SUBMITIT_EXECUTOR" in os.environ
"""Whether this process is a job of submitit, which sends it PREEMPTION before its time is up."""
PREEMPTION = signal.Signals[f"SIG{os.environ.get('SUBMITIT_PREEMPT_SIGNAL', 'USR2')}"]
LOOK_S = 0.5
PATIENCE = 2
"""Signals that are passed on to the jobs; the next one ends their processes at once."""


def _name_process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


@dataclass
class Jobs:
    """The jobs of one sweep: the command line, which their processes lack, the folder in which they note how they have
    ended, and their number (0 if not known)."""

    argv: list[str]
    folder: Path
    total: int
    dry_run: bool
    home: tuple[str, int] = field(default_factory=_name_process)

    def run(self, number: int, work: Callable[[], int]) -> int:
        """Do the work of job `number`, counted from 0, and keep its exit status.

        Raises:
            Stop: a signal has ended the job, and the sweep runs in this process; elsewhere no further job is started.
        """
        at_home = _name_process() == self.home
        status = work() if at_home else self._run_here(number, work)
        self._note(number, status=status)
        if status > SIGNALLED and not SUBMITTED:  # a scheduler sends its signals to each job for itself
            write_text(self.folder / STOP, str(status - SIGNALLED))
            if at_home:
                raise Stop(status - SIGNALLED)
        return status

    def has_begun(self, number: int) -> bool:
        """Whether job `number` has begun before: the scheduler has preempted it, and starts it again."""
        return (self.folder / f"{number}.json").exists()

    def end(self) -> list[int]:
        """The exit status of each job, now that none is running: FAILED if it has none, for its process has died.

        Raises:
            Stop: a signal has ended jobs, and so the sweep.
        """
        if number := self.stopped_by():
            raise Stop(number)
        begun = [job.get("status", FAILED) for job in self._read()]
        return begun + [FAILED] * (self.total - len(begun))

    @contextmanager
    def pass_on_signals(self) -> Iterator[None]:
        """Pass signals on to the running jobs inside the `with`, since only a terminal sends them to all processes."""
        relay = Relay(self)
        before = {number: signal.getsignal(number) for number in SIGNALS}
        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, relay.handle)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def stop(self, number: int) -> int:
        """Send a signal to the running jobs, and start no other; returns how many are running."""
        write_text(self.folder / STOP, str(number))
        cancel_pending()
        running = [job for job in self._read() if "pid" in job]
        for job in running:
            if job["slurm"]:
                subprocess.run(["scancel", f"--signal={signal.Signals(number).name[3:]}", job["slurm"]], check=False)
            else:
                with suppress(ProcessLookupError):
                    os.kill(job["pid"], number)
        return len(running)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Print a line for each job that begins or ends inside the `with`, as its output goes to a file."""
        done = Event()
        seen: dict[int, str] = {}

        def look() -> None:
            while True:
                last = done.is_set()
                for path in sorted(self.folder.glob("[0-9]*.json"), key=lambda path: int(path.stem)):
                    job, number = json.loads(path.read_text(encoding="utf-8")), int(path.stem)
                    state = f"ends with status {job['status']}" if "status" in job else f"runs on {job['host']}"
                    if seen.get(number) != state:
                        print(f"[{number + 1}{f'/{self.total}' if self.total else ''}] {state}", flush=True)
                    seen[number] = state
                if last:
                    return
                done.wait(LOOK_S)

        thread = Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _run_here(self, number: int, work: Callable[[], int]) -> int:
        """`run` in a process of the launcher, which goes on to the next job after this one."""
        sys.argv[:] = self.argv
        requeue = signal.getsignal(PREEMPTION)  # submitit's handler
        _prefix_lines(f"[{number + 1}/{self.total}] " if self.total else f"[{number + 1}] ")
        for name in SIGNALS:
            if signal.getsignal(name) != signal.SIG_IGN:
                signal.signal(name, _ignore)  # between two jobs: an ended process ends all others too
        with StopSignals() as signals:
            try:
                host, pid = _name_process()
                self._note(number, pid=pid, host=host, slurm=_name_slurm_job())
                status = SIGNALLED + self.stopped_by() if self.stopped_by() else work()
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

    def _note(self, number: int, **facts: Any) -> None:
        """Write what is known of a job. If the folder is gone, so is the process that would read it."""
        with suppress(FileNotFoundError):
            write_json(self.folder / f"{number}.json", facts)

    def stopped_by(self) -> int:
        """The signal that ends the sweep; 0 if there was none."""
        path = self.folder / STOP
        return int(path.read_text()) if path.exists() else 0

    def _read(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text(encoding="utf-8")) for path in self.folder.glob("[0-9]*.json")]


class Relay:
    """Handles signals while jobs run in other processes, and waits for them to end."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._times, self._since = 0, 0.0

    def handle(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        if self._times and (number not in AGAIN or now - self._since < ECHO_S):
            return
        self._times, self._since = self._times + 1, now
        if self._times > PATIENCE:
            raise Stop(number)
        running = self._jobs.stop(number)
        with suppress(OSError):  # `print` may not be called here, and the terminal may be gone
            os.write(2, f"\n{signal.Signals(number).name}: waits for {running} running jobs to stop\n".encode())


class Prefixed(io.TextIOBase):
    """A stream that writes whole lines, each after the same prefix; empty lines are left out."""

    def __init__(self, stream: TextIO) -> None:
        self.prefix = ""
        self._stream, self._rest = stream, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        if whole := "".join(f"{self.prefix}{line}\n" for line in lines if line.strip()):
            self._stream.write(whole)
            self._stream.flush()  # one write, so that lines of other processes are not within it
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()


def _prefix_lines(prefix: str) -> None:
    """Set the prefix of this process's output. The streams stay the same ones: loggers keep them from job to job."""
    if not isinstance(sys.stdout, Prefixed):
        sys.stdout, sys.stderr = Prefixed(sys.stdout), Prefixed(sys.stderr)
    sys.stdout.prefix = sys.stderr.prefix = prefix


def _name_slurm_job() -> str | None:
    """4711_2 for task 2 of array 4711, whose SLURM_JOB_ID may be 4711 too, by which Slurm's commands understand the
    whole array; None if this process is no job of Slurm."""
    if os.environ.get("SUBMITIT_EXECUTOR") != "slurm":
        return None
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ["SLURM_JOB_ID"]


def _is_preempted(status: int) -> bool:
    """Whether a job that ends with `status` is to be put into the queue again. Slurm preempts with SIGTERM, and cancels
    with it."""
    if status == SIGNALLED + signal.SIGTERM and (job := _name_slurm_job()):
        from rlhf_exp.cli.slurm import is_cancelled

        return not is_cancelled(job)
    return status in (SIGNALLED + PREEMPTION, SIGNALLED + signal.SIGTERM)


def _ignore(number: int, frame: Any) -> None:
    """A handler, since StopSignals leaves a signal alone that is ignored by SIG_IGN."""
