import json
import os
from pathlib import Path

import pytest

from rlhf_exp.callbacks.tracking import choose_mode, name_run, track
from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError

NAMES = ("WANDB_MODE", "WANDB_API_KEY", "WANDB_PROJECT", "WANDB_DIR", "TENSORBOARD_LOGGING_DIR")
ACCURACY = {"value": 0.25, "low": 0.2, "high": 0.3}


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


def scan(data):
    """The records of a .wandb file: 7 bytes of its own, then LevelDB's log of 32 KiB blocks, in which a record is split
    into parts: 4 bytes of checksum, 2 of length, 1 of kind (1 whole, 2 first, 3 middle, 4 last)."""
    assert data[:4] == b":W&B"
    at, record = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield record
            record = b""


def read_offline(folder):
    """What stands in the one offline file of a run: its run record, summary, history and exit code."""
    from wandb.proto import wandb_internal_pb2

    [file] = (folder / "wandb").glob("offline-run-*/run-*.wandb")
    found = {"summary": {}, "history": {}}
    for data in scan(file.read_bytes()):
        record = wandb_internal_pb2.Record.FromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            found["run"] = record.run
        elif kind == "exit":
            found["exit"] = record.exit.exit_code
        elif kind in ("summary", "history"):
            items = record.summary.update if kind == "summary" else record.history.item
            found[kind] |= {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
    return found


def test_each_job_of_a_sweep_is_one_wandb_run_with_its_config_results_and_end(tmp_path):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    study = tmp_path / "beta_study"
    study.mkdir()
    (study / "multirun.yaml").write_text("")
    ends = {"00_seed-0": "finished", "01_seed-1": "failed"}
    for name, status in ends.items():
        cfg = compose_config(["logging=wandb", "run.tags=[x,y]", f"output_dir={study / name}", "max_tokens=7"])
        write_run(study / name)
        with track(cfg, study / name):
            write_run(study / name, status)
    wandb.teardown()  # its service brings the files to the disk when it ends
    for name, status in ends.items():
        found = read_offline(study / name)
        run = found["run"]
        assert (run.project, run.run_group, run.display_name, list(run.tags)) == (
            "rlhf_exp", "beta_study", name, ["x", "y"],
        )  # fmt: skip
        config = {item.key: json.loads(item.value_json) for item in run.config.update}
        assert (config["max_tokens"], config["algo"]["args"]["max_completion_length"]) == (7, 7)
        assert found["summary"]["trained/accuracy"] == 0.25 and found["summary"]["baseline/accuracy/low"] == 0.2
        assert found["summary"]["findings"] == ["kl_drift"] and found["summary"]["status"] == status
        assert found["exit"] == (0 if status == "finished" else 1)


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


def test_jobs_of_a_sweep_with_one_name_are_told_apart(tmp_path):
    (tmp_path / "multirun.yaml").write_text("")
    cfg = compose_config(["run.name=mine"])
    assert name_run(cfg, tmp_path / "00_seed-0") == ("mine_00_seed-0", tmp_path.name)


def refuse(override):
    with pytest.raises(ConfigError) as caught:
        compose_config([override])
    [line] = caught.value.problems
    return line


@pytest.mark.parametrize(
    ("name", "near"),
    [("'my run'", "my-run"), ("../up", "up"), ("a/b", "a-b"), ("-x", "x"), ("'größe'", "gr-e"), ("x" * 101, "x" * 100)],
)
def test_a_name_that_is_no_safe_folder_is_refused_with_the_nearest_that_is(name, near):
    assert refuse(f"run.name={name}").endswith(f"; did you mean {near}?")


@pytest.mark.parametrize(
    "override",
    ["run.tags=['']", "run.tags=x", "run.tags=[a,b,a]", f"run.tags=[{'x' * 65}]", f"logging.group={'x' * 129}"],
)
def test_labels_that_wandb_refuses_are_refused_first(override):
    assert refuse(override).startswith(override.partition("=")[0])


def test_tensorboard_gets_the_held_out_figures(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write_run(tmp_path)
    with track(compose_config(["logging=tensorboard"]), tmp_path):
        assert Path(os.environ["TENSORBOARD_LOGGING_DIR"]) == tmp_path / "tensorboard"
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    [event] = events.Scalars("held_out/trained/accuracy")
    assert (event.step, event.value) == (6, 0.25)
