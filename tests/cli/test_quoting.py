import shlex

import pytest
from rlhf_exp.cli.quoting import repair, write_command

from rlhf_exp.config.compose import compose_files

TEXTS = (
    "Q: {question}\\nA:",
    "{question}",
    "What, is {a}?",
    'It\'s {a}, "quoted" and \\\\ more',
    "say (yes) or [no]: {a} = ~",
    "a\nb {c}",
)


@pytest.mark.parametrize("text", TEXTS)
def test_the_repaired_command_gives_the_text_as_it_was_typed(text):
    typed = ["algo=dpo", f"task.prompt_template={text}", "task=file", "dry_run=true"]
    words = shlex.split(write_command(repair(typed)))
    assert words[:3] == ["python", "-m", "rlhf_exp"] and (words[3], *words[5:]) == (typed[0], *typed[2:])
    assert compose_files(["task=file", words[4]])[0].task.prompt_template == text


def test_words_that_a_shell_has_split_are_joined():
    typed = "seed=1 task.prompt_template=What is {a}, and {b}? task=file run.tags=[a, b] max_tokens=8 -m".split()
    assert repair([*typed[:-1]]) == [
        "seed=1", 'task.prompt_template="What is {a}, and {b}?"', "task=file", "run.tags=[a, b]", "max_tokens=8",
    ]  # fmt: skip
    assert repair(["-cd", "sweeps", "-cn", "noise", "seed=0"]) == ["-cd", "sweeps", "-cn", "noise", "seed=0"]


def test_several_values_of_a_sweep_stay_several():
    assert repair(["-m", "run.name=a,b"]) == ["-m", "run.name=a,b"]
    assert repair(["run.name=a,b"]) == ['run.name="a,b"']


def test_what_quotes_do_not_mend_is_not_repaired():
    assert repair(["reward.weights={outcome:1"]) is None
    assert repair(["+algo.args.optim_args=a(b"]) is None
