import json

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.untrained import build_byte_tokenizer
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.splits import split_of

MESSAGES = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi!"}]


@pytest.fixture
def tokenizer():
    made = build_byte_tokenizer()
    made.model_max_length = 128
    return made


def load(tmp_path, rows, tokenizer, *overrides):
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    source = ["task=brevity", "task.source=file", f"task.path={file}", "max_tokens=32", "eval.rows=2"]
    return load_task(compose_config([*source, *overrides]), tokenizer)


def refuse(tmp_path, rows, tokenizer, *overrides):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, rows, tokenizer, *overrides)
    return [line.replace(str(tmp_path), "DIR") for line in caught.value.problems]


def write(n):
    return [{"prompt": f"Write note {i} to the milkman."} for i in range(n)]


def test_every_prompt_is_in_one_split_by_its_hash_and_seeds_alone_decide_the_order(tmp_path, tokenizer):
    task = load(tmp_path, write(100), tokenizer)
    back = load(tmp_path, write(100)[::-1], tokenizer)
    assert (task.train, task.eval) == (back.train, back.eval)
    assert {split_of(row["id"]) for row in task.train} == {"train"}
    assert {split_of(row["id"]) for row in task.eval} == {"test"}
    other = load(tmp_path, write(100), tokenizer, "task.data_seed=1")
    assert other.eval == task.eval and other.train != task.train
    assert sorted(row["id"] for row in other.train) == sorted(row["id"] for row in task.train)
    assert set(task.train[0]) == {"id", "prompt"} and task.grade is None


def test_repeated_and_over_long_prompts_are_dropped_and_counted(tmp_path, tokenizer):
    long = [{"prompt": f"{i} {'x' * 100}"} for i in range(20)]
    task = load(tmp_path, [*write(60), *write(5), *long], tokenizer)
    facts = task.facts
    assert (facts["read"], facts["duplicates"]) == ({"all": 85}, 5)
    assert sum(facts["splits"].values()) == 80
    assert len(task.train) == facts["splits"]["train"] - facts["over_long"]["train"]
    assert all("x" not in row["prompt"] for row in task.train)
    assert task.notes[0] == (
        "85 prompts read; dropped: 5 repeated; splits: {train} train, {validation} validation, {test} test"
    ).format(**facts["splits"])
    left_out = ", ".join(f"{n} of {split}" for split, n in facts["over_long"].items() if n)
    assert task.notes[1].endswith(f"longer than 128 tokens and left out: {left_out}")


def test_a_prompt_that_just_leaves_room_is_kept(tmp_path, tokenizer):
    just = 128 - 32 - len(tokenizer("")["input_ids"])
    rows = [{"prompt": f"{i:02}".ljust(just, "x")} for i in range(60)]
    assert load(tmp_path, rows, tokenizer).facts["over_long"] == {"train": 0, "test": 0}


def test_texts_and_messages_become_chat_where_the_model_chats(tmp_path, tokenizer):
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    task = load(tmp_path, [*write(80), {"prompt": MESSAGES}], tokenizer)
    prompts = [row["prompt"] for row in [*task.train, *task.eval]]
    assert all(prompt[-1]["role"] == "user" for prompt in prompts)
    assert sum(prompt[0]["role"] == "system" for prompt in prompts) <= 1
    plain = load(tmp_path, write(80), tokenizer, "task.prompt=plain")
    assert isinstance(plain.train[0]["prompt"], str)
    assert [row["id"] for row in plain.eval] == [row["id"] for row in load(tmp_path, write(80), tokenizer).eval]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"question": "Hi"}, "its prompt must be a text, or messages"),
        ("[1]", "its prompt must be a text, or messages"),
        ({"prompt": [{"role": "user"}]}, "its prompt must be a text, or messages"),
        (
            {"prompt": MESSAGES},
            "holds messages, and prompts are plain text here; use task.prompt=chat",
        ),
        ('{"prompt": "\\ud800"}', "its prompt holds half a character (a lone surrogate), which is no text"),
        ("nope", "not JSON (Expecting value: line 1 column 1 (char 0))"),
        ({"prompt": [*MESSAGES, {"role": "assistant", "content": "Hello."}]}, "its prompt must be a text, or messages"),
    ],
)
def test_a_broken_row_is_refused_with_its_place(tmp_path, tokenizer, row, problem):
    (line,) = refuse(tmp_path, [*write(40), row], tokenizer)
    assert line.startswith(f"DIR/prompts.jsonl, line 41: {problem}")
