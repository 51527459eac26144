import json
import sys

import numpy as np
import pytest

from rlhf_exp.run_folder import RunFolder, peak_memory_mb, reset_peak_memory

linux = pytest.mark.skipif(sys.platform != "linux", reason="peaks are reset through Linux's /proc")
BLOCK_MB = 400


def hold_a_block():
    np.ones(BLOCK_MB * 125_000)  # float64: the pages are touched, then freed


@linux
def test_the_peak_falls_once_it_is_reset_and_what_was_held_is_freed():
    hold_a_block()
    before = peak_memory_mb()
    assert reset_peak_memory() is True
    assert peak_memory_mb() < before - 0.9 * BLOCK_MB


@linux
def test_each_phase_has_a_peak_of_its_own_and_the_run_the_largest(tmp_path):
    folder = RunFolder.create(tmp_path, {"algo": "grpo"})
    with folder.phase("train"):
        hold_a_block()
    with folder.phase("evaluate"):
        pass
    record = json.loads((tmp_path / "run.json").read_text())
    peaks = record["phase_memory_mb"]
    assert peaks["train"] > peaks["evaluate"] + 0.9 * BLOCK_MB
    assert record["peak_memory_mb"] == peaks["train"]
    assert record["memory_of"] == "run"


@linux
def test_a_run_does_not_inherit_the_peak_of_the_one_before_it(tmp_path):
    for name in ("first", "second"):
        folder = RunFolder.create(tmp_path / name, {})
        with folder.phase("train"):
            if name == "first":
                hold_a_block()
    first, second = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("first", "second"))
    assert second["peak_memory_mb"] < first["peak_memory_mb"] - 0.9 * BLOCK_MB
