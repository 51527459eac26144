"""Locks a run folder for one process while its run is going on; a dead process holds no lock.

    with claim("outputs/x", numbered=True) as folder:     # outputs/x, or outputs/x_2 if that exists
        ...
    find_owner(Path("outputs/x"))                                      # "process 71 on node3", or None

The lock is filelock's, flock(2) on `.lock` in the folder, for Linux, macOS and NFS. It ends with its process,
and children made by fork() do not inherit it. On a file system without locks, a folder with a new name is still made by
only one process; two processes that name the same folder are not detected, and a line says so.
"""

import errno
import os
import socket
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from rlhf_exp.errors import NOTE, ConfigError, name_error, refusing, say

if TYPE_CHECKING:
    from filelock import FileLock

LOCK = ".lock"
OUTPUTS = Path("outputs")
LATEST = "latest"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
PATIENCE_S = 0.2
"""`find_owner` in another process also holds the lock for a moment."""


@contextmanager
def claim(output_dir: str, numbered: bool = False) -> Iterator[Path]:
    """Make a folder and lock it for this process inside the `with`; yields its path. The traceback of an error inside
    is kept in the folder, and a note of the error says so in one line.

    `numbered`: the name may change, and becomes the first of path, path_2, path_3, ... that does not exist.

    Raises:
        ConfigError: another running process, or this one, has locked it, or it cannot be written.
    """
    path = Path(output_dir)
    is_new = numbered or not path.is_dir()
    with refusing(f"output_dir={output_dir}: cannot be written", OSError):
        folder = make_new(path) if numbered else path
        folder.mkdir(parents=True, exist_ok=True)
        lock = _acquire(folder)
    try:
        yield folder
    except BaseException as error:
        if not isinstance(error, ConfigError | KeyboardInterrupt):
            error.add_note(f"{NOTE}{_keep_traceback(error, folder)}")
        raise
    finally:
        with suppress(OSError):  # NFS keeps a removed file under another name while it is open
            if is_new and os.listdir(folder) == [LOCK]:  # refused before anything was written
                (folder / LOCK).unlink()
                folder.rmdir()
        lock.release()


def _acquire(folder: Path) -> "FileLock":
    """Lock the folder, and write into its lock who has it."""
    lock = _find_lock(folder)
    try:
        if lock.is_locked:
            raise TimeoutError
        lock.acquire(timeout=PATIENCE_S, poll_interval=PATIENCE_S / 10)
        (folder / LOCK).write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise ConfigError([f"output_dir={folder}: a run is going on in it ({_read_owner(folder)})"]) from None
        if error.errno not in NO_LOCKS:
            lock.release()
            raise
        say(f"{folder}: its file system has no locks; keep other runs out of it")
    return lock


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
    except OSError as error:
        return _read_owner(folder) if isinstance(error, TimeoutError) else None


@contextmanager
def point_latest(folder: Path) -> Iterator[None]:
    """Point outputs/latest at a run's folder below outputs/. If the run is refused inside the `with`, the link points
    to where it did before, unless another run has made it its own meanwhile."""
    latest = OUTPUTS / LATEST
    if OUTPUTS.resolve() not in folder.resolve().parents:
        yield
        return
    before = os.readlink(latest) if latest.is_symlink() else None
    own = os.path.relpath(folder.resolve(), OUTPUTS.resolve())
    _link(latest, own)
    try:
        yield
    except ConfigError:
        if latest.is_symlink() and os.readlink(latest) == own:
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
    with suppress(OSError):
        if target is None:
            latest.unlink()
        else:
            temporary.symlink_to(target)
            temporary.replace(latest)


def _find_lock(folder: Path) -> "FileLock":
    """The lock of the folder: in one process always the same object, which knows whether this process holds it."""
    from filelock import FileLock  # 0.04 s, which --help does not need

    return FileLock(folder.resolve() / LOCK, is_singleton=True, thread_local=False, fallback_to_soft=False)


def _read_owner(folder: Path) -> str:
    """Empty for a moment while the lock is taken."""
    return (folder / LOCK).read_text(encoding="utf-8", errors="replace") or "a process that has just begun"


def _keep_traceback(error: BaseException, folder: Path) -> str:
    """Write the traceback into the folder's error.log; returns the line that says what failed."""
    log = folder / "error.log"
    try:
        log.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        kept = f"traceback in {log}"
    except OSError as problem:
        kept = f"its traceback cannot be written to {log}, {problem.strerror}"
    return f"failed: {name_error(error)} ({kept})"
