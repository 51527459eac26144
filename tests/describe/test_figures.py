import pytest

from rlhf_exp.describe.figures import measure
from rlhf_exp.tasks.examples import Data, Example, OddKind
from rlhf_exp.tasks.tokens import Tokens


def pair(subset, split, prompt, chosen, rejected, turns=2):
    return Example(subset, split, turns, len(prompt.split()), prompt, (chosen, rejected))


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


def test_each_subset_and_all_have_their_lengths(figures):
    assert list(figures["subsets"]) == ["harmless", "helpful", "all"]
    chosen = figures["subsets"]["all"]["tokens"]["chosen"]
    assert (chosen["n"], chosen["mean"], chosen["max"]) == (4, 131.0, 300)
    assert chosen["quantiles"]["50"] == 82.0
    assert chosen["std"] == pytest.approx(((71**2 + 31**2 + 67**2 + 169**2) / 3) ** 0.5)
    assert figures["subsets"]["harmless"]["words"]["prompt"]["mean"] == 2.5
    assert figures["subsets"]["harmless"]["turns"]["max"] == 4


def test_the_longer_answer_wins_as_often_as_counted_by_hand(figures):
    everything, helpful = figures["subsets"]["all"], figures["subsets"]["helpful"]
    assert everything["words"]["longer_wins"]["value"] == (1 + 0 + 0.5 + 1) / 4
    assert everything["tokens"]["longer_wins"]["value"] == (1 + 1 + 0.5 + 0) / 4
    assert helpful["tokens"]["longer_by"]["value"] == -300.0
    low, high = (everything["words"]["longer_wins"][end] for end in ("low", "high"))
    assert 0 <= low < 0.625 < high <= 1


def test_what_a_budget_cuts_off_is_the_longer_text_s_affair(figures):
    truncated = figures["subsets"]["all"]["truncated"]
    assert list(truncated) == ["64", "128", "256", "512", "1024"]
    assert truncated["64"] == {"whole": 1.0, "answer": 3 / 8}  # 64 tokens fit into 64
    assert truncated["128"] == {"whole": 0.5, "answer": 2 / 8}
    assert truncated["1024"] == {"whole": 0.25, "answer": 0.0}


def test_without_tokens_there_are_words(figures):
    words = measure(data(EXAMPLES), None)
    assert list(words["histograms"]) == ["words"]
    assert "truncated" not in words["subsets"]["all"]
    assert words["subsets"]["all"]["words"] == figures["subsets"]["all"]["words"]


def test_splits_are_counted_and_share_no_prompt(figures):
    assert figures["splits"] == {"train": {"harmless": 2, "helpful": 1}, "test": {"helpful": 1}}
    assert figures["overlap"] == {"train, test": 0}


def test_repeats_and_overlap_are_found():
    examples = [
        pair("harmless", "train", "p", "a", "b"),
        pair("harmless", "train", "p", "a", "b"),
        pair("helpful", "train", "p", "b", "a"),
        pair("helpful", "test", "p", "c", "d"),
        pair("helpful", "test", "q", "c", "d"),
    ]
    found = measure(data(examples), None)
    assert found["overlap"] == {"train, test": 1}
    assert found["repeats"] == {
        "distinct_prompts": 2,
        "rows_with_an_earlier_prompt": 3,
        "rows_of_the_most_frequent_prompt": 4,
        "prompts_in_several_subsets": 1,
        "rows_with_an_earlier_prompt_and_answers": 1,
        "pairs_preferred_both_ways": 1,
    }


def test_chat_prompts_are_distinguished_by_their_texts():
    rows = [
        Example("s", "train", 2, 1, [{"role": "user", "content": text}], ([{"role": "assistant", "content": "x"}],))
        for text in ("a", "b", "a")
    ]
    found = measure(data(rows, answers=("answer",)), None)
    assert found["repeats"]["distinct_prompts"] == 2
    assert found["subsets"]["s"]["words"]["answer"]["mean"] == 1.0
    assert "all" not in found["subsets"]


def test_rows_without_answers_are_described_by_their_prompts():
    rows = [Example("demos", "demos", 2, 3, "a b c", ("d",)), Example("test", "test", 2, 2, "a b", ())]
    found = measure(data(rows, answers=("answer",)), [Tokens(3, (2,)), Tokens(2, ())])
    assert "answer" not in found["subsets"]["test"]["words"]
    assert "truncated" not in found["subsets"]["test"]
    assert found["subsets"]["all"]["words"]["answer"]["n"] == 1
    assert "prompts_in_several_subsets" not in found["repeats"]
