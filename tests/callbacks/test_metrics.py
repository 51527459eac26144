import pytest
import torch

from rlhf_exp.callbacks.metrics import Probe
from rlhf_exp.models import scoring
from rlhf_exp.models.scoring import completion_logps
from rlhf_exp.models.untrained import build_byte_tokenizer
from tests.building import QUIET, build, build_random, reward_length

ROWS = [([3, 4, 5], [6, 7, 1]), ([3], [8, 9, 10, 11, 1]), ([4, 4], [1])]


def make_model(seed):
    return build_random("qwen3", build_byte_tokenizer(), seed=seed)


def test_the_probe_measures_zero_for_the_start_model_and_the_exact_mean_for_another(monkeypatch):
    start, policy = make_model(0), make_model(1)
    monkeypatch.setattr(scoring, "BATCH_ELEMENTS", 1)  # each row is a batch
    probe = Probe(start, ROWS, max_tokens=100, pad_id=0)
    assert len(probe._batches) == len(ROWS)
    assert probe.measure(start)["probe/kl"] == 0
    with torch.no_grad():
        p, q = completion_logps(policy, ROWS, 0).double(), completion_logps(start, ROWS, 0).double()
    figures = probe.measure(policy)
    assert figures["probe/kl"] == pytest.approx((p.exp() * (p - q)).sum(-1).mean().item(), rel=1e-4)
    assert figures["probe/entropy"] == pytest.approx(-(p.exp() * p).sum(-1).mean().item(), rel=1e-5)


def test_the_probe_keeps_no_more_tokens_than_asked_and_changes_no_random_state():
    start = make_model(0)
    state = torch.get_rng_state()
    probe = Probe(start, ROWS, max_tokens=5, pad_id=0)
    probe.measure(start.train())
    assert sum(len(logps) for logps in probe._start_logps) == 5
    assert start.training and torch.equal(torch.get_rng_state(), state)


def test_the_probe_measures_in_float32_where_training_computes_in_bfloat16(tmp_path):
    start = make_model(0)
    probe = Probe(start, ROWS, max_tokens=100, pad_id=0)
    trainer = build(tmp_path, *QUIET, "device.bf16=true", "reward=outcome", reward=reward_length)
    policy = trainer.accelerator.prepare_model(make_model(0))
    trained_by = policy.forward
    assert completion_logps(policy, ROWS, 0).sub(completion_logps(start, ROWS, 0)).abs().max() > 1e-5
    assert probe.measure(policy)["probe/kl"] == 0 and policy.forward == trained_by
