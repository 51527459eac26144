"""task=file: rows with any columns, from every kind of file, for every kind of algorithm."""

import re

import pytest
from datasets import Dataset, DatasetDict

from rlhf_exp.config.compose import compose_config
from tests.tasks.building import SMALL_FILE, load_file, refuse, write_rows

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
        ("{train: 0, test: 0}", "task.splits: must name train, "),
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


def test_training_and_evaluation_see_the_same_values_without_names_that_training_needs(tmp_path):
    rows = [{**row, "answer": n if n % 3 else n + 0.5, "completion": "x", "image": 3} for n, row in enumerate(ROWS)]
    for row in rows[1::2]:
        row["level"] = 1
    task = load_file(write_rows(tmp_path / "rows.jsonl", rows), TEMPLATE, ANSWER, "eval.split=validation")
    for rows in (task.train, task.eval):
        assert [row | {"prompt": None} for row in Dataset.from_list(rows)] == [row | {"prompt": None} for row in rows]
        assert all(isinstance(row["answer"], float) and row["level"] in (1, None) for row in rows)
        assert set(rows[0]) == {"id", "prompt", "level", *ROWS[0]}


def test_a_text_and_a_message_with_it_are_one_prompt(tmp_path):
    both = [{"prompt": row["question"], "n": 1} for row in ROWS]
    both += [{"prompt": [{"role": "user", "content": row["question"]}], "n": 1} for row in ROWS]
    task = load_file(write_rows(tmp_path / "both.jsonl", both), "reward=brevity")
    assert task.facts["dropped"]["repeated with other columns"] == sum(task.facts["splits"].values()) == 60


@pytest.mark.parametrize(
    ("rows", "overrides", "line"),
    [
        (ROWS, [TEMPLATE, "task.answer_column=anser"], "task.answer_column: .*holds no anser"),
        (ROWS, ["task.prompt_template='{question'"], "task.prompt_template='{question': not a template "),
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


ASKED = "task.prompt_template='{q}'"
N = 60


@pytest.fixture
def make(tmp_path):
    """Load `rows` from a file of that name with a checker whose body is `source`."""

    def make(rows, source=None, *overrides, name="rows.jsonl"):
        checker = []
        if source is not None:
            (tmp_path / "check.py").write_text(f"def grade(completion, row):\n    {source}\n")
            checker = [f"task.checker={tmp_path / 'check.py'}:grade"]
        return load_file(write_rows(tmp_path / name, rows), ASKED, *checker, *overrides)

    return make


@pytest.fixture
def make_csv(make):
    """Load CSV with the columns, each a function of the row's number."""

    def make_csv(columns, *args):
        rows = [{"q": f"What is {n}?"} | {name: value(n) for name, value in columns.items()} for n in range(N)]
        return make(rows, *args, name="rows.csv")

    return make_csv


def half(**columns):
    """Rows of which every second has the columns."""
    return [{"q": f"What is {n}?", "a": n, **(columns if n % 2 else {})} for n in range(N)]


def test_a_checker_that_reads_a_column_which_a_row_has_not_is_refused_with_the_row_and_the_nearest(make, tmp_path):
    line = refuse(make, half(target=1), "return row['target'] == 1")
    assert line.startswith(f"task.checker={tmp_path}/check.py:grade: raised KeyError in line 2: 'target', on row ")
    assert "rows.jsonl, line " in line and line.endswith("with completion ''; its columns are id, prompt, q, a")
    line = refuse(make, [{"q": f"{n}?", "target": n} for n in range(N)], "return row['targt'] == 1")
    assert line.endswith(" with completion ''; its columns are id, prompt, q, target; did you mean target?")


def test_numbers_of_csv_are_numbers_for_checkers_and_texts_in_prompts(make_csv):
    source = "return row['n'] == 7 and row['x'] in (2.5, 3) and row['id'] == '7' and row['zip'] == '07'"
    columns = {"id": str, "n": str, "x": lambda n: "3.50" if n % 2 else "2.50", "zip": lambda n: f"{n:02}"}
    task = make_csv(columns, f"{source} or 0.0", "task.prompt_template='{q} {x} {n}'")
    rows = [*task.train, *task.eval]
    assert all(row["prompt"].endswith(("2.50 " + row["id"], "3.50 " + row["id"])) for row in rows)
    assert {type(row["n"]) for row in rows} == {int} and {row["x"] for row in rows} == {2.5, 3.5}
    assert {type(row["zip"]) for row in rows} == {type(row["id"]) for row in rows} == {str}
    assert task.facts["read as numbers"] == "n, x"


@pytest.mark.parametrize("text", ["065", "+65", "1_000", "1e5", "nan", "1234567890123456", "\u0665", ".5"])
def test_what_may_be_a_name_is_no_number(make_csv, text):
    task = make_csv({"n": lambda n: text if n == 3 else str(n)}, "return 0.0")
    assert {type(row["n"]) for row in task.train} == {str} and "read as numbers" not in task.facts


def test_whole_numbers_beside_fractions_stay_whole_for_every_checker(make):
    rows = [{"q": f"{n}?", "answer": n if n % 2 else n + 0.5} for n in range(N)]
    for source, overrides in ((None, ["task.answer_column=answer"]), ("return completion == str(row['answer'])", [])):
        task = make(rows, source, *overrides)
        row = next(row for row in task.train if row["answer"] == int(row["answer"]))
        assert isinstance(row["answer"], float)  # as the table has it that training reads
        assert task.grade(f"{row['answer']:g}", row).outcome == "correct"
        half = next(row for row in task.train if row["answer"] != int(row["answer"]))
        assert task.grade(str(half["answer"]), half).outcome == "correct"
