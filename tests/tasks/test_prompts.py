"""Prompts and completions: in chat or plain, known to the model, within its context, and enough of them."""

from types import SimpleNamespace

import pytest
from tokenizers.processors import TemplateProcessing

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.untrained import build_trace_tokenizer
from rlhf_exp.tasks import TaskRows, wants_chat
from rlhf_exp.tasks.prompts import check_context, check_rows, check_vocabulary
from rlhf_exp.tasks.tokens import render
from tests.tasks.building import refuse

PLAIN, CHAT = (SimpleNamespace(chat_template=template) for template in (None, "{{ messages }}"))
ROWS = [{"prompt": "use 8 7 3 make 53 ."}, {"prompt": "use 8 7 make 56 ."}]


def test_what_the_model_cannot_read_or_write_is_refused():
    tokenizer, strange = build_trace_tokenizer(), [*ROWS, {"prompt": "use 999 999 make four ."}]
    check_vocabulary(tokenizer, TaskRows("countdown", ROWS, ROWS, None))
    with pytest.raises(ConfigError, match=r"2 words of its prompts .*: '999' \(2\), 'four' \(1\);"):
        check_vocabulary(tokenizer, TaskRows("countdown", ROWS, strange, None))
    tokenizer.model_max_length = 20
    task = TaskRows("countdown", [], ROWS, None)
    check_context(compose_config(["algo=reward_model"]), tokenizer, task)  # samples nothing
    check_context(compose_config(["algo=dpo", "max_tokens=13"]), tokenizer, task)
    with pytest.raises(ConfigError, match="^max_tokens=14: .* allowed is at most 13$"):
        check_context(compose_config(["algo=dpo", "max_tokens=14"]), tokenizer, task)


@pytest.mark.parametrize(
    ("adds", "prompt", "why"),
    [
        ("<unk> $A", "8 7", None),  # a begin token, once
        ("<unk> $A", "<unk> 8 7", "its prompts begin with two begin tokens, as in <unk> <unk> 8 7; leave one out"),
        ("$A <eos>", "8 7", "its prompts end with the end token, .*, as in 8 7 <eos>; let the tokenizer add none"),
        ("$A <eos>", [{"role": "user", "content": "8 7"}], None),  # the template writes all special tokens
    ],
)
def test_prompts_with_special_tokens_that_no_model_has_learned_from_are_refused(adds, prompt, why):
    tokenizer = build_trace_tokenizer()
    tokenizer.bos_token, tokenizer.unk_token = "<unk>", None
    tokenizer.chat_template = "<unk> {% for m in messages %}{{ m.content }} {% endfor %}"
    special = [(text, tokenizer.convert_tokens_to_ids(text)) for text in ("<unk>", "<eos>")]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=adds, special_tokens=special)
    task = TaskRows("file", [], [{"prompt": prompt}], None)
    if why is None:
        check_vocabulary(tokenizer, task)
    else:
        with pytest.raises(ConfigError, match=f"^task=file: {why}"):
            check_vocabulary(tokenizer, task)


@pytest.mark.parametrize("expression", ["range(1000000000)", "raise_exception('no')"])
def test_a_chat_template_that_fails_is_one_line(expression):
    tokenizer = build_trace_tokenizer()
    tokenizer.chat_template = f"{{% for i in {expression} %}}{{{{ i }}}}{{% endfor %}}"
    line = refuse(render, tokenizer, [[{"role": "user", "content": "8 7"}]])
    assert line.startswith("the model's chat template refuses messages of user (") and len(line) < 300


def test_rows_with_a_token_that_the_model_has_no_embedding_for_are_refused():
    tokenizer = build_trace_tokenizer()
    size = len(tokenizer)
    tokenizer.add_tokens("<image>")
    check_vocabulary(tokenizer, TaskRows("countdown", DEMONSTRATIONS, ROWS, None), size)
    task = TaskRows("countdown", [{**ROWS[0], "completion": "<image> 8"}], ROWS, None)
    line = refuse(check_vocabulary, tokenizer, task, size)
    assert line.startswith(f"task=countdown: its rows hold the tokenizer's token {size}, <image>, and the model")


DEMONSTRATIONS = [{**row, "completion": "8 * 7 = 56"} for row in ROWS]
CHOICES = [{**row, "chosen": "8 * 7 = 56", "rejected": "8 - 7 = 1"} for row in ROWS]


@pytest.mark.parametrize(
    ("overrides", "rows"), [(["algo=sft"], DEMONSTRATIONS), (["algo=dpo", "task.samples=self"], CHOICES)]
)
def test_a_length_that_every_prompt_to_train_on_fills_is_refused(overrides, rows):
    """TRL drops such rows, and fails on none with an IndexError."""
    tokenizer, task = build_trace_tokenizer(), TaskRows("countdown", rows, ROWS, None)
    check_context(compose_config([*overrides, "algo.args.max_length=7"]), tokenizer, task)  # the second prompt has 6
    line = refuse(check_context, compose_config([*overrides, "algo.args.max_length=6"]), tokenizer, task)
    assert line == "algo.args.max_length=6: every prompt of the 2 rows fills it; raise it"


def test_fewer_prompts_than_a_rollout_takes_are_refused():
    """TRL 1.16 drops a rollout that is not full: the run would finish with 0 steps."""
    rows = [{"prompt": f"use 8 7 make {n} ."} for n in range(10, 42)]
    small = ["algo.args.per_device_train_batch_size=8", "algo.args.gradient_accumulation_steps=1"]
    check_rows(compose_config(["algo=ppo", *small]), TaskRows("countdown", rows, rows, None))
    for overrides in (["algo=ppo", *small], ["algo=grpo", "+algo.args.steps_per_generation=4"]):
        line = refuse(check_rows, compose_config(overrides), TaskRows("countdown", rows[:31], rows, None))
        assert line.startswith(f"task.train_rows=null: gives 31 prompts, and a rollout of {overrides[0]} takes 32")


def test_auto_follows_the_chat_template_and_chat_needs_one():
    cfg = {form: compose_config([f"task.prompt={form}"]) for form in ("auto", "plain", "chat")}
    assert [wants_chat(cfg[form], CHAT) for form in cfg] == [True, False, True]
    assert [wants_chat(cfg[form], PLAIN) for form in ("auto", "plain")] == [False, False]
    assert refuse(wants_chat, cfg["chat"], PLAIN).startswith("task.prompt=chat: model=tiny has no chat template")
