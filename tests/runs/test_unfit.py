"""Which checkpoints cannot be resumed, and in which words. That real ones can: tests/trainers/test_resuming.py."""

from dataclasses import replace
from functools import cache

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.run import run
from rlhf_exp.runs.checkpoints import WORK, explain_unfit, list_needed, staged

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
    return compose_config(["device=cpu", *overrides])


def fill(folder, cfg):
    """A checkpoint of empty files."""
    for names in list_needed(cfg):
        path = folder / names[-1]
        path.parent.mkdir(exist_ok=True)
        path.touch()
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
