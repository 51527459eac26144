"""A function of the user's whose errors and results cannot be shown, or that clears the environment."""

import pytest

from rlhf_exp.errors import ConfigError, name_error
from rlhf_exp.graders.checkers import guard
from rlhf_exp.runs.folder import read_record

CLEARS = """
import os
def clears(prompts, completions, **kwargs):
    os.environ.clear()
    return [0.0] * len(completions)
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


def test_a_reward_that_clears_the_environment_ends_no_run(command_line, tmp_path):
    (tmp_path / "mine.py").write_text(CLEARS)
    done = command_line("algo=none", "task=countdown", "eval.rows=4", "max_tokens=4", "output_dir=run",
                        "+reward.functions.mine=mine.py:clears", "+reward.weights.mine=1", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert read_record(tmp_path / "run")["status"] == "finished"
