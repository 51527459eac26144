"""What `python -m rlhf_exp` and the commands beside it share: --help, exit statuses, a line on stderr for each error.

    def main(arguments=None):
        return run_command(_work, arguments, lambda: USAGE, "describe")

`_work(arguments)` raises what goes wrong, and claims its output folder with `claim`, so that a traceback is kept there.
"""

import errno
import os
import shutil
import sys
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rlhf_exp.errors import FAILED, REFUSED, ConfigError, say
from rlhf_exp.runs.lock import FolderTaken, claim_folder
from rlhf_exp.runs.stopping import Stop

FULL_BYTES = 2**20  # with less than this free, an error is put down to the disk


class Failed(Exception):
    """Something broke while a folder was claimed: a line that says what, and where the traceback is."""


def run_command(
    work: Callable[[list[str]], int | None], arguments: list[str] | None, usage: Callable[[], str], command: str = ""
) -> int:
    """Print the usage for --help, else do the work; returns the exit status.

    Args:
        arguments: of the command line, which None stands for.
        command: the name after `rlhf_exp.`, for messages.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if {"-h", "--help"} & set(arguments):
        print(usage(), end="")
        return flush(0)
    _keep_bars_out_of_logs()
    return flush(guard(lambda: work(arguments), command))


def guard(work: Callable[[], int | None], command: str = "", where: str = "") -> int:
    """The exit status of `work`. What it raises is said on stderr with `where` before it: a user's mistake in a line
    for each problem (status 2), a failure in a line (1); the status of a signal is 128 and its number."""
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
    except (Exception, SystemExit) as error:  # before there was a folder
        traceback.print_exc()
        say(f"{where}failed: {_name_error(error)}", command)
    return FAILED


def parse_flags(parser: ArgumentParser, arguments: list[str] | None = None) -> Namespace:
    """`parser.parse_args`, with a ConfigError in place of its usage and exit."""

    def refuse(message: str) -> None:
        raise ConfigError([f"{message}; see --help"])

    parser.error = refuse
    return parser.parse_args(arguments)


@contextmanager
def claim(output_dir: str, numbered: bool) -> Iterator[Path]:
    """Keep every other process out of a folder; yields its path, which gets a number where `numbered` and it is there.

    Raises:
        ConfigError: another process runs in it, or it cannot be written.
        Failed: for any other error inside, whose traceback is then in the folder.
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
    """Whether an error comes from a full disk or a spent quota; torch's own error does not say so."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    try:
        return shutil.disk_usage(folder).free < FULL_BYTES
    except OSError:
        return False


def flush(status: int) -> int:
    """The exit status once everything printed has been written; a failure where stdout is a file on a full disk."""
    try:
        sys.stdout.flush()
    except OSError as error:
        say(f"what was printed cannot be written, {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python tries once more at its end
        return status or FAILED
    return status


def _keep_bars_out_of_logs() -> None:
    """Draw progress bars only on a terminal: a log would keep every redraw. tqdm and datasets read this as they are
    imported."""
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")


def _keep_traceback(error: BaseException, folder: Path) -> str:
    """Write the traceback into the folder's error.log; returns the line that says what failed."""
    log = folder / "error.log"
    try:
        log.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        kept = f"traceback in {log}"
    except OSError as problem:
        kept = f"its traceback cannot be written to {log}, {problem.strerror}"
    full = f"; the disk of {folder} is full" if is_full(folder, error) else ""
    return f"failed: {_name_error(error)}{full} ({kept})"


def _name_error(error: BaseException) -> str:
    """RuntimeError: boom, the first line of its message alone."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
