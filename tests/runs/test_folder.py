import json
import sys

import numpy as np
import pytest

from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.runs.records import read_metrics

linux = pytest.mark.skipif(sys.platform != "linux", reason="peaks are reset through Linux's /proc")
BLOCK_MB = 400


@linux
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
    assert record["memory_of"] == "run"


TORN = {
    "in the middle": ('{"step": 1, "time_s": 1.0}\n{"step": 2, "ti\n{"step": 3, "time_s": 3.0}\n', [1, 3]),
    "at the end": ('{"step": 1, "time_s": 1.0}\n{"step": 2, "ti', [1]),
    "another value": ('{"step": 1, "time_s": 1.0}\n3\n', [1]),
}


@pytest.mark.parametrize(("text", "steps"), TORN.values(), ids=TORN)
def test_a_torn_line_of_the_metrics_is_left_out_and_said_once(tmp_path, capsys, text, steps):
    path = tmp_path / "metrics.jsonl"
    path.write_text(text)
    for _ in range(2):
        assert [row["step"] for row in read_metrics(path)] == steps
    assert capsys.readouterr().err == f"rlhf_exp: {path}: 1 torn line left out\n"


def test_no_metrics_and_an_empty_file_are_none(tmp_path, capsys):
    assert read_metrics(tmp_path / "metrics.jsonl") == []
    (tmp_path / "metrics.jsonl").write_text("\n\0\0\0\n")
    assert read_metrics(tmp_path / "metrics.jsonl") == []
    assert capsys.readouterr().err == ""


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
