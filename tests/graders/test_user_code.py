"""A function of the user's can neither end the process of a run with a status of its own nor double it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rlhf_exp
from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError

CALL = """
import sys
from rlhf_exp.graders.checkers import guard
from rlhf_exp.graders.user_code import import_function

key = "task.checker=mine.py:check"
try:
    check = guard(import_function("mine.py:check", key), key, "mine.py")
    print(check("4", {"id": "7"}).outcome, flush=True)
except BaseException as error:
    print(type(error).__name__, error, flush=True)
"""
BACK = "task.checker=mine.py:check, on row 7 with completion '4', has forked a process that came back; it is ended"
REFUSED = "ConfigError task.checker=mine.py:check: raised SystemExit in line {}: os._exit({}), on row 7"
POOL = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

def double(n):
    return 2 * n

def check(completion, row):
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool, ProcessPoolExecutor(1, context) as other:
        return pool.map(double, [1, 2]) + [other.submit(double, 3).result()] == [2, 4, 6]
"""
CASES = {
    "leaves": ("import os\ndef check(*_):\n    os._exit(0)", REFUSED.format(3, 0), 0),
    "leaves by a name": ("from os import _exit\ndef check(*_):\n    _exit(5)", REFUSED.format(3, 5), 0),
    "leaves at import": ("import os\nos._exit(0)", "ConfigError task.checker=mine.py:check: cannot be imported, ", 0),
    "forks": ("import os\ndef check(*_):\n    os.fork()\n    return True", "correct", 1),
    "forks and raises": ("import os\ndef check(*_):\n    if not os.fork():\n        1 / 0\n    return 1", "correct", 1),
    "forks and leaves": ("import os\ndef check(*_):\n    if not os.fork():\n        os._exit(0)\n    return 1",
                         "correct", 0),
    "a pool": (POOL, "correct", 0),
}  # fmt: skip


@pytest.mark.parametrize(("code", "said", "ended"), CASES.values(), ids=CASES)
def test_a_checker_neither_ends_nor_doubles_the_process(code, said, ended, tmp_path):
    (tmp_path / "mine.py").write_text(code)
    path = str(Path(rlhf_exp.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", CALL], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    [line] = done.stdout.splitlines()
    assert line.startswith(said) and done.stderr.count(BACK) == ended, done


def test_a_task_of_ones_own_cannot_end_the_process(tmp_path):
    head = "import os\nfrom rlhf_exp.tasks import OwnTask\n"
    code = f"{head}class Mine(OwnTask):\n    def rows(self):\n        os._exit(0)\n"
    (tmp_path / "mine.py").write_text(code)
    task = compose_config(["device=cpu", "algo=none", "task=module", f"task.module={tmp_path}/mine.py"]).task
    with pytest.raises(ConfigError, match=r"rows raised SystemExit in line 5: os\._exit\(0\)"):
        task.rows()
