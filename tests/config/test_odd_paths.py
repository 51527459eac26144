"""A path that is too long, or no regular file, is one line."""

import os

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


@pytest.mark.parametrize("path", ["pipe", "pipe.jsonl", "/dev/zero"])
@pytest.mark.parametrize("task", ["file", "gsm8k", "brevity", "hh_rlhf"])
def test_rows_are_read_of_regular_files_alone(task, path, command_line, tmp_path):
    for name in ("pipe", "pipe.jsonl"):
        os.mkfifo(tmp_path / name)
    done = command_line(
        "algo=none", f"task={task}", "task.source=file", f"task.path={path}", "dry_run=true", cwd=tmp_path
    )
    assert done.returncode == 2
    assert f"rlhf_exp: task.path={path}: not a regular file; must be " in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("+reward.functions.a=pipe.py:f", "+reward.weights.a=1"), ("task=module", "task.module=pipe.py")],
)  # fmt: skip
def test_code_is_read_of_regular_files_alone(arguments, command_line, tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    done = command_line(*BASE, *arguments, "dry_run=true", cwd=tmp_path)
    assert done.returncode == 2
    assert "pipe.py is not a regular file" in done.stderr
