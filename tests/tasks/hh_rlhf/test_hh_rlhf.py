import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.synthetic import generate_pairs
from tests.tasks.building import CHAT_TEMPLATE, build_tokenizer, write_rows

PLAIN, CHAT = build_tokenizer(), build_tokenizer(CHAT_TEMPLATE)


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """Load 800 synthetic pairs of a file, or those of another path, for an algorithm."""
    folder = tmp_path_factory.mktemp("hh_rlhf")
    rows = [{"chosen": chosen, "rejected": rejected} for _, chosen, rejected in generate_pairs(800, seed=0)]
    pairs = write_rows(folder / "pairs.jsonl.gz", rows)
    (folder / "config.json").write_text("{}")  # what the check of reward.path looks for

    def load(algo, *overrides, tokenizer=PLAIN, path=pairs):
        by_algo = ["reward=model", f"reward.path='{folder}'"] if algo == "grpo" else []
        source = ["task=hh_rlhf", "task.source=file", f"task.path='{path}'", "eval.rows=20"]
        return load_task(compose_config([f"algo={algo}", *source, *by_algo, *overrides]), tokenizer)

    return load


@pytest.mark.parametrize("algo", ["dpo", "reward_model"])
def test_pairs_have_prompt_chosen_and_rejected_as_texts(load, algo):
    task = load(algo, "task.train_rows=30")
    assert len(task.train) == 30 and len(task.pairs) == 20
    for row in task.train + task.pairs:
        assert list(row) == ["id", "subset", "prompt", "chosen", "rejected"]
        assert row["subset"] == "file" and row["id"].startswith("file ")
        assert row["prompt"].startswith("\n\nHuman: ") and row["prompt"].endswith("\n\nAssistant:")
        assert all(row[key].startswith(" ") and row[key][1] != " " for key in ("chosen", "rejected"))
    assert task.grade is None
    assert [list(row) for row in task.eval] == ([] if algo == "reward_model" else [["id", "prompt"]] * 20)


def test_label_noise_swaps_a_share_of_the_training_pairs_and_no_held_out_one(load):
    clean, noisy = (load("dpo", f"task.label_noise={share}") for share in (0.0, 0.3))
    swapped = [{**row, "chosen": row["rejected"], "rejected": row["chosen"]} for row in clean.train]
    pairs = list(zip(noisy.train, clean.train, swapped, strict=True))
    assert all(row in (kept, other) for row, kept, other in pairs)
    assert 0.2 < sum(row == other for row, _, other in pairs) / len(pairs) < 0.4
    assert noisy.pairs == clean.pairs


def test_prompts_are_sampled_on_once_each(load, tmp_path):
    asked = [f"\n\nHuman: question {i % 100}\n\nAssistant:" for i in range(300)]
    rows = [{"chosen": f"{ask} {i}", "rejected": f"{ask} no"} for i, ask in enumerate(asked)]
    path = write_rows(tmp_path / "pairs.jsonl.gz", rows)
    grpo, dpo = (load(algo, "eval.rows=5", path=path) for algo in ("grpo", "dpo"))
    assert all(list(row) == ["id", "prompt"] for row in grpo.train)
    assert len({row["prompt"] for row in grpo.train}) == len(grpo.train) == len(dpo.train) / 3
    assert grpo.facts["train"]["repeated_prompts"] == 2 * len(grpo.train)
    assert grpo.eval == dpo.eval and grpo.pairs == dpo.pairs
    assert len({row["prompt"] for row in grpo.eval}) == 5


def test_a_model_with_a_template_gets_messages(load):
    plain, chat = (load("dpo", "task.train_rows=30", tokenizer=tokenizer) for tokenizer in (PLAIN, CHAT))
    assert [row["id"] for row in chat.train] == [row["id"] for row in plain.train]
    for row, text in zip(chat.train + chat.pairs, plain.train + plain.pairs, strict=True):
        assert row["prompt"][0]["role"] == row["prompt"][-1]["role"] == "user"
        assert row["prompt"][-1]["content"] in text["prompt"]
        assert row["chosen"] == [{"role": "assistant", "content": text["chosen"].strip()}]
    few = ["task.train_rows=5"]
    assert isinstance(load("grpo", *few, tokenizer=CHAT).eval[0]["prompt"], list)
    assert isinstance(load("sft", *few, tokenizer=CHAT).train[0]["completion"], list)
    assert isinstance(load("sft", *few, "task.prompt=plain", tokenizer=CHAT).train[0]["prompt"], str)


def test_only_as_many_rows_are_tokenized_as_are_needed(load):
    facts = load("dpo", "task.train_rows=50", "task.max_length=200", "max_tokens=20").facts
    for side, rows in (("train", 50), ("held_out", 20)):
        assert facts[side]["rows"] == rows
        assert facts[side]["looked_at"] == rows + facts[side]["over_long"] < 150
        assert facts[side]["over_long"] > 0


@pytest.mark.parametrize(
    ("typed", "way"),
    [
        (["reward_model", "task.max_length=15"], "raise task.max_length"),
        (["dpo", "task.max_length=null"], "take a model with a longer context, or lower max_tokens"),
        (["sft", "task.max_length=15"], "raise task.max_length, or lower max_tokens"),
    ],
)
def test_rows_that_are_all_too_long_are_refused_with_what_makes_them_fit(load, typed, way):
    with pytest.raises(ConfigError) as refused:
        load(*typed, "max_tokens=8", tokenizer=build_tokenizer(context=20))
    assert f": {way} (800 pairs read; " in refused.value.problems[-1]
