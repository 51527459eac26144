import json
import re
import subprocess
import sys

import pytest

from rlhf_exp.describe.__main__ import USAGE, main
from rlhf_exp.models.untrained import build_byte_tokenizer


def test_the_command_writes_its_files_and_says_where(hh_overrides, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([*hh_overrides, f"output_dir={out}"]) == 0
    printed = capsys.readouterr().out
    assert f"written: {out / 'describe.html'}, describe.md, describe.json and plots (" in printed
    figures = json.loads((out / "describe.json").read_text())
    assert (figures["n"], figures["task"], figures["tokenizer"]) == (6, "hh_rlhf", "tiny_gpt2")
    assert figures["overlap"] == dict.fromkeys(figures["overlap"], 0)


def test_the_default_folder_is_named_by_task_and_time(hh_overrides, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(hh_overrides) == 0
    [page] = (tmp_path / "outputs" / "describe" / "hh_rlhf").glob("*/describe.html")
    assert str(page.relative_to(tmp_path)) in capsys.readouterr().out


def test_a_folder_with_a_tokenizer_alone_will_do(hh_overrides, tmp_path, capsys):
    build_byte_tokenizer().save_pretrained(tmp_path / "tokenizer")
    arguments = [*hh_overrides[:-1], f"model.path={tmp_path / 'tokenizer'}", f"output_dir={tmp_path / 'out'}"]
    assert main(arguments) == 0
    assert f"counted by the tokenizer of {tmp_path / 'tokenizer'}; " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        ("task.pth=x", "task.pth=x: no such key; did you mean task.path?"),
        ("task=nope", "task=nope: no such option; must be one of brevity, countdown, file, gsm8k, hh_rlhf, module"),
        ("task.path=nope", "task.path=nope: no such file"),
        ("model.path=./nope", "model.path=./nope: no such folder; must be a model's folder or a hub id like org/name"),
        ("-m", "-m: no such flag; see --help"),
        ("-cd", "argument -cd/--config-dir: expected one argument; see --help"),
        ("-cd=confg", "-cd confg: no such folder"),
        ("dry_run=true", "dry_run=true: not with rlhf_exp describe, only with rlhf_exp"),
        ("output_dir=/dev/null/x", "output_dir=/dev/null/x: cannot be written, /dev/null is not a folder"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(argument, line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = [argument] if argument != "task.path=nope" else ["task.source=file", argument]
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"rlhf_exp describe: {line}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_broken_row_is_named(hh_folder, hh_overrides, tmp_path, capsys):
    file = hh_folder / "helpful-base-test.jsonl"
    file.write_text(file.read_text() + '{"chosen": "no turns", "rejected": 1}\n')
    assert main([*hh_overrides, f"output_dir={tmp_path / 'out'}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"rlhf_exp describe: {file}, line 6: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_crash_is_status_1_with_its_traceback_in_the_folder(hh_overrides, tmp_path, monkeypatch, capsys):
    def crash(cfg, out):
        raise RuntimeError("boom\nmore")

    monkeypatch.setattr("rlhf_exp.describe.__main__.describe", crash)
    assert main([*hh_overrides, f"output_dir={tmp_path / 'out'}"]) == 1
    log = tmp_path / "out" / "error.log"
    assert capsys.readouterr().err == f"rlhf_exp describe: failed: RuntimeError: boom (traceback in {log})\n"
    assert "in crash" in log.read_text()


def test_help_is_short(capsys):
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == USAGE
    assert len(USAGE.splitlines()) < 20
    assert max(map(len, USAGE.splitlines())) <= 120


def test_help_and_refusals_import_no_ml_library():
    code = (
        "import sys; from rlhf_exp.describe.__main__ import main; main(['--help']); main(['task=nope']);"
        "print([name for name in ('torch', 'transformers', 'numpy', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_python_m_gives_the_exit_status():
    done = subprocess.run([sys.executable, "-m", "rlhf_exp.describe", "max_tokens=x"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "rlhf_exp describe: max_tokens=x: must be a whole number >= 1, <= 1000000\n"


COLUMNS = {
    (): [],
    ("answer",): ["task.completion_column=good"],
    ("chosen", "rejected"): ["task.chosen_column=good", "task.rejected_column=bad"],
}


@pytest.mark.parametrize(("answers", "columns"), COLUMNS.items())
def test_rows_of_your_own_need_no_grader(answers, columns, tmp_path, capsys):
    rows = [{"prompt": f"use {i} 2 make {i + 2} .", "good": "yes", "bad": "no no"} for i in range(1, 20)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = ["task=file", f"task.path={tmp_path / 'rows.jsonl'}", f"output_dir={tmp_path / 'out'}"]
    assert main([*named, *columns]) == 0
    assert "19 rows read" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "describe.json").read_text())["answers"] == [*answers]


def test_configs_of_your_own(tmp_path, capsys):
    (tmp_path / "own" / "task").mkdir(parents=True)
    (tmp_path / "own" / "task" / "short.yaml").write_text("defaults: [countdown]\ntrain_rows: 7\n")
    assert main(["-cd", str(tmp_path / "own"), "task=short", "eval.rows=5", f"output_dir={tmp_path / 'out'}"]) == 0
    assert re.search("^train +7 ", capsys.readouterr().out, re.MULTILINE)
