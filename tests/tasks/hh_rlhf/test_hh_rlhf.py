import gzip
import json
from dataclasses import replace
from functools import cache

import pytest
from transformers import AutoTokenizer

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.models.untrained import build_byte_tokenizer
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.synthetic import generate_pairs

SHARED = ROOT.parent / "shared" / "data"
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def build_tokenizer(chat_template=None, context=512):
    tokenizer = build_byte_tokenizer()
    tokenizer.chat_template, tokenizer.model_max_length = chat_template, context
    return tokenizer


PLAIN, CHAT = build_tokenizer(), build_tokenizer(TEMPLATE)


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Composes a config with changes; its pairs are 800 synthetic ones in a file, unless `path` says otherwise."""
    folder = tmp_path_factory.mktemp("hh_rlhf")
    write(folder / "pairs.jsonl.gz", [texts for _, *texts in generate_pairs(800, seed=0)])
    (folder / "config.json").write_text("{}")  # what the check of reward.path looks for

    @cache
    def compose(algo):
        by_algo = ["reward=model", f"reward.path='{folder}'"] if algo == "grpo" else []
        return compose_config([f"algo={algo}", "task=hh_rlhf", "eval.rows=20", *by_algo])

    def change(algo, changes=(), path=folder / "pairs.jsonl.gz"):
        cfg = compose(algo)
        for key, value in ({"task.source": "file", "task.path": str(path)} | dict(changes)).items():
            group, _, name = key.rpartition(".")
            cfg = replace(cfg, **({group: replace(getattr(cfg, group), **{name: value})} if group else {name: value}))
        return cfg

    return change


def write(path, rows):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"chosen": chosen, "rejected": rejected}) + "\n" for chosen, rejected in rows)


@pytest.mark.parametrize("algo", ["dpo", "reward_model"])
def test_pairs_have_prompt_chosen_and_rejected_as_texts(config, algo):
    task = load_task(config(algo, {"task.train_rows": 30}), PLAIN)
    assert len(task.train) == 30 and len(task.pairs) == 20
    for row in task.train + task.pairs:
        assert list(row) == ["id", "subset", "prompt", "chosen", "rejected"]
        assert row["subset"] == "file" and row["id"].startswith("file ")
        assert row["prompt"].startswith("\n\nHuman: ") and row["prompt"].endswith("\n\nAssistant:")
        assert all(row[key].startswith(" ") and row[key][1] != " " for key in ("chosen", "rejected"))
    assert task.grade is None
    assert [list(row) for row in task.eval] == ([] if algo == "reward_model" else [["id", "prompt"]] * 20)


def test_demonstrations_are_the_chosen_answers_of_the_same_pairs(config):
    pairs, demonstrations = (load_task(config(algo, {"task.train_rows": 30}), PLAIN).train for algo in ("dpo", "sft"))
    assert demonstrations == [{"prompt": row["prompt"], "completion": row["chosen"]} for row in pairs]


def test_prompts_are_sampled_on_once_each(config, tmp_path):
    path = tmp_path / "pairs.jsonl.gz"
    ask = "\n\nHuman: question {}\n\nAssistant:"
    write(path, [(f"{ask.format(i % 100)} {i}", f"{ask.format(i % 100)} no") for i in range(300)])
    grpo, dpo = (load_task(config(algo, {"eval.rows": 5}, path=path), PLAIN) for algo in ("grpo", "dpo"))
    assert all(list(row) == ["id", "prompt"] for row in grpo.train)
    assert len({row["prompt"] for row in grpo.train}) == len(grpo.train) == len(dpo.train) / 3
    assert grpo.facts["train"]["repeated_prompts"] == 2 * len(grpo.train)
    assert grpo.eval == dpo.eval and grpo.pairs == dpo.pairs
    assert len({row["prompt"] for row in grpo.eval}) == 5


def test_a_model_with_a_template_gets_messages(config):
    cfg = config("dpo", {"task.train_rows": 30})
    plain, chat = load_task(cfg, PLAIN), load_task(cfg, CHAT)
    assert [row["id"] for row in chat.train] == [row["id"] for row in plain.train]
    for row, text in zip(chat.train + chat.pairs, plain.train + plain.pairs, strict=True):
        assert row["prompt"][0]["role"] == row["prompt"][-1]["role"] == "user"
        assert row["prompt"][-1]["content"] in text["prompt"]
        assert row["chosen"] == [{"role": "assistant", "content": text["chosen"].strip()}]
    assert isinstance(load_task(config("grpo", {"task.train_rows": 5}), CHAT).eval[0]["prompt"], list)
    assert isinstance(load_task(config("sft", {"task.train_rows": 5}), CHAT).train[0]["completion"], list)
    assert isinstance(
        load_task(config("sft", {"task.train_rows": 5, "task.prompt": "plain"}), CHAT).train[0]["prompt"], str
    )


def test_only_as_many_rows_are_tokenized_as_are_needed(config):
    facts = load_task(config("dpo", {"task.train_rows": 50, "task.max_length": 200, "max_tokens": 20}), PLAIN).facts
    for side, rows in (("train", 50), ("held_out", 20)):
        assert facts[side]["rows"] == rows
        assert facts[side]["looked_at"] == rows + facts[side]["over_long"] < 150
        assert facts[side]["over_long"] > 0


def test_nothing_longer_than_the_limit_is_left(config):
    changes = {"task.max_length": 160, "max_tokens": 80}
    task = load_task(config("dpo", changes), PLAIN)
    assert max(len(row["prompt"]) + max(len(row["chosen"]), len(row["rejected"])) + 1 for row in task.train) == 160
    assert all(len(row["prompt"]) <= 80 for row in task.eval)
    prompts = [len(row["prompt"]) for row in load_task(config("grpo", changes), PLAIN).train]
    assert max(prompts) == 80
    # Who samples nothing needs no room for a completion.
    scored = load_task(config("reward_model", changes | {"eval.rows": 40}), PLAIN).pairs
    assert any(len(row["prompt"]) > 80 for row in scored) and any(len(row["prompt"]) > 80 for row in task.train)


@pytest.mark.parametrize(("max_length", "context", "limit"), [(None, 300, 300), (250, 300, 250), (400, 300, 300)])
def test_the_limit_is_the_smaller_of_max_length_and_context(config, max_length, context, limit):
    cfg = config("dpo", {"task.max_length": max_length, "task.train_rows": 5})
    assert load_task(cfg, build_tokenizer(context=context)).facts["limit_tokens"] == limit


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no real data at {SHARED}")
@pytest.mark.parametrize(("algo", "name"), [("dpo", "gpt2"), ("sft", "qwen3")])
def test_real_pairs_are_prepared_in_either_form(config, algo, name):
    tokenizer = AutoTokenizer.from_pretrained(SHARED / "tokenizers" / name)
    path = SHARED / "hh-rlhf" / "harmless-base-test.jsonl.gz"
    task = load_task(config(algo, {"task.train_rows": 40}, path=path), tokenizer)
    assert len(task.train) == 40 and len(task.eval) == len(task.pairs) == 20
    assert {type(row["prompt"]) for row in task.train + task.eval + task.pairs} == {str if name == "gpt2" else list}
    assert task.facts["read"] == {"harmless-base": 2312}
