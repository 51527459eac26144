import sys

import numpy as np
import pytest
import torch

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.user_code import RewardError
from rlhf_exp.rewards import build_rewards, score_completions
from rlhf_exp.tasks import TaskRows

ROWS = [{"id": str(i), "prompt": "p", "numbers": [8, 7, 3], "target": 53} for i in range(2)]
CALL = {"prompts": ["p"] * 2, "completions": ["a", "bb"], "completion_ids": [[1], [1, 2]], "id": ["0", "1"],
        "numbers": [[8, 7, 3]] * 2, "target": [53] * 2}  # fmt: skip


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a file of rewards into the working folder; returns `FILE.py:short`."""
    monkeypatch.chdir(tmp_path)  # a message cuts off a long path

    def write_file(source, name="short"):
        (tmp_path / "mine.py").write_text(source)
        return f"mine.py:{name}"

    return write_file


def compose(where):
    return compose_config(["reward=outcome", f"+reward.functions.short={where}", "+reward.weights.short=0.5"])


def build(where):
    return build_rewards(compose(where), TaskRows("countdown", [], ROWS, None))[1]


def refuse(where):
    with pytest.raises(ConfigError) as caught:
        build(where)
    key = f"reward.functions.short={where}: "
    assert all(problem.startswith(key) for problem in caught.value.problems)
    return [problem.removeprefix(key) for problem in caught.value.problems]


def test_a_function_of_the_users_stands_beside_the_packages_rewards(write):
    where = write("def short(prompts, completions, **kwargs):\n    return [-len(text) for text in completions]\n")
    reward = build(where)
    assert list(compose(where).reward.weights.values()) == [1.0, 0.5] and reward.__name__ == "short"
    assert reward(**CALL, trainer_state=None, log_metric=None, log_extra=None) == [-1.0, -2.0]
    assert score_completions([reward], ROWS, ["a", "bb"], [[1], [1, 2]]) == [{"short": -1.0}, {"short": -2.0}]


def test_what_it_logs_is_below_its_own_name_whatever_the_trainer_logs(write):
    source = "def short(completions, log_metric=None, log_extra=None, **_):\n"
    source += "    log_metric('kl', 3.0)\n    log_extra('kl', completions)\n    return [0.0] * len(completions)\n"
    logged, table = {}, {}
    build(write(source))(**CALL, trainer_state=None, log_metric=logged.__setitem__, log_extra=table.__setitem__)
    assert (logged, table) == ({"logged/short/kl": 3.0}, {"logged/short/kl": ["a", "bb"]})


def test_it_gets_messages_for_chat_prompts_and_is_told_so_where_it_fails_on_them(write):
    rows = [{**row, "prompt": [{"role": "user", "content": "p"}]} for row in ROWS]
    reward = build(write("def short(completions, **_):\n    return [len(c[0]['content']) for c in completions]"))
    assert score_completions([reward], rows, ["a", "bb"], [[1], [1]]) == [{"short": 1.0}, {"short": 2.0}]
    for body in ("c.split()", "None if isinstance(c, list) else 1"):
        reward = build(write(f"def short(completions, **_):\n    return [{body} for c in completions]"))
        with pytest.raises((ConfigError, RewardError), match="completions are lists of messages"):
            score_completions([reward], rows, ["a", "bb"], [[1], [1]])


@pytest.mark.parametrize(
    "values", [(1, 0.5), [True, False], np.array([1, 0.5]), torch.tensor([1, 0.5]), [np.float32(1), torch.tensor(0)]]
)
def test_numbers_of_any_kind_are_rewards(write, values):
    reward = build(write("values = None\ndef short(completions, **_):\n    return values\n"))
    reward.__wrapped__.__globals__["values"] = values
    found = reward(**CALL)
    assert found == [float(value) for value in values] and {type(value) for value in found} == {float}


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def shortest(**_):\n    return [0]\nraise SystemExit('run')\n", "mine.py has no short; did you mean"),
        ("short = 3\n", "mine.py has no function short"), ("def short(:\n", "is not Python, invalid"),
        ("import no_such_package\ndef short(**_):\n    return []\n", "cannot be imported (raised ModuleNotFound"),
        ("def short(**_):\n    return []\nexit(1)\n", "cannot be imported (raised SystemExit in line 3"),
        ("def short(texts): pass", "cannot be called (missing a required argument: 'texts'); must be a plain function"),
        ("def short(prompts, completions, completion_ids, id, numbers, target): pass",
         "cannot be called (got an unexpected keyword argument 'trainer_state'"),
    ],
)  # fmt: skip
def test_what_is_not_there_or_cannot_be_called_is_refused(source, line, write):
    modules = set(sys.modules)
    assert refuse(write(source))[0].startswith(line)
    assert not any("mine" in name for name in set(sys.modules) - modules)


@pytest.mark.parametrize(
    ("returned", "line"),
    [("[1.0]", "returned 1 values for 2 completions; must be one per completion"),
     ("[1.0, None]", "returned null (None) for completion 1; must be a finite number"),
     ("[1.0, float('nan')]", "returned nan (float) for completion 1; must be a finite number"),
     ("(1.0 for _ in 'ab')", "must be a list of numbers, one per completion")],
)  # fmt: skip
def test_what_is_no_reward_is_refused_at_the_first_call_and_fails_a_later_one(write, returned, line):
    where = write(f"good = False\ndef short(**_):\n    return [0, 0] if good else {returned}\n")
    reward = build(where)
    with pytest.raises(ConfigError) as refused:
        reward(**CALL)
    reward.__wrapped__.__globals__["good"] = True
    assert reward(**CALL) == [0.0, 0.0]
    reward.__wrapped__.__globals__["good"] = False
    with pytest.raises(RewardError) as failed:
        reward(**CALL)
    for message in (*refused.value.problems, str(failed.value)):
        assert message.startswith(f"reward.functions.short={where}: returned ") and message.endswith(line)


MEAN = "class Mean(Exception):\n    def __str__(self): raise RuntimeError('no text')\n    __repr__ = __str__\n"


@pytest.mark.parametrize(
    ("source", "raised"),
    [("def short(**kwargs):\n    return kwargs['nope']\n", "KeyError in line 2: 'nope'"),
     *((f"def short(**_):\n    {end}\n", f"{name} in line 2: ") for name, end in
       (("SystemExit", "raise SystemExit(0)"), ("SystemExit", "import sys; sys.exit()"),
        ("GeneratorExit", "raise GeneratorExit"))),
     # an error, and a value, that cannot be shown
     (f"{MEAN}def short(**_):\n    raise Mean\n", "Mean in line 5: (its message cannot be read: RuntimeError)"),
     (f"{MEAN}def short(**_):\n    return 2 * [Mean()]\n", "RuntimeError in line 2: no text")],
)  # fmt: skip
def test_whatever_it_raises_is_one_line_with_its_name(write, source, raised):
    where = write(source)
    with pytest.raises(RewardError) as caught:
        build(where)(**CALL)
    assert str(caught.value).startswith(f"reward.functions.short={where}: raised {raised}")
