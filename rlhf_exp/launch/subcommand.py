"""The frame of `python -m rlhf_exp` and of its other commands: --help, exit statuses, a line on stderr for each error.

    def main(arguments=None):
        return run_command(_work, arguments, lambda: USAGE, "describe")

`_work(arguments)` raises its errors, and claims its output folder with `claim`, so that a traceback is written there.
"""

import errno
import os
import shutil
import sys
import time
import traceback
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from rlhf_exp import processes
from rlhf_exp.errors import FAILED, REFUSED, ConfigError, name_error, printable, say
from rlhf_exp.runs.lock import claim_folder
from rlhf_exp.runs.stopping import Stop

COMMANDS = {name: f"rlhf_exp.{name}.__main__" for name in ("chat", "describe", "report", "runs", "sample")}
COMMANDS["merge"] = "rlhf_exp.merge"
"""The commands beside an experiment, each with the module whose `main` takes its arguments: `python -m rlhf_exp report`
is the same as `python -m rlhf_exp.report`."""
FULL_BYTES = 2**20
"""With less free space than this the disk counts as the cause of an error: torch's own error does not say so."""


class Done(Exception):
    """A flag such as --version has printed all that was asked for."""


def call_command(arguments: Sequence[str]) -> int | None:
    """Call the command that the first argument names; returns its exit status, or None if it names none: overrides and
    flags belong to an experiment."""
    if not arguments or arguments[0] not in COMMANDS:
        return None
    return import_module(COMMANDS[arguments[0]]).main(list(arguments[1:]))


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
        return 0
    if not sys.stderr.isatty():  # a log would keep every redraw
        hide_bars()
    if command and processes.count() > 1:
        say("takes one process; start it without torchrun", command)
        return REFUSED
    return guard(lambda: work(arguments), command)


def guard(work: Callable[[], int | None], command: str = "", where: str = "") -> int:
    """The exit status of `work`. Its errors are printed on stderr, with `where` before them: one line for each mistake
    of the user (status 2), one line for a failure (1), after its traceback unless a folder holds that (see `claim`);
    the status of a signal is 128 plus its number."""
    try:
        return work() or 0
    except KeyboardInterrupt as error:
        return Stop.of(error).status
    except Done:
        return 0
    except BaseException as error:  # SystemExit too: a reward may raise anything
        problems, status = _describe_error(error)
        if not processes.is_main():
            time.sleep(processes.GRACE_S)  # torchrun ends this rank if rank 0 ends with the same error
        elif problems is None:
            print(printable("".join(traceback.format_exception(error))), end="", file=sys.stderr)
        for problem in problems or [f"failed: {name_error(error)}"]:
            say(where + problem, command)
        return status


def parse_flags(
    parser: ArgumentParser, arguments: list[str] | None = None, parse: Callable[..., Any] | None = None
) -> Any:
    """`parser.parse_args`, which raises a ConfigError instead of printing its usage and exiting; or another of the
    parser's methods that parse."""

    def refuse(message: str) -> NoReturn:
        raise ConfigError([f"{message}; see --help"])

    def leave(status: int = 0, message: str | None = None) -> NoReturn:
        raise Done

    parser.error, parser.exit = refuse, leave  # type: ignore[method-assign]
    return (parse or parser.parse_args)(arguments)


@contextmanager
def claim(output_dir: str, numbered: bool) -> Iterator[Path]:
    """Lock a folder for this process; yields its path, which gets a number if `numbered` and it exists. The traceback
    of an error inside is kept in the folder, and a note of the error says so in one line.

    Raises:
        ConfigError: another process uses it, or it cannot be written.
    """
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(claim_folder(Path(output_dir), numbered))
        except OSError as error:
            raise ConfigError([f"output_dir={output_dir}: cannot be written, {error.strerror}"]) from None
        try:
            yield folder
        except (ConfigError, KeyboardInterrupt):
            raise
        except BaseException as error:
            error.add_note(f"rlhf_exp: {_keep_traceback(error, folder)}")
            raise


def hide_bars() -> None:
    """Draw no progress bars, here and in processes started later. tqdm and datasets read this as they are imported."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")


def _describe_error(error: BaseException) -> tuple[list[str] | None, int]:
    """The lines that say all about an error, None for one that needs its traceback; and the exit status."""
    if isinstance(error, ConfigError):
        return error.problems, REFUSED
    notes = [note.removeprefix("rlhf_exp: ") for note in getattr(error, "__notes__", ()) if "rlhf_exp: " in note]
    if not notes and isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return [f"{str(error.filename)[:60]}...: {error.strerror}"], REFUSED
    return notes or None, FAILED


def _keep_traceback(error: BaseException, folder: Path) -> str:
    """Write the traceback into the folder's error.log; returns the line that says what failed."""
    log = folder / "error.log"
    said = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    full = f"; the disk of {folder} is full" if said or shutil.disk_usage(folder).free < FULL_BYTES else ""
    try:
        log.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        kept = f"traceback in {log}"
    except OSError as problem:
        kept = f"its traceback cannot be written to {log}, {problem.strerror}"
    return f"failed: {name_error(error)}{full} ({kept})"
