import pytest

from rlhf_exp.config import ROOT
from rlhf_exp.tasks.splits import SHARES, split_of
from rlhf_exp.tasks.synthetic import generate_problems
from tests.tasks.building import make_task, refuse, write_rows

GSM8K = ROOT.parent / "shared" / "data" / "gsm8k"
PROBLEMS = [{"question": question, "answer": answer} for question, answer in generate_problems(300, seed=5)]
GOOD = '{"question": "How many?", "answer": "#### 18"}'


def read(path, source="file", hub_id="openai/gsm8k"):
    found = make_task("gsm8k", source=source, path=str(path), hub_id=hub_id).rows()
    return found.splits, found.facts


def name_questions(splits):
    return {name: {problem.content for problem in problems} for name, problems in splits.items()}


def test_one_file_is_divided_by_a_hash_of_the_question(tmp_path):
    splits, facts = read(write_rows(tmp_path / "rows.jsonl", PROBLEMS))
    assert name_questions(splits) == {
        name: {row["question"] for row in PROBLEMS if split_of(row["question"]) == name} for name in SHARES
    }
    assert facts["read"] == {"all": 300} and sum(facts["splits"].values()) == 300


def test_a_folder_keeps_its_test_part_and_the_same_questions_validate(tmp_path):
    write_rows(tmp_path / "train.jsonl", PROBLEMS[:200])
    assert refuse(read, tmp_path) == f"{tmp_path}/test.jsonl: cannot be read, No such file or directory"
    write_rows(tmp_path / "test.jsonl", PROBLEMS[200:])
    splits, facts = read(tmp_path)
    found = name_questions(splits)
    assert found["test"] == {row["question"] for row in PROBLEMS[200:]}
    assert found["train"] | found["validation"] == {row["question"] for row in PROBLEMS[:200]}
    assert {split_of(question) for question in found["validation"]} == {"validation"}
    assert {split_of(question) for question in found["train"]} == {"train", "test"}
    sizes = {name: len(questions) for name, questions in found.items()}
    assert facts == {"read": {"train": 200, "test": 100}, "duplicates": 0, "in_both_parts": 0, "splits": sizes}


def test_repeated_questions_and_those_of_the_test_part_are_dropped_and_counted(tmp_path):
    again = {"question": f" {PROBLEMS[0]['question']}\n", "answer": "Other words.\n#### 5"}
    write_rows(tmp_path / "train.jsonl", [*PROBLEMS[:10], again, PROBLEMS[1], *PROBLEMS[200:203]])
    write_rows(tmp_path / "test.jsonl", [*PROBLEMS[200:210], PROBLEMS[200]])
    splits, facts = read(tmp_path)
    assert (facts["duplicates"], facts["in_both_parts"]) == (3, 3)
    assert sum(map(len, splits.values())) == 20
    found = name_questions(splits)
    assert not (found["train"] | found["validation"]) & found["test"]
    kept = next(p for p in splits["train"] + splits["validation"] if p.content == PROBLEMS[0]["question"])
    assert kept.columns["answer"] == PROBLEMS[0]["answer"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"question": 1', "not JSON ("), (b"[1, 2]", "expected {"), (b'{"question": "a"}', "expected {"),
        (b'{"question": "a", "answer": 18}', "expected {"),
        (b'{"question": "a", "answer": "#### 18\\nI think"}', 'the answer must end with "#### number", got '),
        (b'{"question": "a", "answer": "#### 1/0"}', 'the answer must end with "#### number", got '),
        (b'{"question": "\\ud800", "answer": "#### 1"}', '"question" holds half a character'),
        (b'{"question": "\xff", "answer": "#### 1"}', "not UTF-8 (byte 15 of the line)"),
    ],
)  # fmt: skip
def test_a_broken_row_is_refused_with_its_file_and_line(tmp_path, line, problem):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(f"{GOOD}\n\n".encode() + line + b"\n")
    assert refuse(read, path).startswith(f"{path}, line 3: {problem}")


def test_the_hub_and_a_folder_give_the_same_splits(tmp_path, monkeypatch):
    write_rows(tmp_path / "train.jsonl", PROBLEMS[:50])
    write_rows(tmp_path / "test.jsonl", PROBLEMS[50:60])
    sets = {("openai/gsm8k", "main"): {"train": PROBLEMS[:50], "test": PROBLEMS[50:60]}}
    monkeypatch.setattr("datasets.load_dataset", lambda hub_id, name, data_dir: sets[hub_id, name])
    assert read("", source="hub") == read(tmp_path)


@pytest.mark.skipif(not GSM8K.exists(), reason="GSM8K is not beside this checkout")
def test_the_published_files_are_read_whole():
    splits, facts = read(GSM8K)
    sizes = {"train": 6844, "validation": 629, "test": 1319}
    assert facts == {"read": {"train": 7473, "test": 1319}, "duplicates": 0, "in_both_parts": 0, "splits": sizes}
    assert {name: len(problems) for name, problems in splits.items()} == sizes
