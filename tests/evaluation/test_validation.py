"""Measurements on validation rows: of other rows than those reported, the same at each step, and the best one kept."""

import json

import pytest
import torch
from safetensors.torch import load_file

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation.validation import Validation
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import load_policy, load_tokenizer, resolve_model
from rlhf_exp.rewards import build_rewards
from rlhf_exp.tasks import load_task

SMALL = ["model=tiny_untrained", "model.init.hidden_size=32", "model.init.num_hidden_layers=1", "max_tokens=8",
         "eval.rows=8", "eval.every=1", "eval.every_rows=16", "device=cpu"]  # fmt: skip


@pytest.fixture
def experiment(tmp_path):
    cfg = compose_config([*SMALL, "task.train_rows=8", "eval.completions=2"])
    source = resolve_model(cfg, tmp_path)
    tokenizer = load_tokenizer(source)
    task = load_task(cfg, tokenizer)
    return Experiment(cfg, None, source, tokenizer, task, build_rewards(cfg, task))


def test_its_rows_are_neither_trained_on_nor_reported(experiment):
    task = experiment.task
    assert len(task.validation) == 16 and len(task.eval) == 8
    assert not {row["id"] for row in task.validation} & {row["id"] for row in [*task.train, *task.eval]}


def test_each_measurement_has_the_same_random_numbers_and_leaves_torchs_alone(experiment):
    policy, validation = load_policy(experiment.model), Validation(experiment)
    policy.train()
    state = torch.get_rng_state()
    found = [validation.measure(policy) for _ in range(2)]
    assert found[0] == found[1] and torch.equal(torch.get_rng_state(), state) and policy.training
    assert set(found[0]) == {f"validation/{name}" for name in ("accuracy", "reward", "mean_tokens", "truncation_rate")}
    assert 1 <= found[0]["validation/mean_tokens"] <= 8
    assert validation.metric == "validation/accuracy"


def test_the_best_policy_becomes_the_runs_model(command_line, tmp_path):
    """Nothing is right at 8 tokens, so that the start model, which is the first, is the best."""
    small = [
        "reward=brevity",
        "algo.args.per_device_train_batch_size=8",
        "algo.args.num_generations=4",
        "algo.args.max_steps=2",
    ]
    done = command_line(*SMALL, *small, "eval.best=true", "algo.args.save_steps=1", "output_dir=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "run"
    assert not list(run.glob("*best*"))
    assert json.loads((run / "run.json").read_text())["best"]["step"] == 0
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "validation/accuracy" in row] == [0, 1, 2]
    kept, last = (load_file(run / folder / "model.safetensors") for folder in ("model", "checkpoints/checkpoint-2"))
    assert any(not torch.equal(kept[name], last[name]) for name in kept)
    assert "the policy of step 0, the best of 3 measurements: accuracy 0.0% on 16 validation rows" in done.stdout
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert evaluation["trained"]["kl"]["mean"]["value"] == pytest.approx(0, abs=1e-6)
