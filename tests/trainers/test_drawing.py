"""Prompts drawn by pass rates: the weights, what they do, the same on every process and after resuming."""

import json

import pytest
import torch
from trl.trainer.utils import RepeatSampler

from rlhf_exp.errors import ConfigError
from rlhf_exp.trainers.drawing import FLOOR, KEPT, PRIOR, SignalOrder, expected_signal
from tests.building import UNTRAINED, build_experiment
from tests.test_processes import start
from tests.trainers import test_resuming as resuming

SIGNAL = ["task.draw=signal", "task.train_rows=8"]


def make_order(rows=6, group=4, batch=2, repeat=1, ahead=1):
    return SignalOrder(RepeatSampler(range(rows), group, batch, repeat, seed=0), ahead)


def test_the_expected_signal_is_that_of_a_beta_distribution():
    """Integrated on a grid, for a row that is mostly right, one that never is, and one without completions."""
    counts = torch.tensor([[7.0, 1.0], [0.0, 8.0], [0.0, 0.0]], dtype=torch.float64)
    a, b = (counts + PRIOR * torch.tensor([7.5, 9.5]) / 17).T[:, :, None]
    p = (torch.arange(2_000_000, dtype=torch.float64) + 0.5) / 2_000_000
    density = torch.exp((a - 1) * p.log() + (b - 1) * (1 - p).log())
    wanted = (density * (1 - p**4 - (1 - p) ** 4)).sum(1) / density.sum(1)
    assert torch.allclose(expected_signal(counts, 4), wanted, atol=2e-3)


def test_rows_without_signal_are_drawn_less_and_still_drawn():
    """Three rows always right, two half right, one never; each rollout has two different rows in groups of four."""
    order, drawn = make_order(), torch.zeros(6)
    for rollout in range(600):
        rows = order.draw(rollout)
        assert len(set(rows)) == 2
        drawn[rows] += 1
        right = {3: [1, 0, 1, 0], 4: [1, 1, 0, 0], 5: [0] * 4}
        order.record(rollout, torch.tensor([right.get(row, [1] * 4) for row in rows]).view(-1).bool())
    assert drawn[3:5].min() > 2 * drawn[[0, 1, 2, 5]].max() and drawn.min() > 20


def test_the_counts_are_discounted_and_the_share_of_mixed_groups_is_logged():
    order = make_order(rows=2)
    rows = order.draw(0)
    figures = order.record(0, torch.tensor([1, 1, 1, 0, 0, 0, 0, 0]).bool())
    prior = expected_signal(torch.zeros(2, 2, dtype=torch.float64), 4)[0].item()
    assert figures == {
        "draw/expected_signal": pytest.approx(prior), "draw/effective_rows": 1.0, "draw/signal": 0.5
    }  # fmt: skip
    rows_1 = order.draw(1)
    order.record(1, torch.ones(8).bool())
    assert {*rows} == {*rows_1} == {0, 1}
    assert order.counts[2][rows[0]].tolist() == [3 * KEPT + 4, KEPT]
    assert FLOOR < expected_signal(order.counts[2], 4).min()


@pytest.mark.parametrize(("repeat", "ahead"), [(1, 1), (4, 0), (1, 4)])
def test_a_rollout_is_drawn_by_the_same_rates_however_early_it_is_asked_for(repeat, ahead):
    """One order is asked only when a rollout is due, the other `ahead` rollouts before, as by the data loader."""
    late, early = make_order(ahead=ahead), make_order(ahead=ahead)
    passed = [torch.rand(8, generator=torch.Generator().manual_seed(i)) < 0.4 for i in range(12)]
    seen = {rollout: early.draw(rollout) for rollout in range(ahead)}
    for rollout in range(12):
        seen[rollout + ahead] = early.draw(rollout + ahead)
        assert late.draw(rollout) == seen[rollout]
        early.record(rollout, passed[rollout])
        late.record(rollout, passed[rollout])
        resumed = make_order(ahead=ahead)
        resumed.restore(json.loads(json.dumps(late.state())))
        assert resumed.draw(rollout + 1) == late.draw(rollout + 1)


def outcome(completions, **columns):
    return [float(len(text) % 3 == 0) for text in completions]


@pytest.mark.parametrize(
    ("overrides", "step"),
    [
        ([*resuming.GRPO_2_X_2, "algo.args.max_steps=14"], 12),
        ([*resuming.GRPO, "algo.args.max_steps=14"], 9),
        ([*resuming.GRPO, "algo.args.per_device_train_batch_size=4", "algo.args.gradient_accumulation_steps=3",
          "+algo.args.steps_per_generation=1", "algo.args.max_steps=9"], 5),
        (["algo=rloo", *resuming.GRPO_2_X_2[1:], "algo.args.max_steps=14"], 12),
    ],
    ids=["grpo, 2 minibatches twice", "grpo", "grpo, 3 rollouts per step", "rloo"],
)  # fmt: skip
def test_a_resumed_run_draws_as_the_uninterrupted_one(tmp_path, monkeypatch, overrides, step):
    monkeypatch.setattr(resuming, "reward", outcome)
    whole = resuming.make(tmp_path, *SIGNAL, *overrides)
    whole.train()
    resumed = resuming.resume(tmp_path, step, *SIGNAL, *overrides)
    resuming.assert_equal(whole, resumed)
    assert whole.order.state() == resumed.order.state()
    assert any("draw/signal" in row for row in resuming.figures(whole))


DRAW = """
import json, sys, torch
from trl.trainer.utils import RepeatSampler
from rlhf_exp import processes
from rlhf_exp.trainers.drawing import SignalOrder

processes.connect(timeout_s=60, use_cpu=True)
order = SignalOrder(RepeatSampler(range(50), 4, 2, 1, seed=processes.rank()), ahead=1)
print(json.dumps([order.draw(rollout) for rollout in range(2)]), flush=True)
processes.barrier()
processes.leave(0)
"""


@pytest.mark.slow
def test_ranks_draw_the_rows_of_rank_0():
    (one, _), (other, _) = start(DRAW, 2)
    assert one == other and len(json.loads(one)) == 2


def test_without_it_the_trainer_has_trls_order(tmp_path):
    trainer = resuming.make(tmp_path, *resuming.GRPO, "task.train_rows=8")
    trainer._get_train_sampler()
    assert trainer.order is None


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["algo=ppo", *SIGNAL], "task.draw=signal: only with grpo and rloo, which compare the completions of a prompt"),
        (["algo=sft", *SIGNAL], "task.draw=signal: only with grpo and rloo, "),
        (["algo=grpo", "task.draw=signal"], "task.draw=signal: a prompt is drawn by its earlier completions, and "),
        (["algo=grpo", *SIGNAL, "reward=graduated"], "task.draw=signal: must know which completions are right; add "),
        (["algo=grpo", "task=brevity", *SIGNAL], "task.draw=signal: must know which completions are right; use a task"),
        (["algo=grpo", *SIGNAL, "+algo.args.dataloader_num_workers=1"], "algo.args.dataloader_num_workers=1: not "),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_by_pass_rates_is_refused_in_one_line(tmp_path, overrides, line):
    with pytest.raises(ConfigError) as caught:
        build_experiment(tmp_path, *UNTRAINED, *overrides)
    [problem] = caught.value.problems
    assert str(problem).startswith(line)
