"""What happens with each job of a study, by what is in its folder."""

import shutil
from dataclasses import asdict

import pytest
from omegaconf import OmegaConf

from rlhf_exp.analysis.study.plan import describe_plan, plan_study
from rlhf_exp.analysis.study.stages import read_study
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.inputs import hash_inputs
from tests.runs.building import leave_run

CHAIN = """
seeds: [0, 1]
stages:
  sft: {options: [algo=sft]}
  grpo: {needs: {model.path: sft/model}, options: [algo=grpo]}
"""


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """What the plan says of each job, by its stage and seed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chain.yaml").write_text(CHAIN)

    def call(*overrides, only=None):
        study = read_study("chain.yaml", overrides)
        found = plan_study(study, only or study.stages)
        assert len(describe_plan(study, only or study.stages, found).splitlines()) >= 3
        return {f"{item.stage} {item.job.seed}": (item.what, item.why) for item in found}

    return call


def leave(stage, seed, status="finished", **more):
    """A run of the study as it would be now, in its folder."""
    study = read_study("chain.yaml", ())
    [item] = [x for x in plan_study(study, study.stages) if (x.stage, x.job.seed) == (stage, str(seed))]
    folder = item.job.folder
    leave_run(folder, status, inputs=hash_inputs(item.config), **more)
    (folder / ".hydra").mkdir()
    (folder / ".hydra" / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(asdict(item.config))))
    if status == "finished":
        shutil.copytree(ASSETS / "tiny", folder / "model", dirs_exist_ok=True)
    return folder


def test_a_new_study_runs_all_and_needs_no_folder_to_check_what_needs_it(plan):
    assert plan() == {
        "sft 0": ("run", "new"), "sft 1": ("run", "new"),
        "grpo 0": ("run", "sft runs first"), "grpo 1": ("run", "sft runs first"),
    }  # fmt: skip


def test_all_problems_of_all_stages_are_said_before_anything_runs(plan):
    with pytest.raises(ConfigError) as refused:
        plan("max_tokens=-3", "eval.rows=0")
    assert [line.partition(":")[0] for line in refused.value.problems] == ["sft", "sft", "grpo", "grpo"]


def test_finished_runs_are_skipped_and_others_resume_or_start_again(plan):
    leave("sft", 0), leave("sft", 1)
    leave("grpo", 0, "stopped", checkpoint=True), leave("grpo", 1, "failed")
    assert plan() == {
        "sft 0": ("skip", "finished"), "sft 1": ("skip", "finished"),
        "grpo 0": ("resume", "was stopped; from checkpoint-1"),
        "grpo 1": ("run", "was failed, without a checkpoint"),
    }  # fmt: skip


def test_changed_settings_run_again_and_so_may_what_needs_them(plan):
    leave("sft", 0), leave("grpo", 0)
    found = plan("seed=0", "algo.args.max_steps=3")
    assert found["sft 0"][0] == "run again" and "algo.args.max_steps=8000, here 3" in found["sft 0"][1]
    assert found["grpo 0"] == ("run or skip", "sft runs first; skipped if that has the same weights")


def test_changed_weights_of_a_needed_run_run_again_what_needs_them(plan):
    folder = leave("sft", 0)
    leave("grpo", 0)
    (folder / "model" / "model.safetensors").write_bytes(b"others")
    found = plan("seed=0")
    assert found["sft 0"] == ("skip", "finished")
    assert found["grpo 0"][0] == "run again" and found["grpo 0"][1].startswith("inputs changed: model.path ")


def test_a_needed_folder_that_was_deleted_is_made_again_and_the_plan_says_for_whom(plan):
    folder = leave("sft", 0)
    leave("grpo", 0)
    shutil.rmtree(folder)
    found = plan("seed=0")
    assert found["sft 0"] == ("run", "its folder is gone, and grpo needs it")
    assert found["grpo 0"][0] == "run or skip"
    with pytest.raises(ConfigError) as refused:
        plan("seed=0", only=["grpo"])
    [line] = refused.value.problems
    assert "outputs/chain/sft/seed-0" in line and "--only" in line
