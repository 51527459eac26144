"""task=module: a class of the user's in a file; what it returns is checked, in one line."""

import re

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.tasks import draw_prompts, load_task
from tests.tasks.building import build_tokenizer, refuse

MINE = """
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import Item, OwnTask


class Sums(OwnTask):
    def rows(self):
        train = [Item(f"t{n}", {"answer": n + 1 + self.options.get("shift", 0)}, n) for n in range(40)]
        return {"train": train, "test": [Item(f"h{n}", {"answer": 101 + n}, 100 + n) for n in range(20)]}

    def write_prompt(self, item, chat):
        return f"What is {item.content} + 1?"

    def grade(self, completion, row):
        return completion.strip() == str(row["answer"])
"""
ANSWERS = """
    def demonstration(self, item, seed):
        return str(item.columns["answer"])

    def pair(self, item):
        return str(item.columns["answer"]), "0"
"""


@pytest.fixture
def compose(tmp_path):
    def compose(source, *overrides):
        (tmp_path / "mine.py").write_text(source)
        keys = ["task=module", f"task.module={tmp_path / 'mine.py'}", "model=tiny_qwen3", "max_tokens=8", "device=cpu"]
        return compose_config([*keys, "eval.rows=null", *overrides])

    return compose


@pytest.fixture
def load(compose):
    return lambda source, *overrides, template=None: load_task(compose(source, *overrides), build_tokenizer(template))


def test_the_rows_and_the_grader_are_those_of_the_file(load):
    task = load(MINE, "+task.options.shift=1", "task.train_rows=10", "eval.most_rows=5")
    assert (len(task.train), len(task.eval), task.name) == (10, 5, "module")
    row = task.train[0]
    n = row["answer"] - 2
    assert row == {"id": f"t{n}", "prompt": f"What is {n} + 1?", "answer": n + 2}
    outcomes = [task.grade(str(n + shift), row).outcome for shift in (2, 1)]
    assert outcomes == ["correct", "failed"]


def test_every_algorithm_learns_from_what_the_file_gives(load, compose):
    assert load(MINE + ANSWERS, "algo=sft", "reward=none").train[0]["completion"].startswith(" ")
    dpo = load(MINE + ANSWERS, "algo=dpo", "reward=none")
    assert dpo.train[0]["rejected"] == " 0" and dpo.pairs[0]["subset"] == "all" and dpo.eval
    assert {row["label"] for row in load(MINE + ANSWERS, "algo=kto", "reward=none").train} == {True, False}
    assert load(MINE + ANSWERS, "algo=reward_model", "reward=none").pairs
    assert load(MINE.replace("def grade", "def grader"), "reward=brevity").grade is None
    cfg, tokenizer = compose(MINE, "algo=dpo", "task.sampling.rows=5", "reward=none"), build_tokenizer()
    assert cfg.learns_from_samples and {row["id"][0] for row in draw_prompts(cfg, tokenizer, 5)} == {"t"}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (('return {"train": train', 'return 3 or {"train": train'), "rows returned 3 .int.; must be the rows of each"),
        (('return {"train": train', 'return {"train": None'), "returned null .None. for train; must be a list of Item"),
        (('Item(f"t{n}"', 'Item("x"'), "row 2 of train: its id must be a text of its own, got x"),
        (('return f"What', 'return 3 or f"What'), "row 1 of train: its prompt must be a text, or messages"),
        (("100 + n", "n"), "returned a prompt in two splits, What is 0 . 1."),
        (("        train = [", "        1 / 0\n        train = ["), "raised ZeroDivisionError in line 8: division"),
        (("        train = [", "        raise ConfigError(['no'])\n        train = ["), "^no$"),
        (("return completion.strip() ==", "return completion.strip() +"), "returned .* .str., must be a bool"),
        (("    def grade", ANSWERS.replace(', "0"', "") + "\n    def grade"), "pair returned .*; must be 2 texts"),
        (("def rows", "def roes"), "holds no class that derives from OwnTask and has a method rows"),
    ],
)  # fmt: skip
def test_what_is_no_task_is_refused_in_one_line(load, change, line):
    assert change[0] in MINE
    assert re.search(line, refuse(load, MINE.replace(*change)))


@pytest.mark.parametrize(
    ("source", "overrides", "line"),
    [
        (MINE, ["task.module=mine"], "task.module=mine: must be a Python file, such as task.module=mine.py"),
        ("def read(keys):\n    return {}", [], "mine.py has no OwnTask; it has [read]"),
        (MINE.replace("def grade", "def grader"), [], "algo=grpo: needs a reward; set a method grade"),
        (MINE, ["algo=sft", "reward=none"], "algo=sft: needs a method demonstration(self, item, seed) in the file"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_a_task_is_refused_before_anything_loads(compose, source, overrides, line):
    assert line in refuse(compose, source, *overrides)
