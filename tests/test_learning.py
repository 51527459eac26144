"""The main job learns: half its steps, all its held-out rows."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_grpo_raises_held_out_accuracy_beyond_its_interval(tmp_path):
    command = [sys.executable, "-m", "rlhf_exp", "algo=grpo", "task=countdown", "device=cpu", "eval.split=validation"]
    done = subprocess.run(
        [*command, "algo.args.max_steps=40", "output_dir=run"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    evaluation = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert evaluation["paired"]["difference"]["low"] > 0.02
    assert evaluation["baseline"]["accuracy"]["high"] < evaluation["trained"]["accuracy"]["value"]
