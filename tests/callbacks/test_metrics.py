from types import SimpleNamespace

import pytest
import torch
from transformers import TrainerControl, TrainerState

from rlhf_exp.callbacks.metrics import MetricsWriter, Probe
from rlhf_exp.models import scoring
from rlhf_exp.models.scoring import completion_logits, completion_logps
from rlhf_exp.models.untrained import build_byte_tokenizer
from tests.building import build_random, read_jsonl

ROWS = [([3, 4, 5], [6, 7, 1]), ([3], [8, 9, 10, 11, 1]), ([4, 4], [1])]


def make_model(seed):
    return build_random("qwen3", build_byte_tokenizer(), seed=seed)


@torch.no_grad()
def test_logits_are_computed_for_no_position_before_the_first_that_predicts_a_completion():
    model, shapes = make_model(0), []
    model.lm_head.register_forward_hook(lambda module, inputs, output: shapes.append(tuple(output.shape)))
    logits = completion_logits(model, [([3] * 40, [5, 1]), ([3] * 38, [6, 7, 8])], pad_id=0)
    assert shapes == [(2, 5, 258)]  # of the 42 positions those from the shorter prompt's last token on
    assert [row.shape for row in logits] == [(2, 258), (3, 258)]


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


def test_metrics_hold_trls_names_and_the_probe_on_its_steps(tmp_path):
    policy = make_model(0)
    writer = MetricsWriter(tmp_path, Probe(policy, ROWS, max_tokens=100, pad_id=0), every_steps=4)
    writer.on_train_begin(None, TrainerState(), TrainerControl())
    args, logs = SimpleNamespace(learning_rate=0.1, max_grad_norm=1.0), [{"loss": 0.5} for _ in range(10)]
    for step, given in enumerate(logs, 1):
        state = TrainerState(global_step=step, max_steps=10, is_world_process_zero=True)
        writer.on_log(args, state, TrainerControl(), logs=given, model=policy)
    rows = read_jsonl(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, 11))
    assert [row["step"] for row in rows if "probe/kl" in row] == [1, 4, 8, 10]
    assert "probe/kl" in logs[3], "callbacks after this one see the probe's figures"
    assert all(row["time_s"] >= 0 and row["loss"] == 0.5 for row in rows)
