"""The child process that makes rows of reasoning-gym and grades answers, some of which are evaluated as Python."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("reasoning_gym", reason="needs the extra reasoning-gym")

from rlhf_exp.graders import reasoning_gym
from rlhf_exp.graders.reasoning_gym import Child, run_apart


@pytest.fixture(scope="module")
def evaluating():
    """A data set whose grader calls eval."""
    return Child("string_insertion", "{}", 2)


def test_rows_are_the_same_in_every_process():
    code = "import json; from rlhf_exp.graders.reasoning_gym import Child"
    code += "; print(json.dumps([Child(name, '{}', 3).rows for name in ('ransom_note', 'list_functions')]))"
    texts = [
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, check=True,
                       capture_output=True).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert texts[0] == texts[1] and len(json.loads(texts[0])) == 2


@pytest.mark.parametrize(
    "code",
    [
        "open({!r}, 'w')",
        "__import__('os').mkdir({!r})",
        "__import__('os').system('touch ' + {!r})",
        "__import__('subprocess').run(['touch', {!r}])",
        "__import__('os').kill(__import__('os').getppid(), 9)",
        "exit()",
        "__import__('os')._exit(0)",
        "print(1.0)",
        "'a' * 10**11",
    ],
)
def test_code_in_an_answer_writes_nothing_and_harms_no_later_grade(evaluating, code, tmp_path):
    assert evaluating.score(0, code.format(str(tmp_path / "new"))) in (0.0, "SystemExit", "limit")
    assert not list(tmp_path.iterdir())
    assert [evaluating.score(i, evaluating.rows[i][1]) for i in (0, 1)] == [1.0, 1.0]


def test_code_that_does_not_end_is_ended(monkeypatch):
    def loop():
        while True:
            pass

    monkeypatch.setattr(reasoning_gym, "CPU_S", 1)
    assert run_apart(loop) == "limit"
    monkeypatch.setattr(reasoning_gym, "WALL_S", 0.2)
    assert run_apart(lambda: __import__("time").sleep(60)) == "limit"


def test_a_result_is_a_score_or_the_name_of_an_error():
    found = [run_apart(lambda value=value: value) for value in (0.5, 1.5, -1, float("nan"), True)]
    assert found == [0.5, 1.0, 0.0, 0.0, 1.0]
    assert [run_apart(lambda: 1 / 0), run_apart(lambda: None)] == ["ZeroDivisionError", "TypeError"]
