import json

import pytest
from matplotlib.figure import Figure

from rlhf_exp.callbacks.tracking import alert, choose_mode, name_run, track
from rlhf_exp.config.compose import compose_config

NAMES = ("WANDB_MODE", "WANDB_LOG_MODEL", "WANDB_API_KEY", "WANDB_PROJECT", "WANDB_DIR", "TENSORBOARD_LOGGING_DIR")
ACCURACY = {"value": 0.25, "low": 0.2, "high": 0.3}
SMALL = ["eval.rows=4", "task.baselines=false", "eval.cache_dir=null", "device.threads=1", "max_tokens=24"]
SMALL += ["task.train_rows=64", "algo.args.max_steps=2", "algo.args.per_device_train_batch_size=16"]


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch, tmp_path):
    """No key in the environment and none in the home folder; what the test sets is taken back."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that monkeypatch restores what `track` writes
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_X_SERVICE_WAIT", "300")  # seconds; W&B's own 30 are too few on a busy machine
    monkeypatch.setenv("WANDB_INIT_TIMEOUT", "300")


def mode(*overrides):
    return choose_mode(compose_config(overrides))


def test_wandb_is_online_with_a_key_alone_unless_config_or_environment_say_otherwise(monkeypatch, tmp_path):
    assert mode() == "offline"
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password key\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert mode() == "online"
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert mode() == "disabled"
    assert mode("logging.wandb_mode=online") == "online"


def write_run(folder, status="finished"):
    """A run folder with figures, as far as the trackers read it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"status": status, "steps": 6}))
    baseline = {"n": 2, "accuracy": {**ACCURACY, "value": 0.125}}
    sections = {"baseline": baseline, "trained": {"n": 2, "accuracy": ACCURACY}}
    (folder / "evaluation.json").write_text(json.dumps(sections))
    finding = {"name": "kl_drift", "severity": "warning"}
    (folder / "diagnosis.json").write_text(json.dumps({"findings": [finding], "health": "warning"}))


def test_each_job_of_a_sweep_is_one_wandb_run_with_its_config_alerts_results_and_end(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    asked, ended, sent, init, finish = [], [], [], wandb.init, wandb.Run.finish

    def record_finish(run, exit_code=None, **kwargs):
        ended.append((dict(run.summary), exit_code))
        finish(run, exit_code, **kwargs)

    monkeypatch.setattr(wandb, "init", lambda **kwargs: asked.append(kwargs) or init(**kwargs))
    monkeypatch.setattr(wandb.Run, "finish", record_finish)
    monkeypatch.setattr(wandb.Run, "alert", lambda run, **alert: sent.append(alert))
    alert("before", "goes nowhere")
    study = tmp_path / "beta_study"
    study.mkdir()
    (study / "multirun.yaml").write_text("")
    for name, status in (("00_seed-0", "finished"), ("01_seed-1", "failed")):
        cfg = compose_config(["logging=wandb", "run.tags=[x,y]", f"output_dir={study / name}", "max_tokens=7"])
        write_run(study / name)
        with track(cfg, study / name):
            write_run(study / name, status)
            alert("kl_drift at step 40", name)
        assert sent.pop() == {"title": "kl_drift at step 40", "text": name} and not sent
        given, (summary, exit_code) = asked.pop(), ended.pop()
        assert [given[key] for key in ("project", "group", "name", "tags")] == [
            "rlhf_exp", "beta_study", name, ["x", "y"]
        ]  # fmt: skip
        assert given["config"]["algo"]["args"]["max_completion_length"] == given["config"]["max_tokens"] == 7
        assert summary["trained/accuracy"] == 0.25 and summary["baseline/accuracy/low"] == 0.2
        assert summary["findings"] == ["kl_drift"] and summary["status"] == status
        assert exit_code == (0 if status == "finished" else 1)
        assert list((study / name / "wandb").glob("offline-run-*/run-*.wandb"))


def list_media(folder):
    """The files that W&B would send, by kind: html, images, table."""
    [media] = folder.glob("wandb/offline-run-*/files/media")
    return {kind.name: sorted(path for path in kind.rglob("*.*")) for kind in media.iterdir()}


@pytest.mark.parametrize("asked", [False, True])
def test_wandb_gets_the_report_and_its_plots_and_the_model_if_asked(tmp_path, monkeypatch, asked):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    logged = []
    monkeypatch.setattr(wandb.Run, "log_artifact", lambda run, artifact: logged.append(artifact))
    if asked:
        monkeypatch.setenv("WANDB_LOG_MODEL", "end")
    with track(compose_config(["logging=wandb", f"output_dir={tmp_path}"]), tmp_path):
        write_run(tmp_path)
        (tmp_path / "report.html").write_text("<p>the report</p>")
        for name in ("plots", "model"):
            (tmp_path / name).mkdir()
        Figure(figsize=(1, 1)).savefig(tmp_path / "plots" / "reward.png")
        (tmp_path / "model" / "config.json").write_text("{}")
    media = list_media(tmp_path)
    assert media["html"][0].read_text() == "<p>the report</p>"
    assert [path.parent.name for path in media["images"]] == ["plots"]
    assert [(one.type, list(one.manifest.entries)) for one in logged] == [("model", ["config.json"])] * asked


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "rollouts"), [("grpo", 2), ("ppo", 1)])
def test_wandb_gets_a_table_of_each_rollout(tmp_path, command_line, drawn, algo, rollouts):
    pytest.importorskip("wandb", reason="wandb is not installed")
    done = command_line(f"algo={algo}", "logging=wandb", *SMALL, f"output_dir={tmp_path}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    tables = [json.loads(path.read_text()) for path in list_media(tmp_path)["table"]]
    assert len(tables) == rollouts and not done.stderr
    for table in tables:
        columns = ["step", "prompt", "completion", "outcome"]
        assert [name for name in table["columns"] if name != "advantage"][:4] == columns
        assert ("advantage" in table["columns"]) == (algo == "grpo")
        assert table["data"][0][1].startswith("use ")


def test_a_wandb_that_fails_costs_a_line_and_not_the_run(tmp_path, monkeypatch, capsys):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")

    def fail(**settings):
        raise OSError("no space left")

    monkeypatch.setattr(wandb, "init", fail)
    write_run(tmp_path / "a")
    with track(compose_config(["logging=wandb"]), tmp_path / "a"):
        pass
    assert capsys.readouterr().err == "rlhf_exp: W&B: no run was opened (OSError: no space left)\n"


def test_a_run_alone_is_named_by_its_settings_and_names_of_the_user_count(tmp_path):
    assert name_run(compose_config(["seed=3"]), tmp_path / "x") == ("grpo_countdown_tiny_seed-3", None)
    cfg = compose_config(["run.name=mine", "logging.group=ours"])
    assert name_run(cfg, tmp_path / "x") == ("mine", "ours")
    (tmp_path / "multirun.yaml").write_text("")  # now it is a sweep
    assert name_run(compose_config(["run.name=mine"]), tmp_path / "00_seed-0") == ("mine_00_seed-0", tmp_path.name)


@pytest.fixture
def trackio(tmp_path, monkeypatch):
    """Its data are in the test's folder."""
    trackio = pytest.importorskip("trackio", reason="trackio is not installed")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "data"))  # read when trackio is imported
    monkeypatch.setattr(trackio.utils, "TRACKIO_DIR", tmp_path / "data")
    monkeypatch.setattr(trackio.sqlite_storage, "TRACKIO_DIR", tmp_path / "data")
    return trackio


def test_a_trackio_run_has_config_alerts_and_results_and_is_continued(tmp_path, trackio):
    cfg, folder = compose_config(["logging=trackio", "seed=7"]), tmp_path / "grpo" / "today"
    for step in range(2):
        write_run(folder)
        with track(cfg, folder):
            trackio.log({"train/reward": float(step)})
            alert("kl_drift at step 1", "KL rises")
        (folder / "metrics.jsonl").write_text("{}")
    (run,) = trackio.Api().runs("rlhf_exp")
    assert (run.name, run.config["seed"]) == ("grpo/today", 7)
    rows = trackio.sqlite_storage.SQLiteStorage.get_logs("rlhf_exp", run.name, run_id=run.id)
    assert [row["train/reward"] for row in rows if "train/reward" in row] == [0.0, 1.0]
    assert [row["trained/accuracy"] for row in rows if "trained/accuracy" in row] == [0.25, 0.25]
    assert [one["title"] for one in run.alerts()] == ["kl_drift at step 1"] * 2


@pytest.mark.slow
def test_trackio_gets_a_table_of_each_rollout_with_the_figures_of_its_step(tmp_path, trackio, command_line, drawn):
    done = command_line("logging=trackio", *SMALL, f"output_dir={tmp_path / 'run'}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = trackio.Api().runs("rlhf_exp")
    rows = trackio.sqlite_storage.SQLiteStorage.get_logs("rlhf_exp", run.name, run_id=run.id)
    logged = [row for row in rows if "train/completions" in row]
    assert len(logged) == 2 and all("train/reward" in row for row in logged)
    table = logged[0]["train/completions"]["_value"]
    assert list(table[0])[:4] == ["step", "prompt", "completion", "outcome"] and table[0]["prompt"].startswith("use ")
