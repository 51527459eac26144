"""The frame of `python -m rlhf_exp` and of its other commands: --help, exit statuses, a line on stderr for each error.

    def main(arguments=None):
        return run_command(_work, arguments, lambda: USAGE, "describe")

`_work(arguments)` raises its errors, and claims its output folder with `claim`, so that a traceback is written there.
"""

import errno
import os
import re
import shutil
import sys
import traceback
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rlhf_exp import processes
from rlhf_exp.errors import FAILED, REFUSED, ConfigError, name_error, printable, say
from rlhf_exp.runs.lock import FolderTaken, claim_folder
from rlhf_exp.runs.stopping import Stop

FULL_BYTES = 2**20  # with less free space than this, the disk counts as the cause of an error
UNWRITTEN = re.compile(
    r"enforce fail at inline_container\.cc.*unexpected pos|PytorchStreamWriter|basic_ios::clear|os error (28|122)\b"
)
"""What torch and safetensors say when a file could not be written whole."""


class Failed(Exception):
    """An error while a folder was claimed: one line that says which, and where the traceback is."""


class Done(Exception):
    """A flag such as --version has printed all that was asked for."""


def run_command(
    work: Callable[[list[str]], int | None], arguments: list[str] | None, usage: Callable[[], str], command: str = ""
) -> int:
    """Print the usage for --help, else do the work; returns the exit status.

    Args:
        arguments: None takes those of the command line.
        command: the name after `rlhf_exp`, for messages.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if {"-h", "--help"} & set(arguments):
        print(usage(), end="")
        return flush(0)
    if command and processes.count() > 1:
        if processes.is_main():
            say("takes one process; start it without torchrun", command)
        return REFUSED
    if not sys.stderr.isatty():  # a log would keep every redraw
        hide_bars()
    return flush(guard(lambda: work(arguments), command))


def guard(work: Callable[[], int | None], command: str = "", where: str = "") -> int:
    """The exit status of `work`. Its errors are printed on stderr, with `where` before them: one line for each mistake
    of the user (status 2), one line for a failure (1); the status of a signal is 128 plus its number."""
    try:
        return work() or 0
    except ConfigError as error:
        for problem in error.problems:
            say(where + problem, command)
        return REFUSED
    except KeyboardInterrupt as error:
        return Stop.of(error).status
    except Failed as error:
        say(f"{where}{error}", command)
    except Done:
        return 0
    except (Exception, SystemExit) as error:  # before a folder was claimed
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            say(f"{where}{str(error.filename)[:60]}...: {error.strerror}", command)
            return REFUSED
        print(printable(traceback.format_exc()), end="", file=sys.stderr)
        say(f"{where}failed: {name_error(error)}", command)
    return FAILED


def parse_flags(
    parser: ArgumentParser, arguments: list[str] | None = None, parse: Callable[..., Any] | None = None
) -> Any:
    """`parser.parse_args`, which raises a ConfigError instead of printing its usage and exiting; or another of the
    parser's methods that parse."""

    def refuse(message: str) -> None:
        raise ConfigError([f"{message}; see --help"])

    def leave(status: int = 0, message: str | None = None) -> None:
        raise Done

    parser.error, parser.exit = refuse, leave
    return (parse or parser.parse_args)(arguments)


@contextmanager
def claim(output_dir: str, numbered: bool) -> Iterator[Path]:
    """Lock a folder for this process; yields its path, which gets a number if `numbered` and it exists.

    Raises:
        ConfigError: another process uses it, or it cannot be written.
        Failed: any other error inside, whose traceback is then in the folder.
    """
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(claim_folder(Path(output_dir), numbered))
        except FolderTaken as error:
            raise ConfigError([f"output_dir={output_dir}: {error}"]) from None
        except OSError as error:
            raise ConfigError([f"output_dir={output_dir}: cannot be written, {error.strerror}"]) from None
        try:
            yield folder
        except (ConfigError, KeyboardInterrupt):
            raise
        except BaseException as error:  # SystemExit too: a reward may raise anything
            raise Failed(_keep_traceback(error, folder)) from error


def is_full(folder: Path, error: BaseException) -> bool:
    """Whether an error comes from a full disk or an exhausted quota; torch's own error does not say so."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    if UNWRITTEN.search(name_error(error)):
        return True
    try:
        return shutil.disk_usage(folder).free < FULL_BYTES
    except OSError:
        return False


def hide_bars() -> None:
    """Draw no progress bars, here and in processes started later. tqdm and datasets read this as they are imported."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")


def flush(status: int) -> int:
    """The exit status after flushing stdout; a failure if that cannot be written, such as to a full disk."""
    try:
        sys.stdout.flush()
    except OSError as error:
        say(f"what was printed cannot be written, {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would try again when it exits
        return status or FAILED
    return status


def _keep_traceback(error: BaseException, folder: Path) -> str:
    """Write the traceback into the folder's error.log; returns the line that says what failed."""
    log = folder / "error.log"
    try:
        log.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        kept = f"traceback in {log}"
    except OSError as problem:
        kept = f"its traceback cannot be written to {log}, {problem.strerror}"
    full = f"; the disk of {folder} is full" if is_full(folder, error) else ""
    return f"failed: {name_error(error)}{full} ({kept})"
