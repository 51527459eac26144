"""Signals that end a run, and what is said then. Imports no ML library.

    with StopSignals() as signals:
        signals.may_wait = True      # a step is running that a checkpoint can follow: a first signal is only noted
        signals.received             # None, or for example signal.SIGTERM

A signal that need not wait raises `Stop` wherever the program is. SIGTERM comes from `kill`, Slurm and container
services, SIGUSR1 from Slurm ahead of a time limit (`sbatch --signal=USR1@120`), SIGHUP from a closed terminal.
"""

import contextlib
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rlhf_exp.cli.arguments import recall
from rlhf_exp.runs.checkpoints import find_checkpoint, read_step

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
AGAIN = (signal.SIGINT, signal.SIGTERM)
"""Signals that end the wait for a checkpoint."""
SIGNALLED = 128
"""Exit statuses above it are those of a signal, by a shell's convention."""
ECHO_S = 1.0
"""`timeout` and wrappers around Ctrl-C send a signal to a process and to its group, which is one request."""


class Stop(KeyboardInterrupt):
    """A signal asks the run to end. As KeyboardInterrupt, it passes every `except Exception`."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signal = signal.Signals(signum)

    @property
    def name(self) -> str:
        return self.signal.name

    @property
    def status(self) -> int:
        return SIGNALLED + self.signal

    @classmethod
    def of(cls, error: KeyboardInterrupt) -> "Stop":
        """Where no handler of ours is in place, Python raises KeyboardInterrupt on SIGINT."""
        return error if isinstance(error, Stop) else cls(signal.SIGINT)


class StopSignals:
    """Handles `SIGNALS` inside its `with`, and puts back the handlers from before. A signal that is ignored, as SIGHUP
    is under nohup, stays ignored; outside the main thread nothing is handled."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.may_wait = False
        self.saved_step: int | None = None
        self._since = 0.0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            handled = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._handle) for number in handled}
        return self

    def __exit__(self, *raised: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        if self.received is None:
            self.received, self._since = signal.Signals(number), now
            if self.may_wait:
                _write(f"\n{self.received.name}: saves a checkpoint as soon as it can, then stops (again: at once)\n")
                return
        elif number not in AGAIN or now - self._since < ECHO_S:
            return
        raise Stop(number)


def describe_stop(stop: Stop, run_dir: Path, saved_step: int | None) -> str:
    """What there is to go on with. `saved_step`: the step of the checkpoint that was saved because of the signal."""
    found = find_checkpoint(run_dir)
    go_on = f"Go on with: {_join(f'resume={run_dir}')}"
    if saved_step is not None:
        return f"Stopped at step {saved_step} by {stop.name}; checkpoint saved. {go_on}"
    if found.path is not None:
        step = read_step(found.path)
        return f"Stopped by {stop.name} without saving; the last checkpoint is of step {step}. {go_on}"
    if (run_dir / "model").exists():  # which must not be written over
        what, folder = f"{run_dir}/model is trained, and there is no checkpoint", _find_free(run_dir)
    else:
        what, folder = "there is no checkpoint yet", run_dir
    return f"Stopped by {stop.name}; {what}. Start anew with: {_repeat_command(run_dir, folder)}"


def tell(line: str) -> None:
    """Print a line; after SIGHUP there may be no terminal left to print on."""
    try:
        print(line, flush=True)
    except OSError:
        _mute([1])


def _repeat_command(run_dir: Path, folder: Path) -> str:
    """The command that starts the run in `run_dir` anew in `folder`. A sweep's job becomes one run, since what the
    sweep has finished would be refused; a study that skips that is repeated, unless its job needs another folder."""
    saved = run_dir / ".hydra"
    typed = [text for text in sys.argv[1:] if text.split("=")[0] not in ("output_dir", "hydra.sweep.dir")]
    if not (saved / "hydra.yaml").is_file() or OmegaConf.load(saved / "hydra.yaml").mode != "MULTIRUN":
        return _join(*typed, f"output_dir={folder}")
    if OmegaConf.load(saved / "config.yaml").skip_finished and folder == run_dir:
        return _join(*typed, f"output_dir={run_dir.parent}")
    flags, overrides = recall(str(run_dir))
    return _join(*flags, *overrides, f"output_dir={folder}")


def _join(*arguments: str) -> str:
    return shlex.join(["python", "-m", "rlhf_exp", *arguments])


def _find_free(folder: Path) -> Path:
    names = (folder.with_name(f"{folder.name}_{number}") for number in count(2))
    return next(name for name in names if not name.exists())


def _write(text: str) -> None:
    """To stderr, as a signal handler may: `print` cannot be entered twice."""
    try:
        os.write(2, text.encode())
    except OSError:
        _mute([1, 2])


def _mute(descriptors: Iterable[int]) -> None:
    """Send what is printed from now on nowhere: on a terminal that is gone every line, even the progress bar's, would
    raise."""
    with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
        for descriptor in descriptors:
            os.dup2(nowhere.fileno(), descriptor)
