import pytest

from rlhf_exp.describe.figures import measure_rows
from rlhf_exp.forms import PAIR
from tests.tasks.building import build_tokenizer

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
