import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.task import find_task
from tests.tasks.building import CHAT_TEMPLATE, build_tokenizer, refuse, write_rows

PLAIN, CHAT = build_tokenizer(), build_tokenizer(CHAT_TEMPLATE)
NOTES = [{"prompt": f"Write note {i} to the milkman."} for i in range(80)]
MESSAGES = {"prompt": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi!"}]}


def load(*overrides, tokenizer=PLAIN):
    return load_task(compose_config(["task=brevity", *overrides]), tokenizer)


def load_rows(path, rows, *overrides, tokenizer=PLAIN):
    source = ["task.source=file", f"task.path={write_rows(path, rows)}", "max_tokens=32", "eval.rows=2"]
    return load(*source, *overrides, tokenizer=tokenizer)


def test_it_runs_offline_by_default_on_the_prompts_of_countdown():
    cfg = compose_config(["task=brevity"])
    assert (cfg.task.of.name, cfg.model.name, cfg.reward.weights) == ("countdown", "tiny", {"brevity": 1.0})
    task = load("task.train_rows=6", "eval.rows=4")
    countdown = load_task(compose_config(["task=countdown", "task.train_rows=6", "eval.rows=4"]), PLAIN)
    assert [row["prompt"] for row in task.train] == [row["prompt"] for row in countdown.train]
    assert [row["id"] for row in task.eval] == [row["id"] for row in countdown.eval]
    assert {key for row in [*task.train, *task.eval] for key in row} == {"id", "prompt"}
    assert task.grade is None and task.pairs == [] and not find_task("brevity").graded


@pytest.mark.parametrize("of", ["gsm8k", "hh_rlhf"])
def test_the_prompts_may_be_those_of_any_task(of):
    task = load(f"task@task.of={of}", "task.of.source=generated", "task.train_rows=5", "eval.rows=3")
    assert (len(task.train), len(task.eval), task.facts["of"]) == (5, 3, of)
    assert not {row["prompt"] for row in task.train} & {row["prompt"] for row in task.eval}


def test_what_the_other_task_refuses_is_said_of_its_own_keys(tmp_path):
    line = refuse(load, "task@task.of=gsm8k", "task.of.source=file", f"task.of.path={tmp_path}")
    assert line.startswith(f"task.of=gsm8k: {tmp_path}/train.jsonl: cannot be read")


def test_texts_and_messages_of_a_file_become_chat_where_the_model_chats(tmp_path):
    path = tmp_path / "prompts.jsonl"
    unused = ["task.of.low=40", "task.of.high=3"]  # a file is not asked what the unused task has
    task = load_rows(path, [*NOTES, MESSAGES], *unused, tokenizer=CHAT)
    prompts = [row["prompt"] for row in [*task.train, *task.eval]]
    assert all(prompt[-1]["role"] == "user" for prompt in prompts)
    assert sum(prompt[0]["role"] == "system" for prompt in prompts) <= 1
    plain = load_rows(path, NOTES, "task.prompt=plain", tokenizer=CHAT)
    assert isinstance(plain.train[0]["prompt"], str)
    assert [row["id"] for row in plain.eval] == [row["id"] for row in load_rows(path, NOTES, tokenizer=CHAT).eval]
