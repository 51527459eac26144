import pytest

from rlhf_exp.analysis.report import samples
from rlhf_exp.analysis.report.page import Pair
from rlhf_exp.config.compose import compose_config
from rlhf_exp.describe.page import show_rows
from rlhf_exp.describe.rows import Data, Example
from rlhf_exp.tasks.tokens import Tokens

PAIR = ("chosen", "rejected")
HISTORY = [{"role": role, "content": f"{role} says"} for role in ("system", "user", "assistant", "user")]


@pytest.fixture(scope="module")
def cfg():
    return compose_config(["algo=none", "task=hh_rlhf", "task.source=generated", "max_tokens=40"])


def show(cfg, examples, tokens, names=PAIR):
    heading, note, widget = show_rows(cfg, Data("here", names, examples, {}, ()), tokens)
    return note.text, widget.content["rows"], widget


def test_a_pair_is_two_sides_with_its_split_its_lengths_and_whether_the_budget_cuts_it(cfg):
    pair = Example("helpful", "train", 4, HISTORY, (" yes", " no"), "helpful 1", {"columns": "a: 1"})
    _, [row], widget = show(cfg, [pair], [Tokens(30, (40, 41))])
    assert row["prompt"] == "system: system says\n\nuser: user says\n\nassistant: assistant says\n\nuser: user says"
    assert row["sides"] == [
        {"caption": "Chosen: 40 tokens", "text": "yes"},
        {"caption": "Rejected: 41 tokens", "text": "no"},
        {"caption": "Columns", "text": "a: 1", "fixed": True},
    ]
    assert row["values"] == {
        "split": "train", "subset": "helpful", "form": "pair", "over max_tokens": "yes", "turns": 4,
        "prompt tokens": 30, "chosen tokens": 40, "rejected tokens": 41,
    }  # fmt: skip
    kinds = {field["key"]: field["kind"] for field in widget.content["fields"]}
    assert [key for key, kind in kinds.items() if kind == "choice"] == ["split", "subset", "form", "over max_tokens"]


def test_rows_without_answers_are_prompts_beside_demonstrations(cfg):
    rows = [Example("demos", "demos", 2, "\n\nHuman: a", (" b",)), Example("test", "test", 2, HISTORY[1:2], ())]
    _, (demonstration, prompt), _ = show(cfg, rows, [Tokens(3, (2,)), Tokens(2, ())], ("answer",))
    assert [row["values"]["form"] for row in (demonstration, prompt)] == ["demonstration", "prompt"]
    assert demonstration["prompt"] == "Human: a" and prompt["prompt"] == "user says" and prompt["sides"] == []
    assert prompt["values"]["subset"] is prompt["values"]["over max_tokens"] is None


def test_of_more_rows_than_a_page_holds_each_split_and_subset_has_some(cfg, monkeypatch):
    parts = [("harmless", "train", 500), ("helpful", "train", 500), ("harmless", "test", 50), ("helpful", "test", 3)]
    places = [(subset, split, i) for subset, split, n in parts for i in range(n)]
    rows = [Example(subset, split, 2, f"{split} {i}", ("x", "y"), str(i)) for subset, split, i in places]
    one = len(samples.json.dumps(show(cfg, rows[:1], [Tokens(1, (1, 1))])[1][0]))
    monkeypatch.setattr(samples, "MOST_LETTERS", 100 * one)
    note, shown, widget = show(cfg, rows, [Tokens(1, (1, 1))] * len(rows))
    found = {(row["values"]["subset"], row["values"]["split"]) for row in shown}
    assert found == {(subset, split) for subset, split, _ in parts} and 90 < len(shown) <= 100
    assert f"The page has {len(shown)} of 1,053 rows" in note
    assert all(isinstance(block, Pair) for block in widget.instead)
    assert [pair.prompt for pair in widget.instead] == ["train 0", "train 0", "train 1", "test 0", "test 0", "test 1"]
