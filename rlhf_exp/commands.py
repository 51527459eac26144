"""The frame of `python -m rlhf_exp` and of its other commands: --help, exit statuses, a line on stderr for each error.

    def main(arguments=None):
        return run_command(_work, arguments, USAGE, "describe")

`_work(arguments)` raises its errors, and claims its output folder (`runs.lock.claim`), where a traceback is written.
"""

import errno
import os
import sys
import time
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from io import TextIOWrapper
from typing import NoReturn

from rlhf_exp import __version__, processes
from rlhf_exp.errors import FAILED, NOTE, REFUSED, ConfigError, Stop, name_error, printable, say, show, tell

OF_THE_DISK = (errno.ENAMETOOLONG, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
"""Errors that say enough in one line."""

COMMANDS = {name: f"rlhf_exp.analysis.{name}.__main__" for name in ("diagnose", "report", "study")}
COMMANDS |= {name: f"rlhf_exp.{name}.__main__" for name in ("describe", "runs")}
COMMANDS |= {name: f"rlhf_exp.{name}" for name in ("audit", "calibrate", "samples")}
"""The commands beside an experiment, each with the module whose `main` takes its arguments."""


def run_command(
    work: Callable[[list[str]], int | None], arguments: list[str] | None, usage: str, command: str = ""
) -> int:
    """Print the usage for --help, else do the work; returns the exit status.

    Args:
        arguments: None takes those of the command line.
        command: the name after `rlhf_exp`, for messages.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if {"-h", "--help"} & set(arguments):
        tell(usage, end="")
        return 0
    if "--version" in arguments:
        tell(f"rlhf_exp {__version__}")
        return 0
    if not sys.stderr.isatty():  # a log would keep every redraw; ours are lines there: progress.py
        hide_bars()
    if command and processes.count() > 1:
        say("takes one process; start it without torchrun", command)
        return REFUSED
    return guard(partial(work, arguments), command)


def guard(work: Callable[[], int | None], command: str = "", where: str = "") -> int:
    """The exit status of `work`. Its errors are printed on stderr, with `where` before them: one line for each mistake
    of the user (status 2), one line for a failure (1), after its traceback unless a folder holds that (see `claim`);
    the status of a signal is 128 plus its number."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: where a locale is ASCII
    try:
        return work() or 0
    except KeyboardInterrupt as error:
        return Stop.of(error).status
    except BaseException as error:  # SystemExit too: a reward may raise anything
        notes = [note.removeprefix(NOTE) for note in getattr(error, "__notes__", ()) if note.startswith(NOTE)]
        if not notes and isinstance(error, OSError) and error.errno in OF_THE_DISK:
            error = ConfigError([f"{show(error.filename or 'the disk', 200)}: {error.strerror}"])
        problems = error.problems if isinstance(error, ConfigError) else notes
        if not processes.is_main():
            time.sleep(processes.GRACE_S)  # torchrun ends this rank if rank 0 ends with the same error
        elif not problems:
            print(printable("".join(traceback.format_exception(error))), end="", file=sys.stderr)
        for problem in problems or [f"failed: {name_error(error)}"]:
            say(where + problem, command, "red")
        return REFUSED if isinstance(error, ConfigError) else FAILED


def parse_flags(parser: ArgumentParser, arguments: list[str]) -> Namespace:
    """Read flags, in any order with other arguments. A mistake raises a ConfigError instead of printing the usage and
    exiting."""

    def refuse(message: str) -> NoReturn:
        raise ConfigError([f"{message}; see --help"])

    parser.error = refuse  # type: ignore[method-assign]
    return parser.parse_intermixed_args(arguments)


def hide_bars() -> None:
    """Draw no progress bars of libraries, here and in processes started later. tqdm and datasets read this as they are
    imported."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
