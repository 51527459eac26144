"""Trackers that are installed, without a network: W&B's offline run, trackio's data base, TensorBoard's event files."""

import json
import os
import time
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from rlhf_exp.callbacks.tracking import track
from rlhf_exp.config.compose import compose_config

ACCURACY = {"value": 0.25, "low": 0.2, "high": 0.3}
SMALL = ["eval.rows=4", "task.baselines=false", "eval.cache_dir=null", "device.threads=1", "max_tokens=24"]
SMALL += ["task.train_rows=64", "algo.args.max_steps=2", "algo.args.per_device_train_batch_size=16"]


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch, tmp_path):
    """No key in the environment and none in the home folder; what `track` sets is taken back."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_PROJECT", "WANDB_DIR", "TENSORBOARD_LOGGING_DIR"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_X_SERVICE_WAIT", "300")  # seconds; W&B's own 30 are too few on a busy machine
    monkeypatch.setenv("WANDB_INIT_TIMEOUT", "300")


@pytest.fixture
def wandb():
    return pytest.importorskip("wandb", reason="wandb is not installed")


def write_run(folder, status="finished"):
    """A run folder with figures, as far as the trackers read it."""
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"status": status, "steps": 6}))
    baseline = {"n": 2, "accuracy": {**ACCURACY, "value": 0.125}}
    sections = {"baseline": baseline, "trained": {"n": 2, "accuracy": ACCURACY}}
    (folder / "evaluation.json").write_text(json.dumps(sections))
    finding = {"name": "kl_drift", "severity": "warning"}
    (folder / "diagnosis.json").write_text(json.dumps({"findings": [finding], "health": "warning"}))
    (folder / "report.html").write_text("<p>the report</p>")
    Figure(figsize=(1, 1)).savefig(folder / "plots" / "reward.png")


def list_media(folder):
    """The files that W&B would send, by kind: html, images, table."""
    [media] = folder.glob("wandb/offline-run-*/files/media")
    return {kind.name: sorted(path for path in kind.rglob("*.*")) for kind in media.iterdir()}


def test_each_job_of_a_sweep_is_one_wandb_run_with_its_config_results_report_and_end(tmp_path, monkeypatch, wandb):
    ended, finish = [], wandb.Run.finish

    def record_finish(run, exit_code=None, **kwargs):
        ended.append((run.name, run.group, run.tags, dict(run.summary), run.config["max_tokens"], exit_code))
        finish(run, exit_code, **kwargs)

    monkeypatch.setattr(wandb.Run, "finish", record_finish)
    for name, status in (("00_seed-0", "finished"), ("01_seed-1", "failed")):
        folder, args = tmp_path / "beta" / name, SimpleNamespace()
        cfg = compose_config(["logging=wandb", "run.tags=[x,y]", f"output_dir={folder}", "max_tokens=7"])
        write_run(folder)
        with track(cfg, folder, args):
            assert wandb.run.name == args.run_name == f"beta_{name}"
            write_run(folder, status)
        label, group, tags, summary, max_tokens, exit_code = ended.pop()
        assert (label, group, tags, max_tokens) == (args.run_name, "beta", ("x", "y"), 7) and not ended
        assert summary["trained/accuracy"] == 0.25 and summary["baseline/accuracy/low"] == 0.2
        assert (summary["health"], summary["findings"], exit_code) == ("warning", "kl_drift", int(status == "failed"))
        media = list_media(folder)
        assert media["html"][0].read_text() == "<p>the report</p>"
        assert [path.parent.name for path in media["images"]] == ["plots"] and wandb.run is None


def test_wandb_without_a_key_is_offline_and_a_failure_at_its_end_costs_a_line(tmp_path, monkeypatch, capsys, wandb):
    def fail(run, *args, **kwargs):
        raise OSError("no space left")

    write_run(tmp_path / "a")
    monkeypatch.setattr(wandb.Run, "log", fail)
    with track(compose_config(["logging=wandb"]), tmp_path / "a", SimpleNamespace()):
        pass
    opened, ended = capsys.readouterr().err.splitlines()
    assert opened.startswith("rlhf_exp: W&B: UsageError: No API key") and opened.endswith("; the run is kept offline")
    assert ended == "rlhf_exp: wandb: the results are missing (OSError: no space left)"
    assert wandb.run is None


@pytest.mark.slow
def test_training_is_logged_into_the_same_wandb_run_with_trls_table_of_completions_and_by_tensorboard(
    tmp_path, command_line, drawn, wandb
):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    typed = ["logging.report_to=[wandb,tensorboard]", "+algo.args.log_completions=true"]
    done = command_line(*typed, "algo.args.logging_steps=1", *SMALL, f"output_dir={tmp_path}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in found.Scalars("train/reward")] == [1, 2]
    assert "train/probe/kl" in found.Tags()["scalars"] and "TENSORBOARD_LOGGING_DIR" not in os.environ
    media = list_media(tmp_path)
    tables = [json.loads(path.read_text()) for path in media["table"]]
    assert tables and all({"step", "prompt", "completion", "outcome"} <= {*table["columns"]} for table in tables)
    assert media["images"] and media["html"]
    [log] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    names = (b"train/reward", b"train/probe/kl", b"trained/accuracy", b"train/completions/mean_length")
    end = time.monotonic() + 30  # W&B's own process may still write when ours has ended
    while not all(name in log.read_bytes() for name in names):
        assert time.monotonic() < end
        time.sleep(0.2)
