"""Which checkpoints cannot be resumed, and in which words. That real ones can: tests/trainers/test_resuming.py."""

import json
from dataclasses import replace
from functools import cache

import pytest

from rlhf_exp import work
from rlhf_exp.checkpoints import staged
from rlhf_exp.config import ConfigError, compose_config
from rlhf_exp.run import run
from rlhf_exp.unfit import WORK, explain_unfit, list_needed

CASES = {
    "grpo": [],
    "lora": ["peft=lora"],
    "adaptive entropy": ["+algo.args.use_adaptive_entropy=true"],
    "a reference that follows": ["+algo.args.sync_ref_model=true"],
    "ppo": ["algo=ppo"],
    "sft": ["algo=sft"],
}


@cache
def configure(*overrides):
    return compose_config(["device=cpu", "algo.args.max_steps=8", *overrides])


def fill(folder, cfg, step=4, in_rollout=False, tokens=100):
    """A checkpoint of empty files, but for those that are read."""
    for names in list_needed(cfg):
        path = folder / names[-1]
        path.parent.mkdir(exist_ok=True)
        path.touch()
    read = {"trainer_state": {"global_step": step, "max_steps": 8}, "progress": {"in_rollout": in_rollout}}
    for name, value in {**read, "work": {"trained_tokens": tokens}}.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


@pytest.mark.parametrize("case", CASES)
def test_each_file_that_a_resumed_run_reads_is_asked_for(tmp_path, case):
    cfg = configure(*CASES[case])
    fill(tmp_path, cfg)
    assert explain_unfit(tmp_path, cfg) is None
    for names in list_needed(cfg):
        (tmp_path / names[-1]).rename(tmp_path / "aside")
        assert explain_unfit(tmp_path, cfg) == f"{names[0]} is missing"
        (tmp_path / "aside").rename(tmp_path / names[-1])


def test_the_state_of_optimizer_schedule_and_randomness_is_always_among_them():
    for overrides in CASES.values():
        names = {names[0] for names in list_needed(configure(*overrides))}
        assert {"optimizer.pt", "scheduler.pt", "rng_state.pth", "progress.json", WORK} <= names
    assert work.FILE == WORK


@pytest.mark.parametrize("overrides", [["algo.args.max_steps=9"], ["algo.args.max_steps=8", "train_tokens=101"]])
def test_a_run_that_ended_within_a_rollout_cannot_be_made_longer(tmp_path, overrides):
    fill(tmp_path, configure(), step=8 if "9" in overrides[0] else 7, in_rollout=True)
    why = "the run ended there within a rollout; leave algo.args.max_steps and train_tokens as they were"
    assert explain_unfit(tmp_path, configure(*overrides)) == why


@pytest.mark.parametrize("overrides", [["algo.args.max_steps=8"], ["algo.args.max_steps=-1"], ["train_tokens=100"]])
def test_a_run_that_ended_within_a_rollout_can_be_measured(tmp_path, overrides):
    fill(tmp_path, configure(), step=7 if "tokens" in overrides[0] else 8, in_rollout=True)
    assert explain_unfit(tmp_path, configure(*overrides)) is None


def test_a_run_without_its_optimizer_is_refused_before_anything_of_it_changes(tmp_path):
    cfg = configure()
    with staged(tmp_path / "checkpoints", "checkpoint-4") as staging:
        (staging / "checkpoint-4").mkdir()
        (fill(staging / "checkpoint-4", cfg) / "optimizer.pt").unlink()
    with pytest.raises(ConfigError) as caught:
        run(replace(cfg, resume=str(tmp_path)), tmp_path)
    assert caught.value.problems == [f"resume={tmp_path}: checkpoint-4 cannot be resumed: optimizer.pt is missing"]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        (
            "save_only_model",
            "no run could be resumed from its checkpoints; leave it out, or use algo.args.save_strategy=no",
        ),
        ("ignore_data_skip", "a resumed run would begin its epoch again; leave it out"),
    ],
)
def test_arguments_that_make_a_resume_inexact_are_refused(argument, problem):
    with pytest.raises(ConfigError) as caught:
        configure(f"+algo.args.{argument}=true")
    assert caught.value.problems == [f"algo.args.{argument}=true: {problem}"]
