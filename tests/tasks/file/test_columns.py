"""task=file: columns that some rows do not have, numbers of CSV, and the user's checker, tried on every row."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.user_code import RewardError
from tests.tasks.building import load_file, refuse, write_rows

TEMPLATE = "task.prompt_template='{q}'"
N = 60


@pytest.fixture
def make(tmp_path):
    """Load `rows` from a file of that name with a checker whose body is `source`."""

    def make(rows, source=None, *overrides, name="rows.jsonl"):
        checker = []
        if source is not None:
            (tmp_path / "check.py").write_text(f"def grade(completion, row):\n    {source}\n")
            checker = [f"task.checker={tmp_path / 'check.py'}:grade"]
        return load_file(write_rows(tmp_path / name, rows), TEMPLATE, *checker, *overrides)

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


def test_a_column_that_is_read_for_some_completions_alone_fails_with_the_place(make):
    task = make(half(target=1), "return completion and row['target'] == 1 or 0.0")
    row = next(row for row in task.train if row["target"] is None)
    with pytest.raises(RewardError, match=r"\(.*rows.jsonl, line \d+\) with completion 'x'; its columns"):
        task.grade("x", row)


@pytest.mark.parametrize(
    "key",
    ["answer_column=target", "prompt_template='{q} {target}'", "completion_column=target", "split_column=target"],
)
def test_a_column_that_a_key_names_must_be_in_every_row(make, key):
    line = refuse(make, half(target="train"), None, f"task.{key}", "reward=brevity")
    assert line.startswith(f"task.{key.partition('=')[0]}")
    assert "rows.jsonl, line 1 holds no target (30 of 60 rows)" in line


def test_numbers_of_csv_are_numbers_for_checkers_and_texts_in_prompts(make_csv):
    source = "return row['n'] == 7 and row['x'] in (2.5, 3) and row['id'] == '7' and row['zip'] == '07'"
    columns = {"id": str, "n": str, "x": lambda n: "3.50" if n % 2 else "2.50", "zip": lambda n: f"{n:02}"}
    task = make_csv(columns, f"{source} or 0.0", "task.prompt_template='{q} {x} {n}'")
    rows = [*task.train, *task.eval]
    assert all(row["prompt"].endswith(("2.50 " + row["id"], "3.50 " + row["id"])) for row in rows)
    assert {type(row["n"]) for row in rows} == {int} and {row["x"] for row in rows} == {2.5, 3.5}
    assert {type(row["zip"]) for row in rows} == {type(row["id"]) for row in rows} == {str}
    assert task.facts["read as numbers"] == "n, x"


@pytest.mark.parametrize(
    "text", ["065", "+65", "1,000", "1_000", "1e5", "nan", "1234567890123456", "\u0665", ".5"]
)  # fmt: skip
def test_what_may_be_a_name_is_no_number(make_csv, text):
    task = make_csv({"n": lambda n: text if n == 3 else str(n)}, "return 0.0")
    assert {type(row["n"]) for row in task.train} == {str} and "read as numbers" not in task.facts


def test_the_answers_of_ready_checkers_stay_as_they_are_written(make_csv):
    columns = {"answer": lambda n: f"{n}.50", "split": lambda n: "10" if n % 5 else "20"}
    splits = ["task.split_column=split", "task.splits={train: 10, test: 20}"]
    task = make_csv(columns, None, "task.answer_column=answer", *splits)
    row = task.train[0]
    assert row["answer"].endswith(".50") and row["split"] == "10"
    assert task.grade(row["answer"], row).outcome == "correct"
    choices = ["algo=dpo", "reward=none", "task.chosen_column=good", "task.rejected_column=bad"]
    assert make_csv({"good": str, "bad": lambda n: str(n + 1)}, None, *choices).train[0]["chosen"].startswith(" ")


def test_whole_numbers_beside_fractions_stay_whole_for_every_checker(make):
    rows = [{"q": f"{n}?", "answer": n if n % 2 else n + 0.5} for n in range(N)]
    for source, overrides in ((None, ["task.answer_column=answer"]), ("return completion == str(row['answer'])", [])):
        task = make(rows, source, *overrides)
        row = next(row for row in task.train if row["answer"] == int(row["answer"]))
        assert isinstance(row["answer"], float)  # as the table has it that training reads
        assert task.grade(f"{row['answer']:g}", row).outcome == "correct"
        half = next(row for row in task.train if row["answer"] != int(row["answer"]))
        assert task.grade(str(half["answer"]), half).outcome == "correct"


def test_rows_keep_their_ids_and_splits(make_csv):
    """Those that they had before the columns of CSV had types."""
    task = make_csv({"n": lambda n: f"{n}.50"}, "return 0.0", "task.prompt_template='{q} {n}'")
    ids = {row["prompt"]: row["id"] for row in (*task.train, *task.eval)}
    assert ids["What is 3? 3.50"] == "c2ef7397b5269b16" and (len(task.train), len(task.eval)) == (46, 7)


def test_columns_are_checked_with_the_config_but_for_those_that_later_rows_may_have(tmp_path):
    def look(name, *overrides):
        """What is found before torch is imported: the mistakes, a line each."""
        try:
            path = f"task.path={tmp_path / name}"
            compose_config(["task=file", path, "device=cpu", "task.answer_column=a", *overrides])
        except ConfigError as error:
            return error.problems
        return []

    write_rows(tmp_path / "late.jsonl", [{"prompt": "x"}] * 200 + [{"prompt": "y", "a": "1"}])
    assert look("late.jsonl") == []
    write_rows(tmp_path / "rows.csv", [{"Question": "1 + 1?", "a": "2"}])
    [line] = look("rows.csv")
    assert line.startswith("task.prompt_template=null") and line.endswith("; the columns are Question, a")
    [line] = look("rows.csv", "task.prompt_template='{question}'")
    assert line.endswith("; did you mean Question?")
    named = "task.prompt_template='{Question}'"
    assert look("rows.csv", named) == look("rows.csv", named, "algo=sft", "task.completion_column=a") == []
    assert look("rows.csv", named, "algo=sft")[0].startswith("algo=sft: needs task.completion_column")
    (tmp_path / "rows.csv").write_text("Question,a\n")
    assert len(look("rows.csv")) == 1
