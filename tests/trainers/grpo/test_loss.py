"""Loss and gradient of one minibatch against float64 loops: our variants, and TRL's arguments that we leave to it.

The batch is a real rollout of the shipped model; the policy is then moved away from it, so that ratios differ from 1,
clips bind and the KL is not 0. The loops know nothing of padding, masks or means over tensors.
"""

import math

import pytest
import torch

from rlhf_exp.trainers.grpo import set_budget
from tests.trainers.references import assert_same_gradient, copy_float64, move, roll_out

KL = "algo.args.beta=0.5"
HYBRID = ["loss_type=hybrid", "algo.args.hybrid_alpha=0.3"]
ENTROPY = "algo.args.entropy_coef=0.5"
ADAPTIVE = ["+algo.args.use_adaptive_entropy=true", "+algo.args.entropy_coef_delta=0.25"]
DELTA = "+algo.args.delta=1.3"
MASKED = "+algo.args.mask_truncated_completions=true"
OFF_POLICY = "algo.args.num_iterations=2"  # TRL then keeps the log-probabilities of the rollout


@pytest.fixture
def sample(make_trainer):
    """A trainer, a rollout of it, the start model in float64, and the policy moved off it."""

    def make(*overrides):
        seed = "seed=2"  # with which some completions end and others are cut off
        trainer = make_trainer("algo.args.beta=0", OFF_POLICY, seed, *overrides)
        batch = roll_out(trainer, [row for row in list(trainer.train_dataset)[:2] for _ in range(4)])
        start = copy_float64(trainer.model)
        move(trainer.model, 0.3)
        return trainer, batch, start

    return make


def read_rows(trainer, batch):
    """Unpadded rows: (prompt ids, completion ids, ended). The tokens, not the mask, say where a completion ends."""
    rows, eos, pad = [], trainer.eos_token_ids, trainer._tokenizer.pad_token_id
    for prompt, completion in zip(batch["prompt_ids"].tolist(), batch["completion_ids"].tolist(), strict=True):
        ends = [at for at, token in enumerate(completion) if token in eos]
        kept = completion[: ends[0] + 1] if ends else [token for token in completion if token != pad]
        rows.append(([token for token in prompt if token != pad], kept, bool(ends)))
    return rows


def slow_advantages(trainer, rows, scaled=True, limit=math.inf):
    rewards = [float(len(trainer._tokenizer.decode(ids, skip_special_tokens=True)) % 7) for _, ids, _ in rows]
    found = []
    for at in range(0, len(rewards), 4):
        group = rewards[at : at + 4]
        mean = sum(group) / 4
        deviation = math.sqrt(sum((value - mean) ** 2 for value in group) / 3) + 1e-4 if scaled else 1.0
        found += [max(-limit, min(limit, (value - mean) / deviation)) for value in group]
    return found


def slow_tokens(model, rows):
    """For each row, for each token of its completion: log-probability and the entropy there, each with a gradient.
    What was computed before is given back."""
    if isinstance(model, list):
        return model
    found = []
    for prompt, completion, _ in rows:
        logps = model(torch.tensor([prompt + completion])).logits[0].log_softmax(-1)
        places = range(len(prompt) - 1, len(prompt) + len(completion) - 1)
        entropies = [-sum(lp.exp() * lp for lp in [logps[place]]).sum() for place in places]
        found.append([(logps[place, token], h) for place, token, h in zip(places, completion, entropies, strict=True)])
    return found


def slow_loss(
    policy, start, rows, advantages, budget, share, delta=math.inf, beta=0.0, corrected=True, entropy_coef=0.0,
    masked=False,
):  # fmt: skip
    """share x grpo + (1 - share) x dr_grpo; KL a mean over each completion, or as dr_grpo's where share is None."""
    with torch.no_grad():
        before = [[logp for logp, _ in row] for row in slow_tokens(start, rows)]
    total, entropies = 0.0, []
    for (_, ids, ended), tokens, old, advantage in zip(
        rows, slow_tokens(policy, rows), before, advantages, strict=True
    ):
        if masked and not ended:
            continue
        for (logp, entropy), old_logp in zip(tokens, old, strict=True):
            ratio = (logp - old_logp).exp()
            kl = ((old_logp - logp).exp() - (old_logp - logp) - 1) * (ratio if corrected else 1.0)
            clipped = ratio if 0.8 < ratio < 1.2 else 0.8 if ratio < 1 else 1.2
            ratio = ratio if ratio < delta else delta
            gain = ratio * advantage if ratio * advantage < clipped * advantage else clipped * advantage
            mean, constant = 1 / len(ids), 1 / budget
            of_policy = constant if share is None else share * mean + (1 - share) * constant
            of_kl = constant if share is None else mean
            total = total + (of_kl * beta * kl - of_policy * gain) / len(rows)
            entropies.append(entropy)
    return total - entropy_coef * sum(entropies) / len(entropies)


def compare(trainer, batch, expected, policy):
    """Value and gradient, TRL's in float32 and the loops' in float64."""
    trainer.model.zero_grad()
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5, abs=2e-6)
    assert_same_gradient(trainer.model, policy)


CASES = {
    "grpo": (["loss_type=grpo"], {"share": 1.0}),
    "dr_grpo": (["loss_type=dr_grpo"], {"share": None}),
    "dr_grpo by another constant": (
        ["loss_type=dr_grpo", "algo.args.loss_constant=160"],
        {"share": None, "budget": 160},
    ),
    "hybrid": ([*HYBRID], {"share": 0.3}),
    "hybrid by another constant": ([*HYBRID, "algo.args.loss_constant=160"], {"share": 0.3, "budget": 160}),
    "hybrid by budget": (["loss_type=hybrid"], {"share": 40 / 512}),
    "kl penalty": (["loss_type=grpo", KL], {"share": 1.0, "beta": 0.5}),
    "kl penalty without its correction": (
        ["loss_type=grpo", KL, "+algo.args.use_bias_correction_kl=false"],
        {"share": 1.0, "beta": 0.5, "corrected": False},
    ),
    "kl penalty of dr_grpo": (["loss_type=dr_grpo", KL], {"share": None, "beta": 0.5}),
    "kl penalty of hybrid": ([*HYBRID, KL], {"share": 0.3, "beta": 0.5}),
    "entropy bonus": (["loss_type=grpo", ENTROPY], {"share": 1.0, "entropy_coef": 0.5}),
    "two-sided clipping": (["loss_type=grpo", DELTA], {"share": 1.0, "delta": 1.3}),
    "truncated masked": (["loss_type=grpo", MASKED], {"share": 1.0, "masked": True}),
    "truncated masked in hybrid": (
        [*HYBRID, MASKED, KL, ENTROPY, DELTA],
        {"share": 0.3, "masked": True, "beta": 0.5, "entropy_coef": 0.5, "delta": 1.3},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradient_are_those_of_a_slow_float64_loop(sample, name):
    overrides, terms = CASES[name]
    trainer, batch, start = sample(*overrides)
    rows, policy = read_rows(trainer, batch), copy_float64(trainer.model)
    lengths = {len(ids) for _, ids, _ in rows}
    assert len(lengths) > 2 and {ended for *_, ended in rows} == {True, False}, "the test wants uneven completions"
    advantages = slow_advantages(trainer, rows, scaled=terms["share"] is not None)
    compare(trainer, batch, slow_loss(policy, start, rows, advantages, **{"budget": 40, **terms}), policy)


@pytest.mark.parametrize(("loss", "share"), [(["loss_type=grpo"], 1.0), (HYBRID, 0.3)])
def test_clipped_advantages_are_those_of_the_loop_and_are_counted(sample, loss, share):
    trainer, batch, start = sample(*loss, "algo.args.advantage_clip=0.6")
    rows, policy = read_rows(trainer, batch), copy_float64(trainer.model)
    advantages, free = slow_advantages(trainer, rows, limit=0.6), slow_advantages(trainer, rows)
    outside = sum(abs(value) > 0.6 for value in free) / 8
    assert 0 < outside < 1 and trainer._metrics["train"]["advantages/clipped_ratio"] == [outside]
    compare(trainer, batch, slow_loss(policy, start, rows, advantages, 40, share), policy)


def test_the_adaptive_entropy_bonus_begins_with_the_second_step_and_only_below_its_target(sample):
    trainer, batch, start = sample("loss_type=grpo", "+algo.args.entropy_target=100", *ADAPTIVE)
    rows, policy = read_rows(trainer, batch), copy_float64(trainer.model)
    advantages = slow_advantages(trainer, rows)
    for coef in (0.0, 0.25, 0.5):  # each step below the target adds 0.25, for the next one
        policy.zero_grad()
        compare(trainer, batch, slow_loss(policy, start, rows, advantages, 40, 1.0, entropy_coef=coef), policy)
    trainer.args.entropy_target = 0.0
    assert trainer.entropy_coef == 0.75
    policy.zero_grad()
    compare(trainer, batch, slow_loss(policy, start, rows, advantages, 40, 1.0), policy)
    assert trainer.entropy_coef == 0.5


def test_dr_grpos_constant_is_the_stages_budget(sample):
    trainer, batch, start = sample("loss_type=dr_grpo")
    rows, policy = read_rows(trainer, batch), copy_float64(trainer.model)
    set_budget(trainer, 20)
    advantages = slow_advantages(trainer, rows, scaled=False)
    compare(trainer, batch, slow_loss(policy, start, rows, advantages, 20, None), policy)
