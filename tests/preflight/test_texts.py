"""The checks of rows and texts: each fails, or warns, on data that break just what it checks."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from rlhf_exp.preflight.texts import check_texts
from rlhf_exp.runs.records import RunRecord
from tests.building import UNTRAINED, build_experiment
from tests.preflight.test_first_steps import PAIRS, PROMPTS, UNPAIRED

HELD_OUT = [{"id": f"h{i}", "prompt": f"use {i + 2} 7 9 make 55 ."} for i in range(40)]
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.role == 'assistant' %}END{% endif %}{% endfor %}"
)
ASSISTANT = "{% if add_generation_prompt %}<assistant>{% endif %}"


def check(folder, algo, *overrides, rows=PROMPTS, held_out=HELD_OUT, ended=3, change=None):
    """The checks by name."""
    experiment = build_experiment(folder, *UNTRAINED, "device=cpu", f"algo={algo}", *overrides, rows=rows)
    folder = SimpleNamespace(record=RunRecord(context_room=100))
    experiment = replace(experiment, task=replace(experiment.task, eval=held_out), folder=folder)
    if change is not None:
        change(experiment.tokenizer)
    completions = [SimpleNamespace(decoding="sampled", truncated=i >= ended) for i in range(8)]
    return {one.name: one for one in check_texts(experiment, [] if algo == "reward_model" else completions)}


@pytest.mark.parametrize(
    ("algo", "rows", "names"),
    [
        ("grpo", PROMPTS, {"end_of_text"}),
        ("sft", UNPAIRED, {"max_length", "end_of_text", "stop_token"}),
        ("kto", UNPAIRED, {"max_length", "end_of_text", "stop_token"}),
        ("dpo", PAIRS, {"max_length", "end_of_text", "stop_token"}),
        ("reward_model", PAIRS, {"max_length", "stop_token"}),
    ],
)
def test_rows_in_order_pass_what_applies_to_the_algorithm(tmp_path, algo, rows, names):
    checks = check(tmp_path, algo, rows=rows)
    assert set(checks) == names | {"splits_are_disjoint", "no_leaks"}
    assert {one.status for one in checks.values()} == {"passed"}


def test_held_out_rows_among_the_training_rows_are_refused_and_few_are_a_warning(tmp_path):
    same = {"id": "same", "prompt": "Use  4, 7 3: MAKE 53"}  # as "use 4 7 3 make 53 ."
    found = check(tmp_path, "grpo", held_out=[*HELD_OUT, same])["splits_are_disjoint"]
    assert found.status == "warned" and found.figures["ids"] == ["same"]
    chat = {"id": "chat", "prompt": [{"role": "user", "content": same["prompt"]}]}
    assert check(tmp_path, "grpo", held_out=[*HELD_OUT[:9], chat])["splits_are_disjoint"].status == "failed"
    other = {"id": "other", "prompt": "use 7 4 3 make 53 ."}
    assert check(tmp_path, "grpo", held_out=[other])["splits_are_disjoint"].status == "passed"


@pytest.mark.parametrize(
    ("shown", "held", "status"), [("{}", "?", "warned"), ("{}", "{}", "passed"), ("?", "?", "passed")]
)
def test_an_answer_that_stands_in_the_training_prompts_alone_is_a_warning(tmp_path, shown, held, status):
    train, held_out = (
        [{"id": f"{text} {n}", "prompt": f"Add 7 and 9 . {text.format(n)}", "answer": n} for n in numbers]
        for text, numbers in ((shown, range(40, 60)), (held, range(60, 80)))
    )
    for row in train:
        row["completion"] = "Add"  # of training rows alone, and it stands in every prompt
    found = check(tmp_path, "grpo", rows=train, held_out=held_out)["no_leaks"]
    assert found.status == status
    assert status == "passed" or found.figures == {"column": "answer", "train": 1.0, "held_out": 0.0}


def test_a_start_model_that_never_ends_is_a_warning_and_an_end_token_it_lacks_is_refused(tmp_path):
    found = check(tmp_path, "grpo", "max_tokens=16", ended=0)["end_of_text"]
    assert found.status == "warned" and found.remedy == ["max_tokens=32"]

    def add_end(tokenizer):
        tokenizer.add_special_tokens({"eos_token": "<new>"})

    assert check(tmp_path, "grpo", change=add_end)["end_of_text"].status == "failed"


def test_answers_without_an_end_token_are_refused(tmp_path):
    """A chat template that writes another end than the model's."""
    chat = [{"prompt": [{"role": "user", "content": row["prompt"]}],
             "completion": [{"role": "assistant", "content": row["completion"]}]} for row in UNPAIRED]  # fmt: skip

    def check_template(template):
        change = lambda tokenizer: setattr(tokenizer, "chat_template", template)  # noqa: E731
        return check(tmp_path, "sft", rows=chat, change=change)["stop_token"]

    found = check_template(TEMPLATE + ASSISTANT)
    assert found.status == "failed" and found.figures["endless"] == len(chat)
    ends = TEMPLATE.replace("END", "{{ eos_token }}") + ASSISTANT
    assert check_template(ends).status == "passed"
    moved = check_template(ends.replace("<assistant>", "<assistant> make"))
    assert moved.status == "warned" and moved.figures["moved"] == len(chat)


@pytest.mark.parametrize(
    ("text", "template", "found"),
    [
        ("{}", TEMPLATE + ASSISTANT, {"inside": 0, "ended": 0}),
        ("{} <eos> 7", TEMPLATE + ASSISTANT, {"inside": 32, "ended": 0}),
        ("{}", TEMPLATE + "{{ eos_token }}", {"inside": 0, "ended": 32}),
    ],
)
def test_special_tokens_in_the_text_of_messages_and_at_the_end_of_prompts_are_a_warning(
    tmp_path, text, template, found
):
    chat = [{"prompt": [{"role": "user", "content": text.format(row["prompt"])}]} for row in PROMPTS]
    change = lambda tokenizer: setattr(tokenizer, "chat_template", template)  # noqa: E731
    check_of = check(tmp_path, "grpo", rows=chat, change=change)["special_tokens"]
    assert check_of.figures == found and check_of.status == ("warned" if any(found.values()) else "passed")
