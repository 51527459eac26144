"""The file of a study: its mistakes, the order of its stages, and their jobs."""

from pathlib import Path

import pytest

from rlhf_exp.analysis.study.stages import list_studies, read_study
from rlhf_exp.errors import ConfigError

CHAIN = """
# Whether a chain works.
#   make study-chain
title: A chain
seeds: [0, 1]
options: [task.baselines=false]
stages:
  grpo:
    needs: {reward.path: reward_model, model.path: sft/model}
    options: [algo=grpo, 'algo.args.beta=0.02,0.05']
  reward_model:
    seeds: [7]
    options: [algo=reward_model]
  sft:
    options: [algo=sft]
"""


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Read a study by the text of its file."""
    monkeypatch.chdir(tmp_path)

    def call(text, *overrides, out=None):
        Path("chain.yaml").write_text(text.lstrip())
        return read_study("chain.yaml", overrides, out)

    return call


def test_stages_run_after_those_that_they_need(read):
    study = read(CHAIN)
    assert list(study.stages)[2] == "grpo" and set(study.stages) == {"sft", "reward_model", "grpo"}
    assert (study.title, study.asks, study.out) == ("A chain", "Whether a chain works.", Path("outputs/chain"))


def test_a_job_needs_the_runs_of_its_seed_or_the_only_one(read):
    jobs = read(CHAIN).stages["grpo"].jobs
    assert [(job.arm, job.seed, job.folder.name) for job in jobs] == [
        (f"grpo algo.args.beta={beta}", seed, f"algo.args.beta-{beta}_seed-{seed}")
        for beta in ("0.02", "0.05") for seed in "01"
    ]  # fmt: skip
    assert [sorted(map(str, job.needs.values())) for job in jobs[:2]] == [
        ["outputs/chain/reward_model/seed-7", f"outputs/chain/sft/seed-{seed}"] for seed in "01"
    ]
    options = read(CHAIN, out="there").stages["grpo"].options
    assert {'reward.path="there/reward_model/seed-7"', 'model.path="there/sft/seed-${seed}/model"'} <= {*options}


def test_what_is_typed_follows_the_options_and_keeps_the_folders(read):
    stages = read(CHAIN, "seed=1", "algo.args.beta=0.05", "hydra/launcher=basic", "task.baselines=true").stages
    [job] = stages["grpo"].jobs
    assert (job.arm, str(job.folder)) == ("grpo algo.args.beta=0.05", "outputs/chain/grpo/algo.args.beta-0.05_seed-1")
    assert [job.seed for job in stages["reward_model"].jobs] == ["7"]
    assert stages["sft"].options[:4] == [
        "hydra/launcher=basic", "skip_finished=true", "hydra.sweep.dir=outputs/chain/sft", "task.baselines=true",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("stages: {a: {needs: {model.path: b}}, b: {needs: {model.path: a}}}", "stages: a circle, a needs b needs a"),
        ("stages: {sft: {}, b: {needs: {model.path: sftt}}}", "stages.b.needs: no stage sftt; must be one of sft, b;"),
        ("stages: {a: {nedds: {}}}",
         "stages.a.nedds: no such key; must be one of needs, seeds, options, apart, against; did"),
        ("titel: x\nstages: {a: {}}", "titel: no such key; must be one of title, claims, pictures, seeds, options, st"),
        ("pictures: [gain]\nstages: {a: {}}", "pictures: must be one of gains, frontier, learning, "),
        ("seeds: []\nstages: {a: {}}", "seeds: must name at least one"),
        ("stages: {../a: {}}", "stages.../a: must be a folder's name"),
        ("stages: {}", "has neither stages:, as a study, nor defaults:, as a sweep"),
        ("stages: {a: {options: ['seed=0', 'eval.rows=1,2']}, b: {needs: {model.path: a}}}",
         "stages.b.needs.model.path: a has 6 runs, which differ in more than the seed"),
        ("stages: {a: {seeds: [0, 1]}, b: {needs: {model.path: a}}}", "stages.b.needs.model.path: seed=2 is none of"),
        ("stages: {a: {options: ['eval.rows=1,2'], against: a eval.rows=3}}",
         "stages.a.against: no arm is called 'a eval.rows=3'; did you mean a eval.rows="),
        ("stages: [", "not valid YAML (while parsing a flow node did not find"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_one_line(read, text, line):
    with pytest.raises(ConfigError) as refused:
        read(text)
    [problem] = refused.value.problems
    assert problem.startswith("chain.yaml") and line in problem


@pytest.mark.parametrize("text", ["output_dir=x", "dry_run=true", "resume=x", "algo.args.hub_token=x"])
def test_what_a_study_does_not_take_is_refused(read, text):
    with pytest.raises(ConfigError) as refused:
        read(CHAIN, text)
    assert len(refused.value.problems) == 1


def test_a_sweep_of_hydra_is_a_study_of_one_stage_in_its_own_folders():
    study = read_study("countdown_loss_x_tokens", ["loss_type=grpo", "max_tokens=32", "seed=1"])
    assert study.command == f"python -m rlhf_exp study {study.file.stem} loss_type=grpo max_tokens=32 seed=1"
    [stage] = study.stages.values()
    [job] = stage.jobs
    folder = "outputs/countdown_loss_x_tokens/loss_type-grpo_max_tokens-32_seed-1"
    assert (stage.config, str(job.folder), job.arm) == (study.file.stem, folder, "loss_type=grpo max_tokens=32")


def test_every_study_has_a_title_and_its_jobs():
    studies = list_studies()
    assert all(studies.values())
    for name in studies:
        study = read_study(name)
        folders = [job.folder for stage in study.stages.values() for job in stage.jobs]
        assert len(set(folders)) == len(folders) and all(folder.is_relative_to(study.out) for folder in folders)
