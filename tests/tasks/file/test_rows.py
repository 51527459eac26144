"""task=file: rows with any columns, from every kind of file, for every kind of algorithm."""

import re

import pytest
from datasets import Dataset, DatasetDict

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from tests.tasks.building import CHAT_TEMPLATE, SMALL_FILE, load_file, refuse, write_rows

ROWS = [
    {"question": f"What is {n} plus 1?", "answer": str(n + 1), "good": f"It is {n + 1}.", "bad": "No idea.",
     "split": "test" if n % 5 == 0 else "train"}
    for n in range(60)
]  # fmt: skip
TEMPLATE = "task.prompt_template='Question: {question}'"
ANSWER = "task.answer_column=answer"
CHOICES = ["task.chosen_column=good", "task.rejected_column=bad"]


@pytest.fixture
def path(tmp_path):
    return write_rows(tmp_path / "rows.jsonl", ROWS)


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "csv", "csv.gz", "parquet"])
def test_every_kind_of_file_gives_the_same_rows(path, tmp_path, suffix):
    own = write_rows(tmp_path / f"own.{suffix}", ROWS)
    task, same = (load_file(file, TEMPLATE, ANSWER, "task.checker=numeric") for file in (own, path))
    row = task.train[0]
    assert set(row) == {"id", "prompt", *ROWS[0]} and row["prompt"] == f"Question: {row['question']}"
    assert len(task.train) + len(task.eval) <= 60 and task.eval
    assert not {row["prompt"] for row in task.train} & {row["prompt"] for row in task.eval}
    assert same.train == task.train and same.eval == task.eval
    assert task.grade("so 3", {"answer": "3"}).outcome == "correct"


def test_splits_by_column_by_file_and_by_hash_are_disjoint(path, tmp_path):
    by_column = load_file(path, TEMPLATE, "task.split_column=split", "reward=brevity")
    assert {row["split"] for row in by_column.eval} == {"test"} and len(by_column.eval) == 12
    folder = tmp_path / "folder"
    for split in ("train", "test"):
        write_rows(folder / f"{split}.jsonl", [row for row in ROWS if row["split"] == split])
    by_file = load_file(folder, TEMPLATE, "reward=brevity")
    assert by_file.train == by_column.train and by_file.eval == by_column.eval
    validation = load_file(folder, TEMPLATE, "reward=brevity", "eval.split=validation")
    assert {row["split"] for row in validation.eval} == {"train"}
    assert not {row["id"] for row in validation.eval} & {row["id"] for row in validation.train}
    write_rows(folder / "validation.jsonl", [{**ROWS[0], "question": "Why?", "split": "validation"}])
    given = load_file(folder, TEMPLATE, "reward=brevity", "eval.split=validation")
    assert [row["question"] for row in given.eval] == ["Why?"] and len(given.train) == 48


@pytest.mark.parametrize("source", ["column", "folder", "hub"])
def test_splits_are_found_by_the_names_that_the_source_has_for_them(tmp_path, source, monkeypatch):
    rows = [{**row, "part": {"train": "0", "test": "dev"}[row["split"]]} for row in ROWS]
    rows[1]["part"] = "x"
    parts = {name: [row for row in rows if row["part"] == name] for name in ("0", "dev", "x")}
    if source == "column":
        where = [f"task.path={write_rows(tmp_path / 'rows.jsonl', rows)}", "task.split_column=part"]
    elif source == "folder":
        for name, found in parts.items():
            write_rows(tmp_path / "folder" / f"{name}.csv", found)
        where = [f"task.path={tmp_path / 'folder'}"]
    else:
        data = DatasetDict({name: Dataset.from_list(found) for name, found in parts.items()})
        monkeypatch.setattr("datasets.load_dataset", lambda *args, **kwargs: data)
        where = ["task.source=hub", "task.hub_id=me/mine"]
    task = load_file(None, TEMPLATE, "reward=brevity", "task.splits={train: 0, test: dev}", *where)
    assert {row["part"] for row in task.eval} == {"dev"} and {row["part"] for row in task.train} == {"0"}
    assert len(task.eval) == 12 and task.facts["splits"]["validation"] > 0
    for names, line in (
        ("{train: 0, test: deb}", "deb|dev"),
        ("{train: 0, test: 0}", "task.splits: must name train, and no name twice"),
        ("{test: dev}", "task.splits: must name train"),
        ("{train: 0, test: [dev]}", "task.splits.test=.dev.: must be a valid string or a valid integer"),
        ("{train: null}", "dev|train"),
    ):
        assert re.search(line, refuse(load_file, None, TEMPLATE, "reward=brevity", f"task.splits={names}", *where))


def test_demonstrations_and_pairs_come_from_named_columns(path):
    sft = load_file(path, TEMPLATE, "algo=sft", "task.completion_column=good", "reward=none")
    assert sft.train[0].keys() == {"prompt", "completion"} and sft.train[0]["completion"].startswith(" It is")
    assert sft.demonstrations and sft.demonstrations[0].keys() == {"prompt", "completion"}
    dpo, kto, scorer = (
        load_file(path, TEMPLATE, f"algo={algo}", *CHOICES, "reward=none") for algo in ("dpo", "kto", "reward_model")
    )
    assert dpo.train[0].keys() == {"id", "subset", "prompt", "chosen", "rejected"}
    assert dpo.pairs and not {pair["id"] for pair in dpo.pairs} & {pair["id"] for pair in dpo.train}
    assert len(kto.train) == 2 * len(dpo.train) and {row["label"] for row in kto.train} == {True, False}
    assert scorer.pairs == dpo.pairs and scorer.eval == []
    assert compose_config([*SMALL_FILE, f"task.path={path}", TEMPLATE, "algo=dpo", ANSWER]).learns_from_samples


def test_every_algorithm_is_measured_on_the_same_rows(tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", [*ROWS, *({**row, "good": "So be it."} for row in ROWS[::2])])
    asked = [
        load_file(path, TEMPLATE, ANSWER, "eval.most_rows=4", *more).eval
        for more in ([], ["algo=sft", "task.completion_column=good"], ["algo=dpo", *CHOICES])
    ]
    assert len(asked[0]) == 4
    for rows in asked[1:]:
        assert [(row["id"], row["prompt"]) for row in rows] == [(row["id"], row["prompt"]) for row in asked[0]]
    ids = [pair["id"] for pair in load_file(path, TEMPLATE, "reward=none", "algo=dpo", *CHOICES).train]
    assert len(set(ids)) == len(ids) and any(own.endswith(" #2") for own in ids)


def test_repeated_rows_count_once_and_messages_are_prompts_of_chat_models(tmp_path):
    rows = [{"prompt": [{"role": "user", "content": row["question"]}], "answer": row["answer"]} for row in ROWS]
    path = write_rows(tmp_path / "rows.jsonl", [*rows, *rows[:3]])
    task = load_file(path, ANSWER, "task.system_prompt='Be\\nbrief.'", template=CHAT_TEMPLATE)
    assert task.facts["dropped"]["repeated"] == 3
    assert task.train[0]["prompt"][0] == {"role": "system", "content": "Be\nbrief."}
    assert task.eval[0]["prompt"][1]["role"] == "user"


def test_training_and_evaluation_see_the_same_values_without_names_that_training_needs(tmp_path):
    rows = [{**row, "answer": n if n % 3 else n + 0.5, "completion": "x", "image": 3} for n, row in enumerate(ROWS)]
    for row in rows[1::2]:
        row["level"] = 1
    task = load_file(write_rows(tmp_path / "rows.jsonl", rows), TEMPLATE, ANSWER, "eval.split=validation")
    for rows in (task.train, task.eval):
        assert [row | {"prompt": None} for row in Dataset.from_list(rows)] == [row | {"prompt": None} for row in rows]
        assert all(isinstance(row["answer"], float) and row["level"] in (1, None) for row in rows)
        assert set(rows[0]) == {"id", "prompt", "level", *ROWS[0]}


def test_a_text_and_a_message_with_it_are_one_prompt_and_another_template_moves_no_row(path, tmp_path):
    both = [{"prompt": row["question"], "n": 1} for row in ROWS]
    both += [{"prompt": [{"role": "user", "content": row["question"]}], "n": 1} for row in ROWS]
    task = load_file(write_rows(tmp_path / "both.jsonl", both), "reward=brevity")
    assert task.facts["dropped"]["repeated with other columns"] == sum(task.facts["splits"].values()) == 60
    plain = load_file(path, "task.prompt_template='{question}\\nAnswer:'", "reward=brevity")
    assert plain.eval[0]["prompt"].endswith("?\nAnswer:")  # a line break can be typed
    other = load_file(path, TEMPLATE, "reward=brevity")
    assert {row["question"] for row in plain.eval} == {row["question"] for row in other.eval}


@pytest.mark.parametrize(
    ("rows", "overrides", "line"),
    [
        (ROWS, [TEMPLATE, "task.answer_column=anser"], "task.answer_column: .*holds no anser"),
        (ROWS, ["task.prompt_template='{question'"], "task.prompt_template='{question': expected '}'"),
        (ROWS, ["task.prompt_template=Why"], "must name columns in braces"),
        ([*ROWS, {**ROWS[0], "split": "train"}], [TEMPLATE, "task.split_column=split"],
         "line 1 .test. and .*line 61 .train. have one prompt"),
        ([{**ROWS[0], "split": "dev"}], [TEMPLATE, "task.split_column=split"], "its splits are dev; say which"),
        ([*ROWS, {"question": "Why?"}], [TEMPLATE, ANSWER], "line 61 holds no answer"),
        ([*ROWS, {"answer": "4"}], [TEMPLATE], "task.prompt_template: .*line 61 holds no question"),
        ([*ROWS, {**ROWS[0], "question": "Why?", "answer": "so"}],
         [TEMPLATE, ANSWER, "task.checker=numeric"], "line 61: \"answer\" cannot be compared"),
        ([{**row, "level": "b" if row is ROWS[9] else 1} for row in ROWS], [TEMPLATE],
         "rows.jsonl: the column level cannot be held by a table"),
        ([{**row, "answer": ["3", "4"]} for row in ROWS], [TEMPLATE, ANSWER],
         "line 1: \"answer\" must hold one text or number"),
        ([{**row, "id": 1} for row in ROWS], [TEMPLATE], "has the id 1 of"),
    ],
)  # fmt: skip
def test_bad_rows_are_refused_in_one_line_with_their_place(tmp_path, rows, overrides, line):
    path = write_rows(tmp_path / "rows.jsonl", rows)
    reward = [] if any("answer_column" in override for override in overrides) else ["reward=brevity"]
    assert re.search(line, refuse(load_file, path, *overrides, *reward))


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("task.path=ROWS task.answer_column=answer task.checker=numerc", "task.checker=numerc"),
        ("task.path=ROWS task.checker=numeric", "task.checker=numeric: needs task.answer_column"),
        ("task.path=ROWS task.answer_column=answer task.checker=regex", "task.pattern: belongs to task.checker=regex"),
        ("task.path=ROWS task.chosen_column=good", "task.chosen_column and task.rejected_column: must both be set"),
        ("task.path=ROWS task.source=hub", "task.source=hub: needs task.hub_id"),
    ],
)  # fmt: skip
def test_keys_that_do_not_fit_are_refused(path, typed, line):
    with pytest.raises(ConfigError) as refused:
        compose_config([*SMALL_FILE, TEMPLATE, *typed.replace("ROWS", str(path)).split()])
    assert any(problem.startswith(line) for problem in refused.value.problems), refused.value.problems


def test_the_source_is_what_is_named(path):
    keys = [*SMALL_FILE, TEMPLATE, "reward=brevity", "task.hub_id=me/mine"]
    assert compose_config(keys).task.source == "hub"
    assert compose_config([*keys, f"task.path={path}"]).task.source == "file"
