"""Makes the rows of a data set of reasoning-gym, and grades answers to them, in a child process.

    child = Child("chain_sum", '{"max_terms": 3}', 100)
    child.rows[0]                   # ["State the final answer to the following ...: 4 + 3 =", "7"]
    child.score(0, "7")             # 1.0
    child.score(0, "7 apples")      # 0.125, by the data set's own score_answer

Why a child: nine of its graders evaluate an answer as Python (docs/results/graders.md), others raise errors for some
answers, and six data sets make other rows in each process unless Python's hash seed and random numbers are fixed.

The child makes the rows, and forks for each answer, which takes 7 ms. A fork has CPU_S of CPU time and MEMORY_BYTES of
memory; it can write no file and start no program, and is ended after WALL_S. So an answer can harm neither the machine
nor later grades. It is no jail: it can read files, and code written against this module can set its own grade.
"""

import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from rlhf_exp.errors import ConfigError

CPU_S, WALL_S, MEMORY_BYTES = 5, 20, 3 << 30
"""The most CPU time, time and memory for one answer."""
REFUSED = ("os.", "subprocess.", "socket.", "shutil.", "ctypes.", "signal.", "resource.", "pty.", "fcntl.")
"""Audit events of Python that raise an error in a fork, but LISTING, which an import of a module needs."""
LISTING = ("os.listdir", "os.scandir")


class Child:
    """The child process of one data set with its rows, each a question and its gold answer, None if it has none."""

    def __init__(self, name: str, options: str, n: int) -> None:
        """Start the child; `options` is JSON.

        Raises:
            ConfigError: the data set refuses its options or cannot make the rows, or a fork cannot be limited here.
        """
        env = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)), "PYTHONHASHSEED": "0"}
        command, pipe = [sys.executable, "-m", __name__, name, options, str(n)], subprocess.PIPE
        how: Any = {"env": env, "stdin": pipe, "stdout": pipe, "text": True, "start_new_session": True}
        self._process: Any = subprocess.Popen(command, **how)
        self.rows: list[tuple[str, str | None]] = self._read()
        if isinstance(self.rows, str):
            raise ConfigError([f"task.dataset={name}: {self.rows}"])

    def score(self, index: int, answer: str) -> float | str:
        """The score of an answer to row `index`, from 0 to 1; or what ended it: the name of an error, or `limit`."""
        print(json.dumps([index, answer]), file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> Any:
        if not (line := self._process.stdout.readline()):
            raise RuntimeError(f"the process that grades answers has ended with status {self._process.wait()}")
        return json.loads(line)


def serve(name: str, options: str, n: str) -> None:
    """The child: write a line with the rows, or with what went wrong; then for each line with a row's number and an
    answer one with its score."""
    from reasoning_gym.factory import create_dataset

    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # some data sets print
    random.seed(0)  # list_functions draws from it
    try:
        data = create_dataset(name, **{"seed": 0, **json.loads(options), "size": int(n)})
        entries: list[Any] = [data[i] for i in range(int(n))]
        if (found := run_apart(lambda: 1.0)) != 1.0:
            raise OSError(f"its answers must be graded within limits, which cannot be set here ({found})")
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {' '.join(str(error).split())}"), file=replies)
        return
    print(json.dumps([(entry["question"], entry["answer"]) for entry in entries]), file=replies)
    with suppress(Exception):  # forks inherit what this imports and caches
        data.score_answer(entries[0]["answer"], entries[0])
    for line in sys.stdin:
        index, answer = json.loads(line)
        print(json.dumps(run_apart(partial(data.score_answer, answer, entries[index]))), file=replies)


def run_apart(function: Callable[[], float]) -> float | str:
    """What the function returns in a fork with limits, cut to [0, 1]; or the name of the error that it raised, or
    `limit` if the fork was ended."""
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            _confine(write)
            os.write(0, str(float(function())).encode())
        except BaseException as error:  # an answer can raise anything, SystemExit too
            os.write(0, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(write)
    found = os.read(read, 100).decode(errors="replace") if select.select([read], [], [], WALL_S)[0] else ""
    os.close(read)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    try:
        return min(1.0, max(0.0, float(found)))
    except ValueError:
        return found or "limit"


def _confine(write: int) -> None:
    """Limit this process for good; the result alone can be written, as file descriptor 0."""
    os.dup2(write, 0)
    os.dup2(os.open(os.devnull, os.O_RDWR), 2)
    os.closerange(3, 256)
    for name, most in {"CPU": CPU_S, "AS": MEMORY_BYTES, "FSIZE": 0, "CORE": 0, "NPROC": 0}.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    sys.addaudithook(_refuse)


def _refuse(event: str, args: tuple) -> None:
    writes = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes or event.startswith(REFUSED) and event not in LISTING:
        raise PermissionError(event)


if __name__ == "__main__":
    serve(*sys.argv[1:])
