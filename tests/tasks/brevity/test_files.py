import json

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.untrained import build_byte_tokenizer
from rlhf_exp.tasks import load_task

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


def write(n):
    return [{"prompt": f"Write note {i} to the milkman."} for i in range(n)]


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
    [({"question": "Hi"}, "its prompt must be a text, or messages"), ("nope", "not JSON ("),
     ({"prompt": [{"role": "user"}]}, "its prompt must be a text, or messages"),
     ('{"prompt": "\\ud800"}', "its prompt holds half a character")],
)  # fmt: skip
def test_a_broken_row_is_refused_with_its_place(tmp_path, tokenizer, row, problem):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, [*write(40), row], tokenizer)
    [line] = caught.value.problems
    assert line.startswith(f"{tmp_path}/prompts.jsonl, line 41: {problem}")
    with pytest.raises(ConfigError, match="^task.prompt: the prompts are messages"):
        load(tmp_path, [*write(40), {"prompt": MESSAGES}], tokenizer)
