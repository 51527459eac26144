from dataclasses import asdict
from pathlib import Path

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.plan import Plan, check_run_folder, plan_job, start_anew
from tests.runs.building import leave_run


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Write a run folder as a run does: its config and its status."""
    monkeypatch.chdir(tmp_path)

    def write(status, *overrides, checkpoint=False):
        config = asdict(compose_config([*overrides, "output_dir=elsewhere"]))
        leave_run(Path("there"), status, checkpoint, config)
        return Path("there")

    return write


def plan(*overrides):
    return plan_job(compose_config(["output_dir=there", "skip_finished=true", *overrides]))


def test_a_folder_without_a_run_is_started_and_a_finished_one_of_the_same_settings_skipped(place):
    assert plan() == Plan.START
    place("finished", "seed=1", "algo.args.learning_rate=3e-5")
    assert plan("seed=1", "algo.args.learning_rate=0.00003", "logging=tensorboard") == Plan.SKIP


def test_other_settings_are_refused_by_name(place):
    place("finished", "seed=1")
    with pytest.raises(ConfigError) as caught:
        plan("seed=2", "eval.rows=500")
    [line] = caught.value.problems
    assert line.startswith("output_dir=there: is a run of other settings (seed=1, here 2, ")
    assert "eval.rows=None, here 500)" in line


@pytest.mark.parametrize("status", ["finished", "failed", "stopped", "running"])
def test_an_unfinished_run_resumes_and_what_may_differ_on_resume_may_differ_in_a_study(place, status):
    place(status, checkpoint=True)
    wanted = Plan.SKIP if status == "finished" else Plan.RESUME
    assert plan("device.threads=1", "algo.args.save_steps=7", "monitor.every_steps=3") == wanted


def test_a_run_started_anew_leaves_nothing_of_the_one_before_but_a_checkpoint_that_is_not_whole(place):
    folder = place("failed", checkpoint=True)
    (folder / "checkpoints" / "checkpoint-1" / "manifest.json").unlink()
    for name in ("samples", "start_model", "plots", "wandb", "tensorboard", "best-4"):
        (folder / name).mkdir()
    (folder / "metrics.jsonl").write_text("{}")
    (folder / "mine.txt").write_text("")
    assert plan() == Plan.START
    start_anew(folder)
    assert sorted(path.name for path in folder.iterdir()) == [".hydra", "checkpoints", "mine.txt"]
    assert (folder / "checkpoints" / "checkpoint-1").is_dir()


def test_what_a_refused_run_or_preflight_alone_has_left_is_replaced(place):
    folder = place("refused", "seed=1")
    assert plan("seed=2") == Plan.START
    (folder / "run.json").write_text('{"status": "finished", "preflight": "only"}')
    assert (plan("seed=1"), plan("seed=1", "preflight=only")) == (Plan.START, Plan.SKIP)


def refuse(*overrides):
    with pytest.raises(ConfigError) as caught:
        compose_config(overrides, [check_run_folder])
    [line] = caught.value.problems
    return line


@pytest.mark.parametrize("status", ["finished", "failed", "running"])
def test_a_run_with_something_to_lose_is_resumed_and_not_overwritten(tmp_path, status):
    leave_run(tmp_path, status, checkpoint=True)
    assert refuse(f"output_dir={tmp_path}").startswith(f"output_dir={tmp_path}: already holds a run; ")
    assert compose_config([f"resume={tmp_path}"], [check_run_folder]).resume == str(tmp_path)


@pytest.mark.parametrize("text", ['{"status": "failed"}', '{"status": "refused"}', '{"sta'])
def test_a_run_that_ended_before_its_first_checkpoint_is_started_anew_where_it_lies(tmp_path, text):
    assert refuse(f"resume={tmp_path}") == f"resume={tmp_path}: not a run's folder, it has no run.json"
    (tmp_path / "run.json").write_text(text)
    assert refuse(f"resume={tmp_path}").startswith(f"resume={tmp_path}: has no checkpoint yet; ")
    assert compose_config([f"output_dir={tmp_path}"], [check_run_folder]).output_dir == str(tmp_path)


def test_a_run_without_a_whole_checkpoint_cannot_be_resumed_and_the_line_says_why(tmp_path):
    leave_run(tmp_path, "failed", checkpoint=True)
    (tmp_path / "checkpoints" / "checkpoint-1" / "manifest.json").unlink()
    why = "checkpoint-1: has no manifest.json: it was cut off"
    assert refuse(f"resume={tmp_path}").startswith(f"resume={tmp_path}: has no checkpoint that is whole ({why}); ")
