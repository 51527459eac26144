"""The ready checkers of task=file, and the user's own."""

from decimal import Decimal

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError, collecting
from rlhf_exp.graders.checkers import build_checker, check_answer
from rlhf_exp.graders.user_code import RewardError


@pytest.fixture
def keys(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"prompt": "p", "gold": "a"}')

    def make(checker):
        answer = [] if ":" in checker else ["task.answer_column=gold"]
        pattern = ["task.pattern='A: (\\w+)'"] if checker == "regex" else []
        rows = ["task=file", f"task.path={tmp_path / 'rows.jsonl'}", f"task.checker={checker}"]
        return compose_config([*rows, *answer, *pattern]).task

    return make


@pytest.mark.parametrize(
    ("checker", "answer", "completion", "outcome"),
    [("exact", "Paris", " Paris \n", "correct"), ("exact", "Paris", "It is Paris", "failed"),
     ("exact", 4.0, "4", "correct"), ("exact", 4, "4.00", "correct"), ("exact", 4.5, "4", "failed"),
     ("exact", "4.0", "4", "failed"), ("exact", 2e-05, "0.00002", "correct"), ("exact", 2e-05, "0.00003", "failed"),
     ("exact", "2e-05", "0.00002", "failed"), ("exact", Decimal("2E-7"), "0.0000002", "correct"),
     ("exact", 2e16, "20000000000000000", "correct"), ("exact", 4, "1e999999999", "failed"),
     ("exact", 0.1, "0.1", "correct"), ("exact", 2**60 + 1, str(2**60), "failed"),
     ("numeric", 72, "48 + 24 = 72 clips", "correct"), ("numeric", "1,000", "The answer is 1000.", "correct"),
     ("numeric", "72", "71", "partial"), ("numeric", "72", "none", "failed"),
     ("numeric", "2e-05", "#### 0.00002", "correct"), ("numeric", "6", "The answer is 1.5e6", "partial"),
     ("math", 2e-05, "2e-05", "correct"), ("math", "1.5", "It is 1.5e6", "partial"),
     ("math", 1500000, "1.5 x 10^6", "correct"), ("math", "200/3", r"$2 / 3 \times 10^2$", "correct"),
     ("math", "2e - 5", "$2e-05$", "partial"), ("math", "18.5", r"The answer is \$18.50 per day", "correct"),
     ("math", "38", r"It costs \$18 and \$20, so in all \$38", "correct"), ("math", "3", r"so $x=3\\$", "correct"),
     ("math", "1", "1e999999", "failed"), ("math", r"\frac{1}{2}", r"So it is $\boxed{0.5}$.", "correct"),
     ("math", "3", r"So it is $\boxed{4}$.", "partial"), ("math", "3", "no idea", "failed"),
     ("choice", "(B)", "B", "correct"), ("choice", 1, "B) because A is wrong", "correct"),
     ("choice", "B", "I think A dog\nAnswer: C", "partial"), ("choice", "A", "A dog is an animal", "failed"),
     ("regex", "cat", "A: dog A: cat", "correct"), ("regex", "cat", "A: cat A: dog", "partial"),
     ("regex", "cat", "cat", "failed"), ("regex", 4.0, "A: 4", "correct"), ("regex", 4, "A: 04", "correct")],
)  # fmt: skip
def test_ready_checkers(keys, checker, answer, completion, outcome):
    grade = build_checker(keys(checker))(completion, {"gold": answer})
    assert grade.outcome == outcome
    assert grade.score == {"correct": 1.0, "partial": 0.1, "failed": 0.0}[outcome]


@pytest.mark.parametrize(
    ("checker", "answer", "fits"),
    [("numeric", "four", False), ("numeric", "4", True), ("numeric", 2e-05, True), ("choice", 25, True),
     ("choice", 26, False), ("choice", "AB", False), ("choice", "b.", True), ("choice", "Answer: C", True),
     ("choice", "A, C", False), ("math", r"\frac{1}{2}", True), ("math", "((1", False),
     *((checker, answer, False) for checker in ("exact", "math", "numeric", "choice", "regex")
       for answer in (["3", "4"], {"a": 1}, True, b"4"))],
)  # fmt: skip
def test_an_answer_that_a_checker_cannot_compare_is_found(keys, checker, answer, fits):
    problems = []
    with collecting(problems):
        check_answer(keys(checker), answer, 'line 1: "gold"')
    assert (problems == []) == fits and all(line.startswith('line 1: "gold" ') for line in problems)


OWN = """
from rlhf_exp.graders import Grade
RESULTS = {"bool": True, "half": 0.5, "zero": 0, "text": "yes", "much": 2, "nan": float("nan"), "none": None,
           "grade": Grade("partial", 0.3, "x"), "odd": Grade("correct", 0.0, None), "wild": Grade("right", 1.0, None)}
def grade(completion, row):
    assert set(row) == {"id", "prompt", "gold"}, sorted(row)
    row.clear()
    return RESULTS[completion]
"""
ROW = {"id": "7", "prompt": "?", "gold": "4", "completion_ids": [1, 2]}


@pytest.fixture
def own(keys, tmp_path):
    (tmp_path / "check.py").write_text(OWN)
    return build_checker(keys(f"{tmp_path / 'check.py'}:grade"))


def test_the_users_checker_returns_a_bool_a_number_or_a_grade(own):
    found = [own(name, ROW) for name in ("bool", "half", "zero", "grade")]
    assert [(grade.outcome, grade.score) for grade in found] == [
        ("correct", 1.0), ("partial", 0.5), ("failed", 0.0), ("partial", 0.3)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("result", "problem"),
    [("text", "returned yes (str)"), ("much", "returned 2 (int)"), ("nan", "returned nan (float)"),
     ("odd", "returned Grade("), ("wild", "returned Grade("), ("none", "returned null (None)"),
     ("absent", "raised KeyError in line 8: 'absent'")],
)  # fmt: skip
def test_a_bad_result_is_one_line_with_the_row(own, result, problem):
    with pytest.raises(ConfigError) as refused:
        own(result, ROW)
    (line,) = refused.value.problems
    assert problem in line and f"on row 7 with completion '{result}'" in line and line.startswith("task.checker=")
    own("bool", ROW)
    with pytest.raises(RewardError, match="on row 7"):
        own(result, ROW)
