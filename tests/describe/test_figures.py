import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.describe.figures import list_rows, measure_rows
from rlhf_exp.forms import ASK, DEMONSTRATE, PAIR
from rlhf_exp.tasks import hh_rlhf, load_task
from tests.tasks.building import CHAT_TEMPLATE, build_tokenizer

DIALOGUE = "\n\nHuman: a\n\nAssistant: b\n\nHuman: c\n\nAssistant:"


def pair(subset, prompt, chosen, rejected):
    return {"id": "x", "subset": subset, "prompt": prompt, "chosen": chosen, "rejected": rejected}


def measure(**splits):
    """A byte is a token, and an answer has its end token besides."""
    return measure_rows(splits, build_tokenizer())


@pytest.fixture(scope="module")
def figures():
    train = [pair("harmless", "p" * 10, "c" * 59, "r" * 4), pair("harmless", DIALOGUE, "c" * 99, "r" * 9),
             pair("helpful", "p", "x" * 63, "z" * 63)]  # fmt: skip
    return measure(train=(PAIR, train), test=(PAIR, [pair("helpful", "q" * 200, "z" * 299, "x" * 899)]))


def find(rows, subset, text=None):
    return next(row for row in rows if row["subset"] == subset and text in (None, row.get("text")))


def test_each_subset_and_all_have_their_lengths(figures):
    assert list(dict.fromkeys(row["subset"] for row in figures["lengths"])) == ["harmless", "helpful", "all"]
    chosen = find(figures["lengths"], "all", "chosen")
    assert (chosen["n"], chosen["mean"], chosen["50%"], chosen["max"]) == (4, 131.0, 82.0, 300)
    assert chosen["std"] == pytest.approx(((71**2 + 31**2 + 67**2 + 169**2) / 3) ** 0.5)
    assert find(figures["turns"], "harmless")["max"] == 4 and find(figures["turns"], "helpful")["max"] == 2


def test_the_longer_answer_wins_as_often_as_counted_by_hand(figures):
    everything, helpful = (find(figures["preference"], name) for name in ("all", "helpful"))
    assert everything["longer_wins"]["value"] == (1 + 1 + 0.5 + 0) / 4
    assert helpful["longer_by"]["value"] == -300.0
    low, high = (everything["longer_wins"][end] for end in ("low", "high"))
    assert 0 <= low < 0.625 < high <= 1


def test_what_a_budget_cuts_off_is_the_longer_text_s_affair(figures):
    whole, answer = (find(figures["budgets"], "all", text) for text in ("prompt + answer", "answer alone"))
    assert [whole[name] for name in ("64", "128", "1024")] == [1.0, 0.5, 0.25]
    assert [answer[name] for name in ("64", "128", "1024")] == [3 / 8, 2 / 8, 0.0]  # 64 tokens fit into 64


def test_repeats_and_overlap_are_found():
    rows = [pair("helpful", *row.split()) for row in ("p a b", "p a b", "p b a", "p c d", "q c d")]
    assert measure(train=(PAIR, rows[:3]), test=(PAIR, rows[3:]))["counts"] == {
        "train_rows": 3, "test_rows": 2, "prompts_in_several_splits": 1, "rows_with_an_earlier_prompt": 3,
        "rows_with_an_earlier_prompt_and_answers": 1, "pairs_preferred_both_ways": 1,
    }  # fmt: skip


def test_chat_prompts_are_distinguished_by_their_texts():
    rows = [{"prompt": [{"role": "user", "content": text}], "completion": [{"role": "assistant", "content": "x"}]}
            for text in ("a", "b", "a")]  # fmt: skip
    rows[0]["prompt"].insert(0, {"role": "system", "content": "Be brief."})
    found = measure_rows({"s": (DEMONSTRATE, rows)}, build_tokenizer(CHAT_TEMPLATE))
    assert found["counts"]["rows_with_an_earlier_prompt"] == 0 and found["turns"][0]["max"] == 2
    assert {(row["subset"], row["text"]) for row in found["lengths"]} == {("s", "prompt"), ("s", "completion")}


def test_rows_without_answers_are_described_by_their_prompts():
    rows = [{"prompt": "a b", "completion": "a column of the user's own"}]
    found = measure(demos=(DEMONSTRATE, [{"prompt": "a b c", "completion": "d"}]), test=(ASK, rows))
    assert [row["text"] for row in found["lengths"] if row["subset"] == "test"] == ["prompt"]
    assert {row["subset"] for row in found["budgets"]} == {"demos", "all"}
    assert find(found["lengths"], "all", "completion")["n"] == 1


@pytest.mark.parametrize(
    ("algo", "forms"), [("dpo", "train chosen, test chosen"), ("kto", "train completion, test chosen"),
                        ("sft", "train completion, test chosen"), ("none", "test chosen")]
)  # fmt: skip
def test_a_run_tells_of_the_rows_that_it_uses(algo, forms, monkeypatch):
    monkeypatch.setattr(hh_rlhf, "SYNTHETIC_ROWS", 200)
    keys = ["task=hh_rlhf", "task.source=generated", "model=tiny_gpt2", "task.train_rows=8", "eval.rows=4"]
    cfg = compose_config([f"algo={algo}", *keys])
    splits = list_rows(cfg, load_task(cfg, build_tokenizer()))
    assert ", ".join(f"{split} {form.columns[1]}" for split, (form, _) in splits.items()) == forms
    assert {split: len(rows) for split, (_, rows) in splits.items()} | {"train": 0} == {"train": 0, "test": 4}
