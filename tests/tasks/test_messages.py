"""task=file: TRL's conversational format, in columns to learn from."""

import pytest
from trl import extract_prompt

from rlhf_exp.errors import ConfigError
from tests.tasks.building import CHAT_TEMPLATE, load_file, refuse, write_rows

PAIRS = ["algo=dpo", "reward=none", "task.chosen_column=chosen", "task.rejected_column=rejected"]
SFT = ["algo=sft", "reward=none", "task.completion_column=messages"]
N = 40


TURNS = [{"role": "assistant", "content": "Why?"}, {"role": "user", "content": "So."}]


def ask(n, *more):
    return [{"role": "user", "content": f"What is {n}?"}, *more]


def say(text):
    return {"role": "assistant", "content": text}


@pytest.fixture
def make(tmp_path):
    def make(rows, *overrides, chat=True):
        path = write_rows(tmp_path / "rows.jsonl", rows)
        return load_file(path, *overrides, template=CHAT_TEMPLATE if chat else None)

    return make


def test_conversations_are_demonstrations_after_their_history(make):
    rows = [{"messages": ask(n, *TURNS * (n % 2), say(f"It is {n}."))} for n in range(N)]
    task = make(rows, *SFT)
    for row in (*task.train, *task.demonstrations):
        n = int(row["completion"][0]["content"].removeprefix("It is ").rstrip("."))
        assert row == {"prompt": ask(n, *TURNS * (n % 2)), "completion": [say(f"It is {n}.")]}
    assert [row["prompt"] for row in task.eval] == [row["prompt"] for row in task.demonstrations]


def test_pairs_that_share_their_history_are_those_of_trl(make):
    rows = [{"chosen": ask(n, say(f"It is {n}.")), "rejected": ask(n, say("No idea."))} for n in range(N)]
    task = make(rows, *PAIRS)
    expected = [extract_prompt(row) for row in rows]
    for row in (*task.train, *task.pairs):
        assert {name: row[name] for name in ("prompt", "chosen", "rejected")} in expected
    kto = make(rows, *PAIRS, "algo=kto")
    assert {row["label"] for row in kto.train} == {True, False}
    scorer = make(rows, *PAIRS, "algo=reward_model")
    assert scorer.pairs == task.pairs


@pytest.mark.parametrize("prompt", [lambda n: ask(n), lambda n: f"What is {n}?"])
@pytest.mark.parametrize("history", [ask, lambda n: []])
def test_a_prompt_of_its_own_may_be_repeated_in_the_answers_or_not(make, prompt, history):
    rows = [
        {"prompt": prompt(n), "chosen": [*history(n), say(f"It is {n}.")], "rejected": [*history(n), say("No.")]}
        for n in range(N)
    ]
    task = make(rows, *PAIRS)
    assert len(task.train) + len(task.pairs) > N / 2
    for row in task.train:
        assert row["prompt"][0]["content"].startswith("What is ") and len(row["prompt"]) == 1
        assert row["chosen"][0]["content"].startswith("It is ") and row["rejected"] == [say("No.")]


def test_pairs_of_different_histories_are_dropped_and_counted(make):
    rows = [{"chosen": ask(n, say("A")), "rejected": ask(n if n else "that", say("B"))} for n in range(N)]
    task = make(rows, *PAIRS)
    assert task.facts["dropped"]["with different histories"] == 1
    assert any("1 with different histories" in note for note in task.notes)
    why = rf"0 rows in its train split \({N} rows read; dropped: {N} with different histories \(the messages before"
    with pytest.raises(ConfigError, match=why):
        make([row | {"rejected": ask("x", say("B"))} for row in rows], *PAIRS)


@pytest.mark.parametrize(
    ("row", "overrides", "line"),
    [
        ({"messages": ask(1)}, SFT, 'line 1: "messages" must be a text, or messages with a role and a text each, of'),
        ({"messages": [say("x")]}, SFT, "line 1: its prompt must be a text, or messages"),
        ({"messages": ask(1, {"role": "assistant", "content": None})}, SFT, 'line 1: "messages" must be a text, or'),
        ({"prompt": "Why?", "messages": ask(1, say("x"))}, SFT, "line 1: its answers do not begin with the messages"),
        ({"messages": ask(1, say("\ud800"))}, SFT, '"messages" holds half a character'),
        ({"q": {"a": 1}}, ["task.prompt_template='{q}'", "reward=brevity"], "line 1: q, a column of"),
    ],
)  # fmt: skip
def test_what_is_no_conversation_is_refused_in_one_line(make, row, overrides, line):
    assert line in refuse(make, [row] * 3, *overrides)
