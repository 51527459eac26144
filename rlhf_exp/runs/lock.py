"""Locks a run folder for one process while its run is going on; a dead process holds no lock.

    with claim_folder(Path("outputs/x"), numbered=True) as folder:     # outputs/x, or outputs/x_2 if that exists
        ...
    find_owner(Path("outputs/x"))                                      # "process 71 on node3", or None

The lock is flock(2) on `.lock` in the folder, which works on Linux, macOS and NFS, whose clients pass it to the server.
It ends with its process in any case. Children made by fork() close it, so that a worker that outlives its parent does
not keep it. On a file system without locks, a folder with a new name is still made by only one process; two processes
that name the same folder are not detected, and a line says so.
"""

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from rlhf_exp.errors import ConfigError, say

LOCK = ".lock"
OUTPUTS = Path("outputs")
LATEST = "latest"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
TRIES, PAUSE_S = 10, 0.02  # `find_owner` in another process also holds the lock for a moment

_held: dict[Path, int] = {}


class FolderTaken(Exception):
    """Another running process uses the folder; the message names the process."""


@contextmanager
def claim_folder(path: Path, numbered: bool = False) -> Iterator[Path]:
    """Make the folder and lock it for this process inside the `with`; yields the folder.

    `numbered`: the name may change, and becomes the first of path, path_2, path_3, ... that does not exist.

    Raises:
        FolderTaken: another running process has locked it.
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
    """Make the first of path, path_2, path_3, ... that does not exist; two processes at once get different ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        folder = path if number == 1 else path.with_name(f"{path.name}_{number}")
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError


def find_owner(folder: Path) -> str | None:
    """The other running process that has locked the folder; None if there is none."""
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


@contextmanager
def point_latest(folder: Path) -> Iterator[None]:
    """Point outputs/latest at a run's folder below outputs/. If the run is refused inside the `with`, the link points
    to where it did before: to a run that has begun."""
    latest = OUTPUTS / LATEST
    if OUTPUTS.resolve() not in folder.resolve().parents:
        yield
        return
    before = os.readlink(latest) if latest.is_symlink() else None
    here = os.path.relpath(folder.resolve(), OUTPUTS.resolve())
    _link(latest, here)
    try:
        yield
    except ConfigError:
        if latest.is_symlink() and os.readlink(latest) == here:  # no other run has begun meanwhile
            _link(latest, before)
        raise


def find_latest(named: Path) -> Path:
    """What a command takes as a run: outputs/latest for `latest`, unless there is a folder of that name."""
    return OUTPUTS / LATEST if str(named) == LATEST and not named.exists() else named


def follow_link(folder: str) -> str:
    """The folder that outputs/latest points to now, since it will point to the next run once that starts."""
    path = Path(folder)
    return os.path.normpath(path.parent / os.readlink(path)) if path.is_symlink() else folder


def _link(latest: Path, target: str | None) -> None:
    """Make the link atomically, or remove it; skipped if links are impossible."""
    temporary = latest.with_name(f".{LATEST}.{os.getpid()}")
    try:
        if target is None:
            latest.unlink()
            return
        temporary.symlink_to(target)
        temporary.replace(latest)
    except OSError:
        temporary.unlink(missing_ok=True)


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
                say(f"{folder}: its file system has no locks; keep other runs out of it")
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
    except (ValueError, KeyError, TypeError):  # it has the lock but has not written its name yet
        return "a process that has just begun"


def _close_all() -> None:
    for lock in _held.values():
        os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_close_all)
