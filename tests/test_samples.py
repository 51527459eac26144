"""The command on a run folder alone."""

import json
import shutil

import pytest

from rlhf_exp.samples import main
from tests.analysis.report.test_golden import GOLDEN

RUN = GOLDEN / "grpo"


@pytest.mark.parametrize(
    ("typed", "n"), [([], 3), (["--rows", "1"], 1), (["--rows", "99"], 24), (["--id", "7 13 19 > 39"], 1)]
)
def test_each_row_has_its_prompt_and_its_answers_before_and_after(typed, n, capsys):
    assert main([str(RUN), *typed]) == 0
    rows = capsys.readouterr().out.strip().split("\n\n")
    assert len(rows) == n
    row, prompt, before, answer, after, _ = rows[0].split("\n")
    assert (row, prompt) == ("[7 13 19 > 39]", "use 13 7 19 make 39 .")
    assert before.startswith("Before: correct, reward 1, ") and after.startswith("After: ")
    assert answer.startswith("  <think> ") and answer.endswith("</answer>")


@pytest.mark.parametrize(
    ("run", "typed", "line"),
    [("grpo", ["--id", "x"], "--id x: no row of {} has this id; the first one is 7 13 19 > 39"),
     ("grpo", ["--rows", "0"], "--rows 0: must be at least 1"),
     ("reward_model", [], "{}: holds no completions in samples.jsonl"), ("", [], "{}: no run.json")],
)  # fmt: skip
def test_what_cannot_be_shown_is_one_line(run, typed, line, capsys):
    assert main([str(GOLDEN / run), *typed]) == 2
    assert capsys.readouterr().err.startswith(f"rlhf_exp samples: {line.format(GOLDEN / run)}")


def test_texts_that_must_stay_in_the_folder_are_not_printed(tmp_path, capsys):
    run = shutil.copytree(RUN, tmp_path / "run")
    (run / ".hydra" / "config.yaml").write_text(json.dumps({"report": {"samples": False}}))
    assert main([str(run)]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and "report.samples=false" in shown.err
