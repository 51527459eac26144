"""task=file: columns that some rows do not have, numbers of CSV, and the user's checker, tried on every row."""

import csv
import io
import json

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.user_code import RewardError

TEMPLATE = "task.prompt_template='{q}'"
N = 60


@pytest.fixture
def make(tmp_path, load):
    """Load `rows` (a list of dicts as JSONL, a text as CSV) with a checker whose body is `source`."""

    def make(rows, source=None, *overrides):
        path = tmp_path / ("rows.csv" if isinstance(rows, str) else "rows.jsonl")
        path.write_text(rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows))
        checker = []
        if source is not None:
            (tmp_path / "check.py").write_text(f"def grade(completion, row):\n    {source}\n")
            checker = [f"task.checker={tmp_path / 'check.py'}:grade"]
        return load(path, TEMPLATE, *checker, *overrides)

    return make


def refuse(make, *args):
    with pytest.raises(ConfigError) as refused:
        make(*args)
    (line,) = refused.value.problems
    return line


def half(**columns):
    """Rows of which every second has the columns."""
    return [{"q": f"What is {n}?", "a": n, **(columns if n % 2 else {})} for n in range(N)]


def write_csv(*columns):
    """The text of a CSV file with the columns, each (name, function of the row's number)."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["q", *(name for name, _ in columns)])
    writer.writerows([f"What is {n}?", *(value(n) for _, value in columns)] for n in range(N))
    return file.getvalue()


def test_a_checker_that_reads_a_column_which_some_rows_have_not_is_refused_with_the_row(make, tmp_path):
    line = refuse(make, half(target=1), "return row['target'] == 1")
    assert line.startswith(f"task.checker={tmp_path}/check.py:grade: raised KeyError in line 2: 'target', on row ")
    assert "rows.jsonl, line " in line and line.endswith("with completion ''; its columns are id, prompt, q, a")


def test_a_name_that_no_row_has_is_refused_with_the_nearest(make):
    line = refuse(make, [{"q": f"{n}?", "target": n} for n in range(N)], "return row['targt'] == 1")
    assert "'targt', on row " in line
    assert line.endswith(" with completion ''; its columns are id, prompt, q, target; did you mean target?")


def test_an_optional_column_can_be_read_with_get(make):
    task = make(half(target=1), "return 0 if row.get('target') is None else float('target' in row)")
    graded = {row["target"]: task.grade("", row).score for row in (*task.train, *task.eval)}
    assert graded == {None: 0.0, 1: 1.0}
    assert task.facts["without a value"] == {"target": 30}


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


def test_numbers_of_csv_are_numbers_for_checkers_and_texts_in_prompts(make):
    source = "return row['n'] == 7 and row['x'] in (2.5, 3) and row['id'] == '7' and row['zip'] == '07'"
    columns = [("id", str), ("n", str), ("x", lambda n: "3.50" if n % 2 else "2.50"), ("zip", lambda n: f"{n:02}")]
    task = make(write_csv(*columns), f"{source} or 0.0", "task.prompt_template='{q} {x} {n}'")
    rows = [*task.train, *task.eval]
    assert all(row["prompt"].endswith(("2.50 " + row["id"], "3.50 " + row["id"])) for row in rows)
    assert {type(row["n"]) for row in rows} == {int} and {row["x"] for row in rows} == {2.5, 3.5}
    assert {type(row["zip"]) for row in rows} == {type(row["id"]) for row in rows} == {str}
    assert task.facts["read as numbers"] == "n, x"


@pytest.mark.parametrize(
    "text",
    ["065", "+65", "1,000", "1_000", "1e5", "nan", "1234567890123456", "\u0665", ".5"],
)
def test_what_may_be_a_name_is_no_number(make, text):
    task = make(write_csv(("n", lambda n: text if n == 3 else str(n))), "return 0.0")
    assert {type(row["n"]) for row in task.train} == {str} and "read as numbers" not in task.facts


def test_an_empty_cell_of_numbers_is_a_column_that_the_row_does_not_have(make):
    rows = write_csv(("n", lambda n: str(n) if n % 2 else ""), ("text", lambda n: "x" if n % 2 else ""))
    assert "KeyError in line 2: 'n'" in refuse(make, rows, "return row['n'] == 3")
    task = make(rows, "return float(row.get('n') is None and row['text'] == '')")
    assert {task.grade("", row).score for row in task.train} == {0.0, 1.0}


def test_the_answers_of_ready_checkers_stay_as_they_are_written(make):
    answers = write_csv(("answer", lambda n: f"{n}.50"), ("split", lambda n: "10" if n % 5 else "20"))
    task = make(
        answers, None, "task.answer_column=answer", "task.split_column=split", "task.splits={train: 10, test: 20}"
    )
    row = task.train[0]
    assert row["answer"].endswith(".50") and row["split"] == "10"
    assert task.grade(row["answer"], row).outcome == "correct"
    good = write_csv(("good", str), ("bad", lambda n: str(n + 1)))
    pairs = make(good, None, "algo=dpo", "reward=none", "task.chosen_column=good", "task.rejected_column=bad")
    assert pairs.train[0]["chosen"].startswith(" ")


def test_whole_numbers_beside_fractions_stay_whole_for_every_checker(make):
    rows = [{"q": f"{n}?", "answer": n if n % 2 else n + 0.5} for n in range(N)]
    for source, overrides in ((None, ["task.answer_column=answer"]), ("return completion == str(row['answer'])", [])):
        task = make(rows, source, *overrides)
        row = next(row for row in task.train if row["answer"] == int(row["answer"]))
        assert isinstance(row["answer"], float)  # as the table has it that training reads
        assert task.grade(f"{row['answer']:g}", row).outcome == "correct"
        half = next(row for row in task.train if row["answer"] != int(row["answer"]))
        assert task.grade(str(half["answer"]), half).outcome == "correct"


def test_rows_keep_their_ids_and_splits(make):
    """Those that they had before the columns of CSV had types."""
    task = make(write_csv(("n", lambda n: f"{n}.50")), "return 0.0", "task.prompt_template='{q} {n}'")
    ids = {row["prompt"]: row["id"] for row in (*task.train, *task.eval)}
    assert ids["What is 3? 3.50"] == "c2ef7397b5269b16" and (len(task.train), len(task.eval)) == (46, 7)


def look(path, *overrides):
    """What is found before torch is imported: the mistakes, a line each."""
    try:
        compose_config(["task=file", f"task.path={path}", "device=cpu", "task.answer_column=a", *overrides])
    except ConfigError as error:
        return error.problems
    return []


def test_a_column_that_only_later_rows_have_is_not_refused_by_the_first(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "x"}\n' * 200 + '{"prompt": "y", "a": "1"}\n')
    assert look(path) == []


def test_a_column_that_no_row_has_is_refused_with_the_config(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("Question,a\n1 + 1?,2\n")
    [line] = look(path)
    assert line.startswith("task.prompt_template=null") and line.endswith("; the columns are Question, a")
    [line] = look(path, "task.prompt_template='{question}'")
    assert line.endswith("; did you mean Question?")
    named = "task.prompt_template='{Question}'"
    assert look(path, named) == look(path, named, "algo=sft", "task.completion_column=a") == []
    assert look(path, named, "algo=sft")[0].startswith("algo=sft: needs task.completion_column")
    path.write_text("Question,a\n")
    assert len(look(path)) == 1
