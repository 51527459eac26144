"""A function of the user's whose errors and results cannot be shown, or that clears the environment."""

import pytest

from rlhf_exp.errors import ConfigError, name_error
from rlhf_exp.graders.checkers import guard
from rlhf_exp.runs.folder import read_record

CODE = """
import os
class Mean(Exception):
    def __str__(self): raise RuntimeError("no text")
    __repr__ = __str__
def clears(prompts, completions, **kwargs):
    os.environ.clear()
    return [0.0] * len(completions)
def raises(prompts, completions, **kwargs):
    raise Mean
def returns(prompts, completions, **kwargs):
    return [Mean()] * len(completions)
"""


class Mean(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def test_an_error_without_a_message_is_named():
    def check(completion, row):
        raise Mean

    assert name_error(Mean()) == "Mean: (its message cannot be read: RuntimeError)"
    with pytest.raises(ConfigError) as caught:
        guard(check, "task.checker=c.py:check", "c.py")("4", {"id": "7"})
    line = (
        "task.checker=c.py:check: raised Mean: (its message cannot be read: RuntimeError), on row 7 with completion '4'"
    )
    assert caught.value.problems == [line]


@pytest.mark.parametrize(
    ("name", "status", "line"),
    [("clears", "finished", ""),
     ("raises", "failed", "raised Mean in line 10: (its message cannot be read: RuntimeError)"),
     ("returns", "failed", "raised RuntimeError in line 4: no text")],
)  # fmt: skip
def test_an_odd_reward_ends_in_one_line(name, status, line, command_line, tmp_path):
    (tmp_path / "mine.py").write_text(CODE)
    done = command_line("algo=none", "task=countdown", "eval.rows=4", "max_tokens=4", "output_dir=run",
                        f"+reward.functions.mine=mine.py:{name}", "+reward.weights.mine=1", cwd=tmp_path)  # fmt: skip
    assert "Traceback" not in done.stderr and line in done.stderr
    assert done.returncode == (status == "failed")
    assert read_record(tmp_path / "run")["status"] == status
