"""Imports a file of the user's, a checker, a reward or a task, and calls its functions.

    function = import_function("mine.py:check", "task.checker=mine.py:check")
    with confine("task.checker=mine.py:check, on row 7,", "mine.py"), watch("task.checker=mine.py:check, on row 7,"):
        result = function("4", row)

It can neither end the process of the run with a status of its own, nor leave a second one behind (`confine`).

Of a call that takes 10 seconds a line on the terminal says so, "... has not returned for 10 s; ..."; at `limit_s` it is
ended. A timer of the system (SIGALRM) interrupts Python code, `re`, large integers and waiting, in the main thread. A
call into C that looks for no signal, such as all(itertools.repeat(True)), gets no line; if there is a limit,
faulthandler's thread, which needs no lock of Python's, prints where it hangs and ends the process.
"""

import faulthandler
import importlib.util
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

from rlhf_exp.config.values import show, suggest
from rlhf_exp.errors import FAILED, ConfigError, printable, read_message, refusing

LINE_S, GRACE_S, AGAIN_S = 10.0, 2.0, 1.0
"""The line comes after LINE_S. What has not ended GRACE_S after the limit hangs in C. A function that catches the error
of the limit gets it again after AGAIN_S."""
STDERR = 2

limit_s: float | None = None
"""reward.timeout_s, which `load_task` sets for this process."""


class RewardError(RuntimeError):
    """A user's function raised an error or returned no valid rewards; the message names the function."""


class TimedOut(BaseException):
    """A call took longer than the limit; no `except Exception` of the function's catches it."""


def import_function(where: str, key: str) -> Callable[..., Any]:
    """The function that `where`, FILE.py:FUNCTION, names; `key` is what the user has typed.

    Raises:
        ConfigError: a file that cannot be imported, or no such function.
    """
    file, _, name = where.rpartition(":")
    module = import_file(file, key)
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigError([f"{key}: {Path(file).name} has no function {name}{suggest(name, vars(module))}"])
    return function


def import_file(file: str, key: str) -> ModuleType:
    """The Python file as a module.

    Raises:
        ConfigError: it cannot be imported.
    """
    path = Path(file).expanduser()
    spec: Any = importlib.util.spec_from_file_location(f"user_reward_{path.stem}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses in the file need this
    with refusing(f"{key}: cannot be imported", RewardError), confine(key, file):
        spec.loader.exec_module(module)
    return module


def describe_error(error: BaseException, file: str) -> str:
    """`KeyError in line 3: 'nope'`, of the user's file the last line that was reached; without it if none was."""
    path, steps = os.path.abspath(os.path.expanduser(file)), traceback.extract_tb(error.__traceback__)
    lines = [step.lineno for step in steps if os.path.abspath(step.filename) == path]
    place = f" in line {lines[-1]}" if lines else ""
    return f"{type(error).__name__}{place}: {show(read_message(error), 200)}"


def describe_value(value: Any) -> str:
    """`[1, 2] (list)`, what a function of the user's has returned."""
    return "null (None)" if value is None else f"{show(value, 40)} ({type(value).__name__})"


def read_number(value: Any, of: str = "") -> float:
    """A number that a function of the user's has returned, also one of numpy or torch.

    Raises:
        RewardError: none, or not a finite one; `of` says of what it is.
    """
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, Real) or not math.isfinite(value):
        raise RewardError(f"returned {describe_value(value)}{of}; must be a finite number")
    return float(value)


@contextmanager
def confine(described: str, file: str) -> Iterator[None]:
    """Inside the `with`, which runs code of the user's file, os._exit raises SystemExit, since it would end the run
    with any status, 0 too, and no record. A process forked inside may end as it likes; one that comes back out, as a
    second run, is ended.

    Raises:
        ConfigError, RewardError: the code's own.
        RewardError: with what else it raised as the cause, SystemExit too, since that would end the run as if it had
            succeeded.
    """
    run, leave = os.getpid(), os._exit

    def refuse(status: int) -> NoReturn:
        if os.getpid() != run:
            leave(status)
        raise SystemExit(f"os._exit({status})")

    os._exit = refuse
    try:
        yield
    except (KeyboardInterrupt, ConfigError, RewardError):
        raise
    except BaseException as error:  # the file can raise anything
        raise RewardError(f"raised {describe_error(error, file)}") from error
    finally:
        os._exit = leave
        if os.getpid() != run:
            line = f"rlhf_exp: {printable(described)} has forked a process that came back; it is ended\n"
            os.write(STDERR, line.encode())
            leave(FAILED)


@contextmanager
def watch(described: str) -> Iterator[None]:
    """Inside the `with`, print a line that begins with `described` if it takes long, and raise TimedOut at the limit.
    Outside the main thread nothing is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    began, limit, said, done = time.monotonic(), limit_s, False, False

    def ring(number: int, frame: FrameType | None) -> None:
        nonlocal said
        spent = time.monotonic() - began
        if spent >= LINE_S and not said:
            said = True
            end = f"is ended after {limit:g} s" if limit else "reward.timeout_s=60 would end such a call"
            os.write(STDERR, f"rlhf_exp: {printable(described)} has not returned for {spent:.0f} s; {end}\n".encode())
        if limit is not None and spent >= limit and not done:
            raise TimedOut(f"no result within {limit:g} s (reward.timeout_s)")

    before = signal.signal(signal.SIGALRM, ring)
    if limit is not None:  # a thread each time, 0.1 ms
        faulthandler.dump_traceback_later(limit + GRACE_S, exit=True, file=STDERR)
    signal.setitimer(signal.ITIMER_REAL, min(LINE_S, limit or LINE_S), AGAIN_S)
    try:
        yield
    finally:
        done = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        if limit is not None:
            faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)
