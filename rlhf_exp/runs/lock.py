"""Which process a run folder belongs to: a lock that is held while its run lives, and that no dead process holds.

    with claim_folder(Path("outputs/x"), numbered=True) as folder:     # outputs/x, or outputs/x_2 where that is taken
        ...
    find_owner(Path("outputs/x"))                                      # "process 71 on node3", or None

The lock is flock(2) on `.lock` in the folder: for Linux and macOS, and for NFS, whose clients pass it to the server. It
ends with its process however that ends. Children made by fork() close it, so that a worker that outlives its parent
holds nothing. Where a file system has no locks, a folder named by the time is still made by one process alone; of two
that name one folder at once nothing is known then, and a line says so.
"""

import errno
import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path

LOCK = ".lock"
OUTPUTS = Path("outputs")
LATEST = "latest"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
TRIES, PAUSE_S = 10, 0.02  # `find_owner` of another process holds the lock for a moment too

_held: dict[Path, int] = {}


class FolderTaken(Exception):
    """Another living process runs in the folder; the message names the process."""


@contextmanager
def claim_folder(path: Path, numbered: bool = False) -> Iterator[Path]:
    """Make the folder and keep every other process out of it inside the `with`; yields the folder.

    `numbered`: the name is free to choose, so it becomes the first of path, path_2, path_3, ... that does not exist.

    Raises:
        FolderTaken: a living process has claimed it.
        OSError: the folder cannot be written.
    """
    there = path.is_dir() and not numbered
    folder = make_new(path) if numbered else path
    folder.mkdir(parents=True, exist_ok=True)
    lock = _lock(folder)
    key = folder.resolve()
    _held[key] = lock
    try:
        yield folder
    finally:
        try:
            with suppress(OSError):  # NFS keeps a removed file under another name while it is open
                if not there and os.listdir(folder) == [LOCK]:  # refused before anything was written
                    (folder / LOCK).unlink()
                    folder.rmdir()
        finally:
            del _held[key]
            os.close(lock)


def make_new(path: Path) -> Path:
    """Make the first of path, path_2, path_3, ... that does not exist: of two processes at once each gets its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        folder = path if number == 1 else path.with_name(f"{path.name}_{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError


@cache
def make_new_once(name: str) -> str:
    """`make_new` for a sweep, whose config asks for the same name again with every job."""
    return str(make_new(Path(name)))


def find_owner(folder: Path) -> str | None:
    """The living process that has claimed the folder, other than this one; None where there is none."""
    if folder.resolve() in _held:
        return None
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_owner(lock)
    except OSError:
        return None
    finally:
        os.close(lock)
    return None


def link_latest(folder: Path) -> None:
    """Point outputs/latest at a run's folder below outputs/, in one step; where links are impossible it is left out."""
    if OUTPUTS.resolve() not in folder.resolve().parents:
        return
    temporary = OUTPUTS / f".{LATEST}.{os.getpid()}"
    try:
        temporary.symlink_to(os.path.relpath(folder.resolve(), OUTPUTS.resolve()))
        temporary.replace(OUTPUTS / LATEST)
    except OSError:
        temporary.unlink(missing_ok=True)


def follow_link(folder: str) -> str:
    """outputs/countdown/grpo/x for outputs/latest, which points elsewhere once the next run starts."""
    path = Path(folder)
    return os.path.normpath(path.parent / os.readlink(path)) if path.is_symlink() else folder


def _lock(folder: Path) -> int:
    """The open lock file, locked, with this process's name in it."""
    for _ in range(TRIES):
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(folder / LOCK) and os.path.samestat(os.fstat(lock), os.stat(folder / LOCK)):
                os.ftruncate(lock, 0)
                os.write(lock, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
                return lock
            owner = "a process that has just ended"
        except BlockingIOError:
            owner = _read_owner(lock)
        except OSError as error:
            if error.errno in NO_LOCKS:
                print(f"rlhf_exp: {folder}: its file system has no locks; keep other runs out of it", file=sys.stderr)
                return lock
            os.close(lock)
            raise
        os.close(lock)
        time.sleep(PAUSE_S)
    raise FolderTaken(f"a run is going on in it ({owner})")


def _read_owner(lock: int) -> str:
    try:
        owner = json.loads(os.pread(lock, 1000, 0))
        return f"process {owner['pid']} on {owner['host']}"
    except (ValueError, KeyError, TypeError):  # it has locked and not yet written
        return "a process that has just begun"


def _close_all() -> None:
    for lock in _held.values():
        os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_close_all)
