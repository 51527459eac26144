import json
import sys

import numpy as np
import pytest

from rlhf_exp.runs.folder import RunFolder

BLOCK_MB = 400


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are reset through Linux's /proc")
def test_each_phase_has_a_peak_of_its_own_and_the_run_the_largest(tmp_path):
    folder = RunFolder.create(tmp_path, {"algo": "grpo"})
    with folder.phase("train"):
        np.ones(BLOCK_MB * 125_000)  # float64: the pages are touched, then freed
    with folder.phase("evaluate"):
        pass
    record = json.loads((tmp_path / "run.json").read_text())
    peaks = record["phase_memory_mb"]
    assert peaks["train"] > peaks["evaluate"] + 0.9 * BLOCK_MB
    assert record["peak_memory_mb"] == peaks["train"]


@pytest.mark.parametrize("text", ["", '{"status": "run', "[]", "\0\0"])
def test_a_torn_record_is_as_good_as_none_and_said_so(tmp_path, capsys, text):
    (tmp_path / "run.json").write_text(text)
    folder = RunFolder.create(tmp_path, {"seed": 1})
    assert capsys.readouterr().err == f"rlhf_exp: {tmp_path}/run.json is torn; its seconds and counts begin anew\n"
    assert (folder.record["seconds"], folder.record["seed"]) == ({}, 1)


def test_the_seconds_of_a_phase_are_over_all_starts_also_of_one_that_was_killed_in_it(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    first = RunFolder.create(tmp_path, {})
    with first.phase("load"):
        now[0] += 5
    killed = first.phase("train")
    killed.__enter__()
    now[0] += 90
    first.save()
    now[0] += 2  # nothing is written of the end
    second = RunFolder.create(tmp_path, {})
    with second.phase("load"):
        now[0] += 3
    with second.phase("train"):
        now[0] += 80
    assert json.loads((tmp_path / "run.json").read_text())["seconds"] == {"load": 8, "train": 170}
