import json
import re
from pathlib import Path

import pytest

from rlhf_exp.analysis.report.__main__ import main as report
from rlhf_exp.describe.__main__ import main

APPROVED = Path(__file__).with_name("approved.md")
"""The section of the report of the rows of conftest.py, of which a byte is a token."""


def test_the_command_writes_a_folder_that_the_report_shows(hh_overrides, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([*hh_overrides, f"output_dir={out}"]) == 0
    printed = capsys.readouterr().out
    assert f"written: {out / 'report.html'}" in printed
    assert {path.name for path in out.iterdir()} >= {"run.json", "data.json", "report.md", "report.html"}
    html, markdown = ((out / f"report.{end}").read_text() for end in ("html", "md"))
    for text in (html, markdown, printed, (out / "data.json").read_text()):
        assert not re.search("bread|baker|flour|hurt|go on", text)
    data = markdown.partition("## Data")[2].partition("## What was run")[0]
    assert f"## Data{data.rstrip()}\n" == APPROVED.read_text()
    assert report([str(out)]) == 0 and (out / "report.md").read_text() == markdown


@pytest.mark.parametrize(
    ("argument", "line"),
    [("task.pth=x", "task.pth=x: no such key"), ("model.path=./nope", "model.path=./nope: no such folder"),
     ("-m", "unrecognized arguments: -m"), ("dry_run=true", "dry_run=true: not with rlhf_exp describe")],
)  # fmt: skip
def test_a_mistake_is_one_line_and_status_2(argument, line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([argument]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"rlhf_exp describe: {line}") and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("answers", "columns"),
    [([], []), (["completion"], ["task.completion_column=good"]),
     (["chosen", "rejected"], ["task.chosen_column=good", "task.rejected_column=bad"])],
)  # fmt: skip
def test_rows_of_your_own_need_no_grader(answers, columns, tmp_path):
    rows = [{"prompt": f"use {i} 2 make {i + 2} .", "good": "yes", "bad": "no no"} for i in range(1, 20)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = ["task=file", f"task.path={tmp_path / 'rows.jsonl'}", f"output_dir={tmp_path / 'out'}"]
    assert main([*named, *columns]) == 0
    lengths = json.loads((tmp_path / "out" / "data.json").read_text())["figures"]["lengths"]
    assert [row["text"] for row in lengths if row["subset"] == "train"] == ["prompt", *answers]
