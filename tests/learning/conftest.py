"""Every algorithm learns: few steps, held-out rows, the shipped model and one that was trained on stories."""

import json
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    return tmp_path_factory.mktemp("learning")


@pytest.fixture
def learn(workplace):
    """evaluation.json of one run; runs in one folder share what they sample from the start model."""

    def run(name, *overrides):
        command = [sys.executable, "-m", "rlhf_exp", "device=cpu", "eval.split=validation", *overrides]
        done = subprocess.run([*command, f"output_dir={name}"], cwd=workplace, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads((workplace / name / "evaluation.json").read_text())

    return run
