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

for name in sys.argv[1:]:
    key = f"task.checker={name}.py:check"
    try:
        check = guard(import_function(f"{name}.py:check", key), key, f"{name}.py")
        print(check("4", {"id": "7"}).outcome, flush=True)
    except BaseException as error:
        print(type(error).__name__, error, flush=True)
"""
BACK = "task.checker={}.py:check, on row 7 with completion '4', has forked a process that came back; it is ended"
REFUSED = "raised SystemExit in line {}: os._exit({}), on row 7"
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
    "leaves_by_a_name": ("from os import _exit\ndef check(*_):\n    _exit(5)", REFUSED.format(3, 5), 0),
    "leaves_at_import": ("import os\nos._exit(0)", "cannot be imported (raised ", 0),
    "forks": ("import os\ndef check(*_):\n    os.fork()\n    return True", "correct", 1),
    "forks_and_raises": ("import os\ndef check(*_):\n    if not os.fork():\n        1 / 0\n    return 1", "correct", 1),
    "forks_and_leaves": ("import os\ndef check(*_):\n    if not os.fork():\n        os._exit(0)\n    return 1",
                         "correct", 0),
    "a_pool": (POOL, "correct", 0),
}  # fmt: skip


def test_a_checker_neither_ends_nor_doubles_the_process(tmp_path):
    """One process calls all of them."""
    for name, (code, *_) in CASES.items():
        (tmp_path / f"{name}.py").write_text(code)
    path = str(Path(rlhf_exp.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", CALL, *CASES], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    for (name, (_, said, ended)), line in zip(CASES.items(), done.stdout.splitlines(), strict=True):
        refused = f"ConfigError task.checker={name}.py:check: "
        assert line.startswith(said if said == "correct" else refused + said), done
        assert done.stderr.count(BACK.format(name)) == ended, done


def test_a_task_of_ones_own_cannot_end_the_process(tmp_path):
    head = "import os\nfrom rlhf_exp.tasks import OwnTask\n"
    code = f"{head}class Mine(OwnTask):\n    def rows(self):\n        os._exit(0)\n"
    (tmp_path / "mine.py").write_text(code)
    task = compose_config(["device=cpu", "algo=none", "task=module", f"task.module={tmp_path}/mine.py"]).task
    with pytest.raises(ConfigError, match=r"rows failed \(raised SystemExit in line 5: os\._exit\(0\)\)"):
        task.rows()
