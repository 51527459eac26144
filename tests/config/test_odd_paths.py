"""A path that is too long, or no regular file, is one line."""

import os

import pytest

LONG = "x" * 300
TOO_LONG = [
    f"output_dir={LONG}", f"resume={LONG}", f"eval.cache_dir={LONG}", f"model.path={LONG}", f"-cd {LONG}",
    f"reward=model reward.path={LONG}", f"+reward.functions.a={LONG}.py:f +reward.weights.a=1",
]  # fmt: skip
IRREGULAR = [
    *(f"task={task} task.source=file task.path=pipe.jsonl" for task in ("file", "gsm8k", "brevity", "hh_rlhf")),
    "task=file task.source=file task.path=/dev/zero", "task=module task.module=pipe.py",
    "+reward.functions.a=pipe.py:f +reward.weights.a=1", "model.path=piped", "reward=model reward.path=piped",
]  # fmt: skip


@pytest.mark.parametrize("typed", [*TOO_LONG, *IRREGULAR])
def test_an_odd_path_is_one_line(typed, command_line, tmp_path):
    for name in ("pipe.jsonl", "pipe.py"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "piped").mkdir()
    (tmp_path / "piped" / "config.json").write_text("{}")
    os.mkfifo(tmp_path / "piped" / "model.safetensors")
    done = command_line(*typed.split(), "algo=none", "eval.rows=4", "max_tokens=4", "dry_run=true", cwd=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert ("File name too long" if LONG in typed else "regular file") in done.stderr
