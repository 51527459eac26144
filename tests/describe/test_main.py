import json
import re

import pytest

from rlhf_exp.describe.__main__ import main


@pytest.mark.parametrize("shown", [True, False])
def test_the_command_writes_its_files_says_where_and_shows_rows_on_its_page_alone(
    shown, hh_overrides, tmp_path, capsys
):
    out = tmp_path / "out"
    assert main([*hh_overrides, f"output_dir={out}", *([] if shown else ["report.samples=false"])]) == 0
    printed = capsys.readouterr().out
    assert f"written: {out / 'describe.html'}" in printed
    html, markdown, figures = ((out / f"describe.{end}").read_text() for end in ("html", "md", "json"))
    for heading in ("Lengths", "What a budget cuts off", "Length and preference", "Splits", "Odd rows", "Rows"):
        assert f"<h2>{heading}" in html and f"## {heading}" in markdown
    for text, has_rows in ((html, shown), (markdown, shown), (figures, False), (printed, False)):
        assert bool(re.search("bread|baker|flour|hurt|go on", text)) is has_rows
    assert ("left out: report.samples=false" in markdown) is ('class="widget"' not in html) is not shown
    assert ("The page has 6 of 6 rows" in markdown) is shown and "Rows:" not in printed
    assert not re.search(r"<link|src=.http|url\(", html.partition("<script>\n")[0])
    assert "| equal answers | chosen and rejected are the same text | dropped | 1 | 0 | 1 |" in markdown
    figures = json.loads(figures)
    assert (figures["n"], figures["task"], figures["tokenizer"]) == (6, "hh_rlhf", "tiny_gpt2")


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
    [([], []), (["answer"], ["task.completion_column=good"]),
     (["chosen", "rejected"], ["task.chosen_column=good", "task.rejected_column=bad"])],
)  # fmt: skip
def test_rows_of_your_own_need_no_grader(answers, columns, tmp_path, capsys):
    rows = [{"prompt": f"use {i} 2 make {i + 2} .", "good": "yes", "bad": "no no"} for i in range(1, 20)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = ["task=file", f"task.path={tmp_path / 'rows.jsonl'}", f"output_dir={tmp_path / 'out'}"]
    assert main([*named, *columns]) == 0
    assert "19 rows read" in capsys.readouterr().out
    lengths = json.loads((tmp_path / "out" / "describe.json").read_text())["lengths"]
    assert [row["text"] for row in lengths if row["subset"] == "train"] == ["prompt", *answers]


def test_configs_of_your_own(tmp_path, capsys):
    (tmp_path / "own" / "task").mkdir(parents=True)
    (tmp_path / "own" / "task" / "short.yaml").write_text("defaults: [countdown]\ntrain_rows: 7\n")
    assert main(["-cd", str(tmp_path / "own"), "task=short", "eval.rows=5", f"output_dir={tmp_path / 'out'}"]) == 0
    assert re.search("^train +prompt +7 ", capsys.readouterr().out, re.MULTILINE)
