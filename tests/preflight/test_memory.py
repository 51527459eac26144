"""The estimate against what is free, and the step of the longest rows."""

import copy
import json
from dataclasses import asdict

import pytest
import torch

from rlhf_exp import pipeline
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.errors import ConfigError
from rlhf_exp.preflight import describe_check, memory
from rlhf_exp.preflight.memory import check_memory, try_longest_step
from rlhf_exp.trainers import build_trainer
from tests.building import QUIET, UNTRAINED
from tests.preflight.test_first_steps import PROMPTS, make


def test_what_does_not_fit_is_refused_with_what_needs_less(tmp_path, monkeypatch):
    experiment = make(tmp_path, "grpo", "eval.every=null")
    fits = check_memory(experiment)
    assert fits.status == "passed" and fits.remedy == []
    peak = fits.figures["needed"]
    for free, status in ((0.9 * peak, "warned"), (0.5 * peak, "failed")):
        monkeypatch.setattr(memory, "find_memory", lambda cfg, free=free: (free, "the memory of a test"))
        check = check_memory(experiment)
        assert check.status == status
    assert "of the memory of a test" in check.evidence
    assert describe_check(check, asdict(experiment.cfg))["remedy"] == check.remedy[0]


@pytest.mark.parametrize("algo", ["sft", "dpo", "grpo", "ppo"])
def test_the_longest_step_leaves_everything_as_it_was(tmp_path, algo):
    experiment = make(tmp_path, algo)
    trainer = build_trainer(experiment)
    trainer._metrics["train"]["kept"].append(1.0)
    weights = copy.deepcopy(trainer.model.state_dict())
    random, attributes = torch.get_rng_state(), dict(vars(trainer))
    rows = []
    trainer.model.get_input_embeddings().register_forward_pre_hook(lambda module, args: rows.append(args[0].shape))
    check = try_longest_step(trainer, experiment)
    assert check.status == "passed" and rows
    if experiment.cfg.algo.row.online:
        longest = max(len(trainer._tokenizer(row["prompt"]).input_ids) for row in PROMPTS)
        parts = (longest - 1, 17) if algo == "grpo" else (longest + 16,)  # GRPO computes prompts by themselves
        assert {shape[1] for shape in rows} == {*parts} and len({shape[0] for shape in rows}) == 1
    assert torch.equal(torch.get_rng_state(), random)
    assert all(p.grad is None for p in trainer.model.parameters())
    assert all(torch.equal(weights[name], value) for name, value in trainer.model.state_dict().items())
    assert vars(trainer) == attributes and trainer._metrics["train"] == {"kept": [1.0]}


def test_a_step_that_runs_out_of_memory_says_what_to_change(tmp_path, monkeypatch):
    experiment = make(tmp_path, "dpo")
    trainer = build_trainer(experiment)

    def run_out(*args, **kwargs):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(trainer, "compute_loss", run_out)
    check = try_longest_step(trainer, experiment)
    assert check.status == "failed" and "a step of 8 of the longest rows does not fit" in check.evidence
    half = "algo.args.per_device_train_batch_size=4 algo.args.gradient_accumulation_steps=2"
    assert check.remedy[:2] == ["algo.args.activation_checkpointing=true", half]


@pytest.mark.parametrize("algo", ["grpo", "reward_model", "none"])
def test_a_run_that_does_not_fit_is_refused_before_anything_is_sampled_or_measured(tmp_path, monkeypatch, algo):
    def refuse(*args):
        raise AssertionError("something was sampled or measured")

    for name in ("sample", "PolicyEvaluator", "ScorerEvaluator"):
        monkeypatch.setattr(pipeline, name, refuse)
    monkeypatch.setattr(memory, "find_memory", lambda cfg: (1000, "the memory of a test"))
    cfg = compose_config([*UNTRAINED, *QUIET, f"algo={algo}", "eval.rows=8", f"output_dir={tmp_path / 'run'}"])
    with pytest.raises(ConfigError, match="^preflight, memory: .* of the memory of a test.*preflight=off"):
        pipeline.run(cfg, tmp_path / "run", build_args(cfg))
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "refused"
