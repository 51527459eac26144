"""Runs the examples as their users do, with two steps."""

import json
import subprocess
import sys

import pytest

from rlhf_exp.config import ROOT

EXAMPLES = ROOT / "examples"
SHORT = ["algo.args.max_steps=2", "eval.rows=16", "max_tokens=48", "device.threads=1"]


def run(folder, *overrides):
    command = [sys.executable, "-m", "rlhf_exp", *overrides, *SHORT, f"output_dir={folder}", "device=cpu"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="examples are not installed with the package")
def test_own_task(tmp_path):
    finished = run(
        tmp_path / "run", "task=file", "task.path=examples/own_task/rows.jsonl",
        "task.checker=examples/own_task/check.py:grade", 'task.prompt_template="use {a} {b} {c} make {target} ."',
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    evaluation = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert evaluation["baseline"]["n"] == evaluation["trained"]["n"] == 16
    assert sum(evaluation["baseline"]["counts"].values()) == 16 and evaluation["baseline"]["counts"]["partial"] > 0


def test_an_example_is_short():
    files = sorted(EXAMPLES.glob("*/*.py"))
    assert files and all(len(file.read_text().splitlines()) < 40 for file in files)
