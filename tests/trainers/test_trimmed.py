"""Passes without padding against TRL's own pass on the same batch: figures, gradients, metrics, whole steps."""

from functools import partial

import pytest
import torch
from trl import GRPOTrainer, RLOOTrainer

from rlhf_exp.trainers import trimmed
from rlhf_exp.trainers.trimmed import score_trimmed
from tests.building import QUIET, build

LENGTHS = [(3, 6), (5, 1), (1, 4), (4, 0), (2, 3), (5, 9), (3, 2), (1, 1), (2, 9), (5, 4)]
"""Tokens of the prompt and of the completion of each row; one completion is masked, as `mask_truncated_completions`
masks those that were cut off."""

BUDGET = 9
ROWS_IN_CHUNK = 3
SMALL = [*QUIET, "reward=outcome", f"max_tokens={BUDGET}", f"algo.args.per_device_train_batch_size={len(LENGTHS)}"]
METHOD = "_get_per_token_logps_and_entropies"


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(trimmed, "CHUNK_TOKENS", ROWS_IN_CHUNK * BUDGET)


def reward(completions, **columns):
    return [float(len(text) % 7) for text in completions]


@pytest.fixture
def make(tmp_path):
    """A trainer; random weights are made large enough that a wrong position or neighbour shows."""

    def build_moved(algo, model, *overrides):
        named = [*SMALL, f"algo={algo}", f"model={model}", *overrides]
        if algo != "ppo":
            named += ["algo.args.num_generations=2"]
        rows = [{"id": str(i), "prompt": f"use {i + 2} 7 3 make 53 ." + " use" * (i % 3)} for i in range(16)]
        trainer = build(tmp_path, *named, rows=rows, reward=reward)
        torch.manual_seed(0)
        for network in (trainer.model, trainer.ref_model):
            for parameter in network.parameters() if network is not None and model != "tiny" else ():
                if parameter.dim() > 1:
                    parameter.data = 4.0 * parameter + 0.02 * torch.randn_like(parameter)
        trainer.current_gradient_accumulation_steps = 1
        trainer.model.train()
        return trainer

    return build_moved


def make_batch(vocabulary):
    """As a rollout leaves it: prompts padded on the left, completions on the right."""
    generator = torch.Generator().manual_seed(1)
    left, width = (max(lengths) for lengths in zip(*LENGTHS, strict=True))
    prompt_mask = torch.tensor([[0] * (left - p) + [1] * p for p, _ in LENGTHS])
    completion_mask = torch.tensor([[1] * c + [0] * (width - c) for _, c in LENGTHS])
    ids = torch.randint(3, vocabulary, (len(LENGTHS), left + width), generator=generator)
    draw = partial(torch.randn, len(LENGTHS), width, generator=generator)
    return {
        "prompt_ids": ids[:, :left] * prompt_mask,
        "prompt_mask": prompt_mask,
        "completion_ids": ids[:, left:],
        "completion_mask": completion_mask,
        "advantages": draw()[:, 0],
        "ref_per_token_logps": -3.0 + 0.1 * draw(),
        "num_items_in_batch": completion_mask.sum(),
    }


def join(batch):
    ids, mask = (torch.cat([batch[f"prompt_{part}"], batch[f"completion_{part}"]], 1) for part in ("ids", "mask"))
    return ids, mask, batch["completion_ids"].shape[1]


def read_gradients(trainer):
    return {name: p.grad.clone() for name, p in trainer.model.named_parameters() if p.grad is not None}


def assert_close(found, wanted, tolerance=2e-5):
    """Up to the rounding of float32, by the size of the largest entry."""
    scale = max(wanted.abs().max().item(), 1e-6)
    assert (found - wanted).abs().max().item() < tolerance * scale


def compare_gradients(found, wanted):
    assert found.keys() == wanted.keys() and found
    joined = [torch.cat([gradients[name].flatten() for name in wanted]) for gradients in (found, wanted)]
    assert (joined[0] - joined[1]).norm() < 1e-4 * joined[1].norm()


@pytest.mark.parametrize(("algo", "model"), [("grpo", "tiny_gpt2"), ("grpo", "tiny_qwen3"), ("rloo", "tiny_gpt2")])
def test_figures_and_gradients_of_policy_and_reference_are_those_of_trls_pass(make, algo, model):
    trainer = make(algo, model, "algo.args.beta=0.1")
    trls = partial({"grpo": GRPOTrainer, "rloo": RLOOTrainer}[algo]._get_per_token_logps_and_entropies, trainer)
    batch = join(make_batch(trainer.model.config.vocab_size))
    with torch.no_grad():
        for batch_size in (None, 2):
            logps, *nothing = trainer._get_per_token_logps_and_entropies(trainer.ref_model, *batch, batch_size)
            assert_close(logps, trls(trainer.ref_model, *batch)[0])
            assert nothing == [None, None]
    weights = torch.randn(2, len(LENGTHS), BUDGET, generator=torch.Generator().manual_seed(2))
    gradients = []
    for score in (getattr(trainer, METHOD), trls):
        trainer.model.zero_grad()
        logps, entropies, _ = score(trainer.model, *batch, compute_entropy=True)
        (weights[0] * logps + weights[1] * entropies).sum().backward()
        gradients.append(({"logps": logps.detach(), "entropies": entropies.detach()}, read_gradients(trainer)))
    for name, figure in gradients[1][0].items():
        assert_close(gradients[0][0][name], figure)
        assert gradients[0][0][name].abs().max() > 1
        assert not gradients[0][0][name][batch[1][:, -BUDGET:] == 0].any(), "0 at padding, as TRL has it"
    compare_gradients(gradients[0][1], gradients[1][1])


@pytest.mark.parametrize(
    ("model", "overrides"),
    [
        ("tiny_gpt2", ["algo.args.beta=0.3", "algo.args.entropy_coef=0.1"]),
        ("tiny_qwen3", ["+algo.args.importance_sampling_level=sequence", "loss_type=dr_grpo"]),
        ("tiny_gpt2", ["algo.args.activation_checkpointing=true", "+algo.args.top_entropy_quantile=0.5"]),
        (
            "tiny_qwen3",
            ["peft=lora", "algo.args.beta=0.3", "loss_type=dapo", "algo.args.activation_checkpointing=true"],
        ),
    ],
    ids=["kl-entropy", "sequence", "checkpointing", "lora"],
)
def test_a_loss_its_gradient_and_its_metrics_are_those_of_trls_pass(make, monkeypatch, model, overrides):
    trainer = make("grpo", model, *overrides)
    batch = make_batch(trainer.model.config.vocab_size)
    found = []
    for own in (False, True):
        if own:
            monkeypatch.setattr(trainer, METHOD, partial(GRPOTrainer._get_per_token_logps_and_entropies, trainer))
        trainer.model.zero_grad()
        trainer._metrics["train"].clear()
        loss = trainer._compute_loss(trainer.model, batch)
        loss.backward()
        figures = {name: values[-1] for name, values in trainer._metrics["train"].items()}
        found.append((loss.item(), read_gradients(trainer), figures))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-4, abs=1e-5)
    compare_gradients(found[0][1], found[1][1])
    assert found[0][2] == pytest.approx(found[1][2], rel=1e-4, abs=1e-5, nan_ok=True)


def test_steps_with_accumulation_end_at_the_weights_of_trls_pass(make, monkeypatch):
    """Rollouts of the shipped model, scored by policy and reference, in minibatches and two passes over each; plain
    gradient descent, since Adam blows up the sign of a gradient that is nearly 0."""
    monkeypatch.setattr(trimmed, "CHUNK_TOKENS", 2 * 40)
    weights, logs, names = [], [], ("loss", "reward", "kl", "entropy", "grad_norm", "completions/mean_length")
    for own in (False, True):
        trainer = make(
            "grpo", "tiny", "max_tokens=40", "algo.args.beta=0.1", "algo.args.per_device_train_batch_size=4",
            "algo.args.gradient_accumulation_steps=2", "+algo.args.steps_per_generation=4", "algo.args.max_steps=4",
            "algo.args.num_iterations=2", "+algo.args.optim=sgd", "algo.args.learning_rate=0.01",
        )  # fmt: skip
        if own:
            monkeypatch.setattr(trainer, METHOD, partial(GRPOTrainer._get_per_token_logps_and_entropies, trainer))
        start = torch.cat([p.detach().flatten().clone() for p in trainer.model.parameters()])
        trainer.train()
        weights.append(torch.cat([p.detach().flatten() for p in trainer.model.parameters()]) - start)
        logs.append([{name: row[name] for name in names if name in row} for row in trainer.state.log_history[:-1]])
    assert len(logs[0]) == 4 and weights[1].norm() > 0
    assert (weights[0] - weights[1]).norm() < 1e-3 * weights[1].norm()
    for found, wanted in zip(*logs, strict=True):
        assert found == pytest.approx(wanted, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("critic", ["shared", "separate"])
def test_values_of_a_critic_are_those_of_the_unpadded_rows(make, critic):
    trainer = make("ppo", "tiny_gpt2", f"algo.critic={critic}")
    batch = make_batch(trainer.model.config.vocab_size)
    ids, mask, width = join(batch)
    torch.nn.init.normal_(next(p for n, p in reversed(list(trainer.critic.named_parameters())) if p.dim() > 1))
    trainer._score(batch)
    values = trainer._value(batch)
    assert values.shape == (len(LENGTHS), width) and not values[batch["completion_mask"] == 0].any()
    for row, (p, c) in enumerate(LENGTHS):
        tokens = ids[row][mask[row].bool()][None]
        if critic == "shared":
            alone = trainer.critic(trainer.model.base_model(input_ids=tokens).last_hidden_state)
        else:
            alone = trainer.critic(tokens, torch.ones_like(tokens))
        if c:
            assert_close(values[row, :c], alone[0, p - 1 : p + c - 1], 1e-4)


def test_a_shared_critic_gets_the_gradient_of_one_pass_over_all_rows(make, monkeypatch):
    trainer = make("ppo", "tiny_qwen3")
    torch.nn.init.normal_(trainer.critic.score.weight)
    batch = make_batch(trainer.model.config.vocab_size)
    weights = torch.randn(len(LENGTHS), BUDGET, generator=torch.Generator().manual_seed(2)) * batch["completion_mask"]
    gradients = []
    for tokens in (ROWS_IN_CHUNK * BUDGET, len(LENGTHS) * BUDGET):
        monkeypatch.setattr(trimmed, "CHUNK_TOKENS", tokens)
        trainer.model.zero_grad()
        trainer._passes = []
        logps = trainer._score(batch)
        (weights * (logps + trainer._value(batch))).sum().backward()
        gradients.append(read_gradients(trainer))
    assert any(name.startswith("critic.") for name in gradients[0])
    compare_gradients(*gradients)


def test_chunks_hold_rows_of_similar_length_and_no_column_of_padding(make):
    trainer = make("grpo", "tiny_qwen3", "algo.args.beta=0")
    ids, mask, width = join(make_batch(trainer.model.config.vocab_size))
    masks = []
    backbone = trainer.model.base_model
    backbone.register_forward_pre_hook(lambda _, args, given: masks.append(given["attention_mask"]), with_kwargs=True)
    trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, width)
    assert [len(chunk) for chunk in masks] == [3, 3, 2, 2]
    assert all(chunk.any(0).all() for chunk in masks)
    found = [sorted(chunk.sum(1).tolist(), reverse=True) for chunk in masks]
    assert sum(found, []) == sorted((p + c for p, c in LENGTHS), reverse=True)
    masks.clear()
    trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, width, 2)
    assert [len(chunk) for chunk in masks] == [2] * 5, "TRL's limit of rows in one pass holds too"


def test_figures_come_back_to_their_places():
    """Each token's own id, of rows that are padded on both sides."""
    batch = make_batch(50)
    ids, mask, width = join(batch)
    found, nothing = score_trimmed(lambda ids, mask, n: (ids[:, -n:].float(), None), ids, mask, width, 4)
    wanted = (batch["completion_ids"] * batch["completion_mask"]).float()
    assert torch.equal(found, wanted) and nothing is None


def test_a_batch_without_any_token_to_learn_from_has_a_gradient_of_0(make):
    trainer = make("grpo", "tiny_qwen3")
    batch = make_batch(trainer.model.config.vocab_size)
    batch["completion_mask"] = torch.zeros_like(batch["completion_mask"])
    trainer._compute_loss(trainer.model, batch).backward()
    gradients = read_gradients(trainer)
    assert gradients and not any(gradient.any() for gradient in gradients.values())


@pytest.mark.parametrize(
    "kwargs", [{"compute_aux_loss": True}, {"token_type_ids": torch.zeros(len(LENGTHS), 5 + BUDGET)}]
)
def test_trls_own_pass_is_left_alone_where_rows_are_more_than_text_or_do_not_add_up(make, monkeypatch, kwargs):
    trainer = make("grpo", "tiny_qwen3")
    batch, calls = join(make_batch(50)), []
    monkeypatch.setattr(trainer, "_score_chunk", lambda *args, **given: calls.append((args, given)))
    trainer._get_per_token_logps_and_entropies(trainer.model, *batch, batch_size=4, pixel_values=None, **kwargs)
    ((args, given),) = calls
    assert args[1] is batch[0] and args[2] is batch[1] and args[3] == BUDGET and given["batch_size"] == 4
    assert all(given[name] is value for name, value in kwargs.items())
