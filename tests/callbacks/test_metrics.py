import json
from types import SimpleNamespace

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM, TrainerControl, TrainerState

from rlhf_exp.callbacks.metrics import MetricsWriter, Probe
from rlhf_exp.models import scoring
from rlhf_exp.models.scoring import completion_logits, completion_logps

ROWS = [([3, 4, 5], [6, 7, 1]), ([3], [8, 9, 10, 11, 1]), ([4, 4], [1])]


def make_model(seed):
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=16, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


@torch.no_grad()
def test_logits_are_computed_for_no_position_before_the_first_that_predicts_a_completion():
    model, shapes = make_model(0), []
    model.lm_head.register_forward_hook(lambda module, inputs, output: shapes.append(tuple(output.shape)))
    logits = completion_logits(model, [([3] * 40, [5, 1]), ([3] * 38, [6, 7, 8])], pad_id=0)
    assert shapes == [(2, 5, 16)]  # of the 42 positions those from the shorter prompt's last token on
    assert [row.shape for row in logits] == [(2, 16), (3, 16)]


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


def call(writer, step, logs, steps=10):
    state = TrainerState(global_step=step, max_steps=steps, is_world_process_zero=True)
    args = SimpleNamespace(learning_rate=0.1, max_grad_norm=1.0)
    writer.on_log(args, state, TrainerControl(), logs=logs, model=make_model(0))
    return logs


def begin(writer, step=0):
    writer.on_train_begin(None, TrainerState(global_step=step), TrainerControl())


def read(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_metrics_hold_trls_names_and_the_probe_on_its_steps(tmp_path):
    probe = Probe(make_model(0), ROWS, max_tokens=100, pad_id=0)
    writer = MetricsWriter(tmp_path, probe, every_steps=4)
    begin(writer)
    logs = [call(writer, step, {"loss": 0.5, "reward": 0.1 * step}) for step in range(1, 11)]
    rows = read(tmp_path)
    assert [row["step"] for row in rows] == list(range(1, 11))
    assert [row["step"] for row in rows if "probe/kl" in row] == [1, 4, 8, 10]
    assert "probe/kl" in logs[3], "callbacks after this one see the probe's figures"
    assert all(row["time_s"] >= 0 and row["loss"] == 0.5 for row in rows)


def test_a_resumed_run_keeps_the_lines_up_to_its_checkpoint_and_repairs_a_torn_one(tmp_path):
    lines = [f'{{"step": {step}, "time_s": 1.0, "loss": 0.{step}}}' for step in range(1, 6)]
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, '{"st']))
    writer = MetricsWriter(tmp_path, None, every_steps=1)
    begin(writer, step=3)
    call(writer, 4, {"loss": 9.0})
    assert [(row["step"], row["loss"]) for row in read(tmp_path)] == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 9.0)]
