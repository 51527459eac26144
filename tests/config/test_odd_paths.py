"""A path that is too long, or no regular file, is one line."""

import os
import re

import pytest

LONG = "x" * 300
BASE = ("algo=none", "task=countdown", "eval.rows=4", "max_tokens=4")


@pytest.mark.parametrize(
    "arguments",
    [
        (f"output_dir={LONG}",), (f"resume={LONG}",), (f"eval.cache_dir={LONG}",), (f"model.path={LONG}",),
        ("reward=model", f"reward.path={LONG}"), (f"+reward.functions.a={LONG}.py:f", "+reward.weights.a=1"),
        ("-cd", LONG),
    ],
)  # fmt: skip
def test_a_name_that_is_too_long_is_one_line(arguments, command_line, tmp_path):
    flags = arguments if arguments[0] == "-cd" else ()
    done = command_line(*flags, *BASE, *(arguments if not flags else ()), "dry_run=true", cwd=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "File name too long" in done.stderr


@pytest.mark.parametrize(
    "typed",
    [
        *(f"task={task} task.source=file task.path=pipe.jsonl" for task in ("file", "gsm8k", "brevity", "hh_rlhf")),
        "task=file task.source=file task.path=/dev/zero", "task=module task.module=pipe.py",
        "task=countdown +reward.functions.a=pipe.py:f +reward.weights.a=1",
    ],
)  # fmt: skip
def test_rows_and_code_are_read_of_regular_files_alone(typed, command_line, tmp_path):
    for name in ("pipe.jsonl", "pipe.py"):
        os.mkfifo(tmp_path / name)
    done = command_line("algo=none", *typed.split(), "dry_run=true", cwd=tmp_path)
    assert done.returncode == 2 and re.search(r"(not|no) a? ?regular file", done.stderr), done.stderr
