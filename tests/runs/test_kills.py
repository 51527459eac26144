"""A short run of bench/kills.py; the whole of it is twenty kills."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.learning
def test_a_killed_run_resumes_to_the_same_result_whether_or_not_it_was_saving():
    done = subprocess.run(
        [sys.executable, "bench/kills.py", "--kills", "2", "--seed", "5"],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert "2 of 2 reached the same result" in done.stdout, done.stdout + done.stderr
