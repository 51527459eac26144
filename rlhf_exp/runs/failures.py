"""Which of several processes failed first, and why: the others see only that it is gone.

    with watch(folder):                       # a run; ends this process if another has failed and this one hangs
        ...
    cause = record_failure(run_dir, error)    # "process 1: ValueError: boom (traceback in ...)"; None: error itself

The first that fails says so in a file of the run folder. What waits for it in gloo gets an error as soon as it is gone;
on a GPU nothing of the kind may happen, so a thread looks for that file. Nothing is done for a single process.
"""

import json
import os
import re
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from rlhf_exp import orders, processes
from rlhf_exp.errors import FAILED, name_error, say
from rlhf_exp.runs.folder import RESERVE, RunFolder
from rlhf_exp.runs.lock import find_owner

FILE = ".failed"
LOOK_S = 0.5
BY_GROUP = re.compile(r"\[[^\]]*\bgloo\b[^\]]*\]|Gloo |Application timeout caused pair closure|NCCL ")
"""How messages of the group begin, gloo's with the place in its source; many have no type of their own."""

GRACE_S = 15.0
"""How long a process may take to notice that another has failed; torchrun waits twice as long before it kills."""


class ProcessFailed(RuntimeError):
    """Another process of the run has failed; the message says which, and why."""


def forget_failures(folder: Path) -> None:
    """Remove what an earlier run has left, before the others are told of the run."""
    for path in (folder / FILE, *folder.glob("error-*.log")):
        path.unlink(missing_ok=True)


def find_failure(folder: Path) -> str | None:
    """The line about the process that failed; None if none has."""
    cause = _read_failure(folder) if processes.count() > 1 else None
    return _describe(cause, folder) if cause else None


def outlast_main(folder: Path) -> None:
    """Wait for rank 0 to end its run, on the others: a launcher ends all processes as soon as one has ended badly, and
    rank 0 still writes the report."""
    until = time.monotonic() + 2 * GRACE_S
    while not processes.is_main() and find_owner(folder) and time.monotonic() < until:
        time.sleep(LOOK_S)


def record_failure(folder: Path, error: BaseException) -> str | None:
    """Note that this process has failed; returns the line about another one that is the cause, or None."""
    if processes.count() == 1:
        return None
    orders.give_up()
    mine = {"rank": processes.rank(), "error": name_error(error)}
    if not processes.is_main():  # error.log of rank 0 is written as the folder is left
        with suppress(OSError):
            (folder / RESERVE).unlink(missing_ok=True)  # the disk may be full
            (folder / name_log(mine["rank"])).write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    if isinstance(error, processes.MainFailed):
        return find_failure(folder) or mine["error"]
    if is_lost(error):
        return find_failure(folder) or f"another process has died without a word (out of memory?); {mine['error']}"
    with suppress(OSError):
        (folder / RESERVE).unlink(missing_ok=True)
        with open(folder / FILE, "x", encoding="utf-8") as out:
            json.dump(mine, out)
    if not processes.is_main():
        say(f"failed: {_describe(mine, folder)}")
    return None


def is_lost(error: BaseException) -> bool:
    """Whether an error only says that another process is gone."""
    if processes.count() == 1:
        return False
    from torch.distributed import DistError

    return isinstance(error, DistError) or (type(error) is RuntimeError and BY_GROUP.match(str(error)) is not None)


def name_log(rank: int) -> str:
    """error.log of rank 0, error-1.log of rank 1."""
    return f"error-{rank}.log" if rank else "error.log"


@contextmanager
def watch(folder: RunFolder) -> Iterator[None]:
    """Inside the `with`, end this process some seconds after another has failed, wherever it then hangs."""
    if processes.count() == 1:
        yield
        return
    done = Event()
    Thread(target=_look, args=(folder, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _look(folder: RunFolder, done: Event) -> None:
    while not done.wait(LOOK_S):
        cause = _read_failure(folder.path)
        if cause and cause["rank"] != processes.rank():
            # Rank 0 writes the report of what there is before it goes, and the others go only then.
            if done.wait(GRACE_S if processes.is_main() else 2 * GRACE_S):
                return
            folder.give_up("failed", _describe(cause, folder.path))
            os._exit(FAILED)


def _read_failure(folder: Path) -> dict:
    try:
        return json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # there is none, or it is just being written
        return {}


def _describe(cause: dict, folder: Path) -> str:
    return f"process {cause['rank']}: {cause['error']} (traceback in {folder / name_log(cause['rank'])})"
