import pytest

from rlhf_exp.describe.figures import measure
from rlhf_exp.describe.rows import Data, Example, OddKind
from rlhf_exp.tasks.tokens import Tokens


def pair(subset, split, prompt, chosen, rejected, turns=2):
    return Example(subset, split, turns, prompt, (chosen, rejected))


EXAMPLES = [
    pair("harmless", "train", "a b", "one two three", "one"),
    pair("harmless", "train", "a b c", "one", "one two", turns=4),
    pair("helpful", "train", "same", "x y", "z z"),
    pair("helpful", "test", "other", "z z z", "x y"),
]
TOKENS = [Tokens(10, (60, 5)), Tokens(30, (100, 10)), Tokens(1, (64, 64)), Tokens(200, (300, 900))]


def data(examples, answers=("chosen", "rejected")):
    odd = [OddKind("empty_chosen", "the chosen answer is empty", False, {"harmless": 1})]
    return Data("here", answers, examples, {"harmless": 3, "helpful": 2}, odd)


@pytest.fixture
def figures():
    return measure(data(EXAMPLES), TOKENS)


def find(rows, subset, text=None):
    return next(row for row in rows if row["subset"] == subset and text in (None, row.get("text")))


def test_each_subset_and_all_have_their_lengths(figures):
    assert list(dict.fromkeys(row["subset"] for row in figures["lengths"])) == ["harmless", "helpful", "all"]
    chosen = find(figures["lengths"], "all", "chosen")
    assert (chosen["n"], chosen["mean"], chosen["50%"], chosen["max"]) == (4, 131.0, 82.0, 300)
    assert chosen["std"] == pytest.approx(((71**2 + 31**2 + 67**2 + 169**2) / 3) ** 0.5)
    assert find(figures["turns"], "harmless")["max"] == 4


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


def test_repeats_and_overlap_are_found(figures):
    assert figures["counts"]["train_rows"] == 3 and figures["counts"]["prompts_in_several_splits"] == 0
    rows = ["train p a b", "train p a b", "train p b a", "test p c d", "test q c d"]
    examples = [pair("helpful", *row.split()) for row in rows]
    assert measure(data(examples), [Tokens(1, (1, 1))] * 5)["counts"] == {
        "train_rows": 3, "test_rows": 2, "prompts_in_several_splits": 1, "rows_with_an_earlier_prompt": 3,
        "rows_with_an_earlier_prompt_and_answers": 1, "pairs_preferred_both_ways": 1,
    }  # fmt: skip


def test_chat_prompts_are_distinguished_by_their_texts():
    rows = [
        Example("s", "train", 2, [{"role": "user", "content": text}], ([{"role": "assistant", "content": "x"}],))
        for text in ("a", "b", "a")
    ]
    found = measure(data(rows, answers=("answer",)), [Tokens(1, (1,))] * 3)
    assert found["counts"]["rows_with_an_earlier_prompt"] == 1
    assert {row["subset"] for row in found["lengths"]} == {"s"}


def test_rows_without_answers_are_described_by_their_prompts():
    rows = [Example("demos", "demos", 2, "a b c", ("d",)), Example("test", "test", 2, "a b", ())]
    found = measure(data(rows, answers=("answer",)), [Tokens(3, (2,)), Tokens(2, ())])
    assert [row["text"] for row in found["lengths"] if row["subset"] == "test"] == ["prompt"]
    assert {row["subset"] for row in found["budgets"]} == {"demos", "all"}
    assert find(found["lengths"], "all", "answer")["n"] == 1
