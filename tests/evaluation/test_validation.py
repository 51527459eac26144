"""Measurements on validation rows: of other rows than those reported, the same at each step, and the best one kept."""

import json
from dataclasses import replace
from statistics import fmean

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file

from rlhf_exp.evaluation.completions import EvalSet, sample_rows
from rlhf_exp.evaluation.evaluators import Validation
from rlhf_exp.models.loading import load_policy
from tests.building import ROLLOUTS_OF_8, UNTRAINED, load_experiment, read_jsonl

SMALL = [*UNTRAINED, "max_tokens=8", "eval.rows=8", "eval.every=1", "eval.every_rows=16"]


@pytest.fixture
def experiment(tmp_path):
    return load_experiment(tmp_path, *SMALL, "task.train_rows=8", "eval.completions=2")


def test_its_rows_are_neither_trained_on_nor_reported(experiment):
    task = experiment.task
    assert len(task.validation) == 16 and len(task.eval) == 8
    assert not {row["id"] for row in task.validation} & {row["id"] for row in [*task.train, *task.eval]}


def test_each_measurement_has_the_same_random_numbers_and_leaves_torchs_alone(experiment):
    policy, validation = load_policy(experiment.model), Validation(experiment)
    policy.train()
    state = torch.get_rng_state()
    found = [validation.measure(policy, 1) for _ in range(2)]
    assert found[0] == found[1] and torch.equal(torch.get_rng_state(), state) and policy.training
    assert set(found[0].figures) == {"accuracy", "reward", "kl", "mean_tokens", "truncation_rate"}
    assert found[0].id == [row["id"] for row in experiment.task.validation]
    assert {len(values) for values in found[0].figures.values()} == {16}
    assert all(1 <= tokens <= 8 for tokens in found[0].figures["mean_tokens"]) and max(found[0].figures["kl"]) < 1e-6
    assert validation.metric == "validation/accuracy"


@pytest.mark.parametrize("adapter", [False, True])
def test_the_kl_is_that_of_evaluation(adapter, experiment):
    policy = load_policy(experiment.model)
    if adapter:
        policy = get_peft_model(policy, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    trained = {name: weight for name, weight in policy.named_parameters() if weight.requires_grad}
    with torch.no_grad():
        for weight in trained.values():
            weight += 0.1
    start = load_policy(experiment.model)
    of = EvalSet.of(experiment.cfg, experiment.task, experiment.tokenizer)
    draws = replace(of.draws, completions=1, key=("validation", 0))
    found = sample_rows(replace(of, rows=experiment.task.validation, draws=draws), policy, start)
    assert Validation(experiment).measure(policy, 1).figures["kl"] == pytest.approx([one.kl for one in found], abs=1e-5)
    assert max(one.kl for one in found) > 1e-4
    assert list(trained) == [name for name, weight in policy.named_parameters() if weight.requires_grad]


def test_the_best_policy_becomes_the_runs_model(command_line, tmp_path):
    """Nothing is right at 8 tokens, so that the start model, which is the first, is the best."""
    small = [*SMALL, *ROLLOUTS_OF_8["grpo"], "reward=brevity", "algo.args.max_steps=2", "algo.args.save_steps=1"]
    done = command_line(*small, "device=cpu", "eval.best=true", "keep_checkpoints=true", "output_dir=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "run"
    assert not list(run.glob("*best*"))
    assert json.loads((run / "run.json").read_text())["best"]["step"] == 0
    rows = read_jsonl(run / "metrics.jsonl")
    assert [row["step"] for row in rows if "validation/accuracy" in row] == [0, 1, 2]
    kept, last = (load_file(run / folder / "model.safetensors") for folder in ("model", "checkpoints/checkpoint-2"))
    assert any(not torch.equal(kept[name], last[name]) for name in kept)
    assert "the policy of step 0, the best of 3 measurements: accuracy 0.0% on 16 validation rows" in done.stdout
    measured = [(row["step"], row["validation/reward"]) for row in rows if "validation/reward" in row]
    assert [(line["step"], fmean(line["reward"])) for line in read_jsonl(run / "validation.jsonl")] == measured
    assert rows[0]["validation/kl"] == pytest.approx(0, abs=1e-6) and rows[-1]["validation/kl"] > 0
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert evaluation["trained"]["kl"]["mean"]["value"] == pytest.approx(0, abs=1e-6)
