"""The command study: what it refuses, lists and starts, how its process ends, and whole studies of the tiny model."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlhf_exp import pipeline
from rlhf_exp.runs.records import read_record

STEPS = "algo.args.max_steps=4, algo.args.save_steps=1, algo.args.per_device_train_batch_size=8"
CHAIN = f"""
title: sft, then grpo
seeds: [0, 1]
options: [task.baselines=false, preflight=off, eval.rows=8, max_tokens=16]
stages:
  sft: {{options: [algo=sft, {STEPS}]}}
  grpo: {{needs: {{model.path: sft/model}}, options: [algo=grpo, algo.args.num_generations=4, {STEPS}]}}
  alone: {{seeds: [0], options: [algo=none]}}
"""


@pytest.fixture
def study(command_line, tmp_path):
    """Call the command on a study of three stages: (status, stdout, lines on stderr)."""
    (tmp_path / "chain.yaml").write_text(CHAIN)

    def call(*arguments):
        done = command_line("study", *arguments, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr.splitlines()

    return call


def test_without_a_name_it_lists_the_studies(study):
    status, out, _ = study()
    assert status == 0 and {"countdown_loss_x_tokens", "comparison"} <= {line.split()[0] for line in out.splitlines()}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["chain.yaml", "--only", "grp"], "--only grp: no such stage; must be one of sft, alone, grpo; did"),
        (["chain.yaml", "--only", "grpo"], "grpo: model.path: needs the run outputs/chain/sft/seed-0, which has not"),
        (["chian.yaml"], "chian.yaml: no such study; must be one of chain; did you mean chain?"),
        (["chain.yaml", "--report"], "outputs/chain: no run of this study is in it yet"),
        (["chain.yaml", "eval.rows=0"], "alone: eval.rows=0: must be greater than or equal to 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_and_nothing_starts(study, tmp_path, arguments, line):
    status, _, lines = study(*arguments)
    assert status == 2 and any(found.startswith(f"rlhf_exp study: {line}") for found in lines), lines
    assert not (tmp_path / "outputs").exists() or not list(tmp_path.glob("outputs/*"))


def test_a_plan_starts_nothing(study, tmp_path):
    status, out, lines = study("chain.yaml", "--dry-run")
    assert (status, lines, (tmp_path / "outputs").exists()) == (0, [], False)
    assert [line.split()[:3] for line in out.splitlines()[2:5]] == [
        ["sft", "2", "run"], ["alone", "1", "run"], ["grpo", "2", "run"],
    ]  # fmt: skip


def test_claims_that_are_not_there_are_refused_before_anything_runs(study, tmp_path):
    (tmp_path / "chain.yaml").write_text(f"claims: nope{CHAIN}")
    assert study("chain.yaml")[0::2] == (2, ["rlhf_exp study: claims/nope.yaml: no such file"])
    assert not list(tmp_path.glob("outputs/chain/*/*"))


@pytest.mark.slow
def test_a_plan_for_other_hardware_says_what_fits_and_is_refused_if_something_does_not(study):
    there = ["chain.yaml", "--dry-run", "seed=0", "hardware=gpu_24gb", "device=auto"]
    status, out, _ = study(*there)
    assert status == 0 and out.count("  fits: ") == 3
    status, out, lines = study(*there, "hardware.memory_gb=0.001")
    assert status == 2 and out.count("  DOES NOT FIT: ") == 3 and ", MORE than the 0 GB" in lines[0]


def start(folder):
    command = [sys.executable, "-m", "rlhf_exp", "study", "chain.yaml"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])})  # fmt: skip


@pytest.fixture
def finish(command_line):
    """What the whole study prints that is in this folder; its jobs run in this process."""

    def call(folder, *arguments, status=0):
        done = command_line("study", "chain.yaml", "hydra/launcher=basic", *arguments, cwd=folder)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    return call


@pytest.mark.slow
def test_a_signal_stops_the_study_after_its_jobs_and_says_where(study, tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "run", lambda cfg, folder, args: 128 + 15)
    status, out, lines = study("chain.yaml", "hydra/launcher=basic")
    assert status == 143 and out.count("checking") == 1
    assert lines == ["rlhf_exp study: stopped in the stage sft; the same command resumes"]


def read_results(folder):
    """What the runs have come to, by their folders."""
    return {
        str(path.parent.relative_to(folder)): json.loads(path.read_text())["trained"]
        for path in sorted(folder.glob("outputs/chain/[!.]*/*/evaluation.json"))
        if "trained" in json.loads(path.read_text())
    }


@pytest.mark.learning
def test_a_study_ends_alike_after_a_kill_in_each_stage_and_runs_again_what_has_changed(finish, tmp_path):
    whole, killed, chain = tmp_path / "whole", tmp_path / "killed", CHAIN.replace("[0, 1]", "[0]")
    for folder in (whole, killed):
        folder.mkdir()
        (folder / "chain.yaml").write_text(chain)
    finish(whole)
    assert (whole / "outputs" / "chain" / "report.html").is_file()

    for stage in ("sft", "grpo"):
        process = start(killed)
        while not list(killed.glob(f"outputs/chain/{stage}/*/checkpoints/checkpoint-*")):
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.2)
        process.kill()
        process.communicate()
    finish(killed)
    results = read_results(whole)
    assert len(results) == 2 and read_results(killed) == results

    out = finish(whole)
    assert "checking" not in out and out.count("skip  finished") == 3, out

    shutil.rmtree(whole / "outputs" / "chain" / "sft" / "seed-0")  # made again, with the same weights
    assert "its folder is gone, and grpo needs it" in finish(whole, "seed=0")
    assert not (whole / "outputs" / "chain" / ".replaced").exists()

    text = chain.replace("[algo=sft, ", "[algo=sft, algo.args.learning_rate=5e-4, ")
    (whole / "chain.yaml").write_text(text)  # changed upstream: what needs it runs again too
    finish(whole, "seed=0")
    replaced = whole / "outputs" / "chain" / ".replaced"
    assert {path.name for path in replaced.iterdir()} == {"sft", "grpo"}


def read_statuses(folder):
    """The status of each run of the study by its stage and seed."""
    out = folder / "outputs" / "chain"
    return {str(path.parent.relative_to(out)): read_record(path.parent)["status"] for path in out.glob("*/*/run.json")}


@pytest.mark.learning
def test_a_failed_run_stops_what_needs_it_and_nothing_else(finish, tmp_path):
    odd = "+reward.functions.odd=odd.py:odd, +reward.weights.odd=1.0"  # raises in the run of seed 1
    fails = f"algo=grpo, algo.args.num_generations=4, {STEPS}, {odd}"
    (tmp_path / "chain.yaml").write_text(CHAIN.replace(f"algo=sft, {STEPS}", fails))
    raises = "return [0 / (torch.initial_seed() != 1)] * len(prompts)"
    (tmp_path / "odd.py").write_text(f"import torch\n\n\ndef odd(prompts, completions, **_):\n    {raises}\n")
    out = finish(tmp_path, status=1)
    assert "grpo: not started, since these have not finished: outputs/chain/sft/seed-1" in out
    assert "stages that did not succeed: sft, grpo" in out
    assert read_statuses(tmp_path) == {"alone/seed-0": "finished", "sft/seed-0": "finished", "sft/seed-1": "failed"}
    assert (tmp_path / "outputs/chain/report.html").is_file()

    finish(tmp_path, "seed=0")
    assert read_statuses(tmp_path).items() >= {"grpo/seed-0": "finished", "sft/seed-1": "failed"}.items()
    assert "grpo/seed-1" not in read_statuses(tmp_path)

    (tmp_path / "odd.py").write_text("def odd(prompts, completions, **_):\n    return [0.0] * len(prompts)\n")
    finish(tmp_path, "seed=1")  # mended, what failed runs
    assert {*read_statuses(tmp_path).values()} == {"finished"} and "grpo/seed-1" in read_statuses(tmp_path)
