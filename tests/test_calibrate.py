"""The command that calibrates the diagnosis on a user's own healthy runs."""

import json
from pathlib import Path

import pytest

from rlhf_exp import calibrate
from rlhf_exp.analysis.diagnose import diagnose
from rlhf_exp.analysis.diagnose.calibration import load_calibration
from rlhf_exp.runs.records import Evaluation

CONFIG = {"algo": {"name": "sft", "args": {"learning_rate": 1e-3}}, "task": {"name": "countdown"}}


def list_metrics(growth: float) -> list[dict]:
    return [{"step": step, "loss": 1.0, "grad_norm": 1 + growth * step} for step in range(1, 21)]


def write_run(folder: Path, growth: float) -> None:
    (folder / ".hydra").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"status": "finished", "algo": "sft"}))
    (folder / ".hydra" / "config.yaml").write_text(json.dumps(CONFIG))
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, list_metrics(growth))))


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    for i in range(6):
        write_run(tmp_path / "runs" / f"run-{i}", growth=0.01 * i)
    return tmp_path / "runs"


def test_own_runs_decide_what_flags(healthy, tmp_path):
    out = tmp_path / "own.json.gz"
    assert calibrate.main([str(healthy), "--out", str(out)]) == 0
    own = load_calibration(out)
    assert own.runs == 6
    for growth, flagged in ((0.02, False), (100.0, True)):
        found = diagnose(list_metrics(growth), Evaluation(), CONFIG, calibration=own).findings
        assert any(one.name == "gradient_spike" for one in found) is flagged


def test_too_few_runs_are_refused(healthy, capsys):
    assert calibrate.main([str(healthy / "run-0")]) == 2
    assert "1 of 1 runs are finished trainings; needs at least 4" in capsys.readouterr().err
