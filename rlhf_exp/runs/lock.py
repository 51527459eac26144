"""Locks a run folder for one process while its run is going on; a dead process holds no lock.

    with claim_folder(Path("outputs/x"), numbered=True) as folder:     # outputs/x, or outputs/x_2 if that exists
        ...
    find_owner(Path("outputs/x"))                                      # "process 71 on node3", or None

The lock is filelock's, flock(2) on `.lock` in the folder, for Linux, macOS and NFS. It ends with its process,
and children made by fork() do not inherit it. On a file system without locks, a folder with a new name is still made by
only one process; two processes that name the same folder are not detected, and a line says so.
"""

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from rlhf_exp.errors import ConfigError, say

if TYPE_CHECKING:
    from filelock import FileLock

LOCK = ".lock"
OUTPUTS = Path("outputs")
LATEST = "latest"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
PATIENCE_S = 0.2
"""`find_owner` in another process also holds the lock for a moment."""


@contextmanager
def claim_folder(path: Path, numbered: bool = False) -> Iterator[Path]:
    """Make the folder and lock it for this process inside the `with`; yields the folder.

    `numbered`: the name may change, and becomes the first of path, path_2, path_3, ... that does not exist.

    Raises:
        ConfigError: another running process, or this one, has locked it.
        OSError: the folder cannot be written.
    """
    is_new = numbered or not path.is_dir()
    folder = make_new(path) if numbered else path
    folder.mkdir(parents=True, exist_ok=True)
    lock = _find_lock(folder)
    try:
        if lock.is_locked:
            raise TimeoutError
        lock.acquire(timeout=PATIENCE_S, poll_interval=PATIENCE_S / 10)
    except TimeoutError:
        raise ConfigError([f"output_dir={path}: a run is going on in it ({_read_owner(folder)})"]) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        say(f"{folder}: its file system has no locks; keep other runs out of it")
    (folder / LOCK).write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}), encoding="utf-8")
    try:
        yield folder
    finally:
        with suppress(OSError):  # NFS keeps a removed file under another name while it is open
            if is_new and os.listdir(folder) == [LOCK]:  # refused before anything was written
                (folder / LOCK).unlink()
                folder.rmdir()
        lock.release()


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
    """The other running process that has locked the folder; None if there is none, or if this process may not try."""
    lock = _find_lock(folder)
    if lock.is_locked or not (folder / LOCK).exists():
        return None
    try:
        with lock.acquire(blocking=False):
            return None
    except TimeoutError:
        return _read_owner(folder)
    except OSError:
        return None


def point_latest(folder: Path) -> None:
    """Point outputs/latest at a run's folder below outputs/, atomically; skipped if links are impossible."""
    temporary = OUTPUTS / f".{LATEST}.{os.getpid()}"
    if OUTPUTS.resolve() in folder.resolve().parents:
        with suppress(OSError):
            temporary.symlink_to(os.path.relpath(folder.resolve(), OUTPUTS.resolve()))
            temporary.replace(OUTPUTS / LATEST)


def find_latest(named: Path) -> Path:
    """What a command takes as a run: outputs/latest for `latest`, unless there is a folder of that name."""
    return OUTPUTS / LATEST if str(named) == LATEST and not named.exists() else named


def follow_link(folder: str) -> str:
    """The folder that outputs/latest points to now, since it will point to the next run once that starts."""
    path = Path(folder)
    return os.path.normpath(path.parent / os.readlink(path)) if path.is_symlink() else folder


def _find_lock(folder: Path) -> "FileLock":
    """The lock of the folder: in one process always the same object, which knows whether this process holds it."""
    from filelock import FileLock  # 0.04 s, which --help does not need

    return FileLock(folder.resolve() / LOCK, is_singleton=True, thread_local=False, fallback_to_soft=False)


def _read_owner(folder: Path) -> str:
    owner = json.loads((folder / LOCK).read_text(encoding="utf-8") or "{}")
    return f"process {owner['pid']} on {owner['host']}" if owner else "a process that has just begun"
