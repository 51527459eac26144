"""A function of the user's that does not return is named on the terminal, and ended at a limit."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlhf_exp.errors import ConfigError
from rlhf_exp.graders import user_code
from rlhf_exp.graders.checkers import guard
from rlhf_exp.runs.files import write_jsonl

ROW = {"id": "7", "prompt": "p", "answer": "4"}


def wait_whatever_comes():
    for _ in range(2):
        try:
            time.sleep(1000)
        except BaseException:  # noqa: S110
            pass
    time.sleep(1000)


NEVER = {
    "a loop": lambda: [None for _ in iter(int, 1)],
    "a regular expression": lambda: re.search(r"(a+)+$", "a" * 60 + "b"),
    "a wait": lambda: time.sleep(1000),
    "a function that catches every error": wait_whatever_comes,
}


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(user_code, "LINE_S", 0.2)
    monkeypatch.setattr(user_code, "AGAIN_S", 0.1)


@pytest.mark.parametrize("kind", NEVER)
def test_a_checker_that_never_returns_is_named_with_its_row_and_ended(kind, impatient, monkeypatch, capfd):
    monkeypatch.setattr(user_code, "limit_s", 0.4)
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(ConfigError) as caught:
        guard(lambda completion, row: NEVER[kind](), "task.checker=mine.py:check", "mine.py")("4", ROW)
    where = "on row 7 with completion '4'"
    assert caught.value.problems == [
        f"task.checker=mine.py:check: raised TimedOut: no result within 0.4 s (reward.timeout_s), {where}"
    ]
    line = f"rlhf_exp: task.checker=mine.py:check, {where}, has not returned for "
    assert capfd.readouterr().err.startswith(line)
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)) == (before, (0.0, 0.0))


IN_C = """
import itertools
from rlhf_exp.graders import user_code

user_code.limit_s, user_code.GRACE_S = 0.2, 0.3
with user_code.confine("mine", "mine.py"), user_code.watch("mine"):
    all(itertools.repeat(True))
"""


def test_a_call_into_c_that_sees_no_signal_is_ended_with_its_place(tmp_path):
    (tmp_path / "mine.py").write_text(IN_C)
    environment = {**os.environ, "PYTHONPATH": str(Path(user_code.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, tmp_path / "mine.py"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1
    assert 'mine.py", line 7 in <module>' in done.stderr


def test_a_limit_is_taken_by_a_checker(command_line, tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", [{"prompt": f"What is 2 + {i}?", "answer": str(i)} for i in range(40)])
    (tmp_path / "mine.py").write_text("def check(completion, row):\n    while True:\n        pass\n")
    done = command_line(
        "algo=none", "task=file", "task.path=rows.jsonl", "task.checker=mine.py:check", "task.answer_column=answer",
        "model=tiny_gpt2", "reward.timeout_s=0.3", "output_dir=run", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "raised TimedOut in line" in done.stderr and "no result within 0.3 s" in done.stderr
