"""Handles the signals that end a run. Imports no ML library.

    with StopSignals() as signals:
        signals.may_wait = True      # a checkpoint can follow the running step, so the first signal is only recorded
        signals.received             # None, or for example signal.SIGTERM

    describe_stop(stop, run_dir)     # Stopped by SIGTERM; the last checkpoint is of step 40. Resume with: ...

A signal that need not wait raises `Stop` wherever the program is. SIGTERM comes from `kill`, Slurm and container
services, SIGUSR1 from Slurm before a time limit (`sbatch --signal=USR1@120`), SIGUSR2 likewise from submitit, SIGHUP
from a closed terminal.
"""

import os
import shlex
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from rlhf_exp.config.reading import set_text
from rlhf_exp.errors import Stop, discard_output
from rlhf_exp.runs.checkpoints import find_checkpoint, read_step
from rlhf_exp.runs.environment import name_launcher, name_program, read_command

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
AGAIN = (signal.SIGINT, signal.SIGTERM)
"""Signals that end the wait for a checkpoint."""
ECHO_S = 1.0
"""Signals within this time are one request: `timeout` and others send a signal to a process and to its group."""


class StopSignals:
    """Handles `SIGNALS` inside its `with`, and then restores the earlier handlers. A signal that is ignored, as SIGHUP
    is under nohup, stays ignored; outside the main thread no signal is handled."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.alarm: str | None = None  # one of monitor.stop_on, which ends the run in the same way
        self.may_wait = False
        self.are_ignored = False
        self._since = 0.0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            handled = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._handle) for number in handled}
        return self

    def __exit__(self, *raised: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        if self.are_ignored:
            return
        if number == signal.SIGHUP:  # there may be no terminal left to print on
            _write("\n", 1)
        if self.received is None:
            self.received, self._since = signal.Signals(number), now
            if self.may_wait:
                _write(f"\n{self.received.name}: saves a checkpoint as soon as it can, then stops (again: at once)\n")
                return
        elif number not in AGAIN or now - self._since < ECHO_S:
            return
        raise Stop(number)


def describe_stop(stop: Stop, run_dir: Path) -> str:
    """How the run stopped, and the command that resumes it or starts it anew."""
    newest = find_checkpoint(run_dir, by_size=True).path
    if newest is None:
        return f"Stopped by {stop.name}; there is no checkpoint yet. Start anew with: {read_command()}"
    resume = shlex.join([*name_launcher("python"), *name_program(), set_text("resume", str(run_dir))])
    return f"Stopped by {stop.name}; the last checkpoint is of step {read_step(newest)}. Resume with: {resume}"


def describe_restart(run_dir: Path, lower: list[str]) -> str:
    """How to go on after what is not finite, which a resumed run would meet again. `lower`: overrides against it."""
    newest = find_checkpoint(run_dir, by_size=True).path
    if newest is None:
        return f"There is no checkpoint to go on from. Start anew with: {lower[0]}"
    with_it = shlex.join([set_text("model.path", str(newest)), *lower])
    return f"resume= would end in the same way. Go on from step {read_step(newest)}, in another folder, with: {with_it}"


def _write(text: str, descriptor: int = 2) -> None:
    """Write in a way that is allowed in a signal handler; `print` is not reentrant. Once the terminal has gone every
    line, even the progress bar's, would raise: all further output is then discarded."""
    with suppress(OSError):
        os.write(descriptor, text.encode())
        return
    with suppress(OSError):
        discard_output(1, 2)
