"""Says on the terminal that a function of the user's does not return, and ends it after a limit.

    with patience.watch(lambda: "task.checker=mine.py:check, on row 7"):
        grade = check(completion, row)       # after 10 s: "... has not returned for 10 s; ..."

A timer of the system (SIGALRM) interrupts Python code, `re`, large integers and waiting, in the main thread. A call
into C that looks for no signal, such as all(itertools.repeat(True)), gets no line. If there is a limit, faulthandler's
thread, which needs no lock of Python's, prints where it hangs and ends the process.
"""

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rlhf_exp.errors import printable

LINE_S, GRACE_S, AGAIN_S = 10.0, 2.0, 1.0
"""The line comes after LINE_S. What has not ended GRACE_S after the limit hangs in C. A function that catches the error
of the limit gets it again after AGAIN_S."""
STDERR = 2

limit_s: float | None = None
"""reward.timeout_s, which `load_task` sets for this process."""


class TimedOut(BaseException):
    """A call took longer than the limit; no `except Exception` of the function's catches it."""


@contextmanager
def watch(describe: Callable[[], str]) -> Iterator[None]:
    """Inside the `with`, print a line that begins with `describe()` if it takes long, and raise TimedOut at the limit.
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
            os.write(STDERR, f"rlhf_exp: {printable(describe())} has not returned for {spent:.0f} s; {end}\n".encode())
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
