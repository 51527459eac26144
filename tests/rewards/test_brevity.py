import pytest

from rlhf_exp.config.schema import TASKS
from rlhf_exp.rewards.brevity import brevity


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("", 2.0),
        (" \n\t", 2.0),
        ("one", 1.9375),
        (" one  two\nthree four ", 1.75),
        (" ".join(["word"] * 16), 1.0),
        (" ".join(["word"] * 32), 0.0),
        (" ".join(["word"] * 64), -2.0),
        ([{"role": "assistant", "content": "one two"}], 1.875),
    ],
)
def test_every_sixteen_words_cost_one_point(completion, score):
    assert brevity(completions=[completion], numbers=[[8]]) == [score]


def test_no_task_needs_a_grader_for_it():
    assert brevity.__name__ == "brevity" in TASKS
    assert brevity(completions=["x y", "x"]) == [1.875, 1.9375]
