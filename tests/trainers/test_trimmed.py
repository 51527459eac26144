"""Passes without padding against TRL's own pass on the same batch: figures, gradients, metrics, whole steps."""

from functools import partial

import pytest
import torch
from trl import GRPOTrainer, RLOOTrainer

from rlhf_exp.trainers import trimmed
from rlhf_exp.trainers.rollouts import Rollouts
from tests.building import QUIET, build, reward_length_of_7
from tests.trainers.references import draw_rows

LENGTHS = [(3, 6), (5, 1), (1, 4), (4, 0), (2, 3), (5, 9), (3, 2), (1, 1), (2, 9), (5, 4)]
"""Tokens of the prompt and of the completion of each row; one completion is masked, as `mask_truncated_completions`
masks those that were cut off."""

BUDGET = 9
ROWS_IN_CHUNK = 3
SMALL = [
    *QUIET, "reward=outcome", f"max_tokens={BUDGET}", f"algo.args.per_device_train_batch_size={len(LENGTHS)}",
    "algo.args.num_generations=2",
]  # fmt: skip
METHOD = "_get_per_token_logps_and_entropies"


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(trimmed, "CHUNK_TOKENS", ROWS_IN_CHUNK * BUDGET)


@pytest.fixture
def make(tmp_path):
    """A trainer; random weights are made large enough that a wrong position or neighbour shows."""

    def build_moved(algo, model, *overrides):
        named = [*SMALL, f"algo={algo}", f"model={model}", *overrides]
        rows = [{"id": str(i), "prompt": "ab"} for i in range(16)]
        trainer = build(tmp_path, *named, rows=rows, reward=reward_length_of_7)
        torch.manual_seed(0)
        for network in (trainer.model, trainer.ref_model):
            for parameter in network.parameters() if network is not None else ():
                if parameter.dim() > 1:
                    parameter.data = 4.0 * parameter + 0.02 * torch.randn_like(parameter)
        trainer.current_gradient_accumulation_steps = 1
        trainer.model.train()
        return trainer

    return build_moved


def make_batch(vocabulary):
    generator = torch.Generator().manual_seed(1)
    draw = partial(torch.randn, len(LENGTHS), BUDGET, generator=generator)
    rows = draw_rows(LENGTHS, vocabulary, generator)
    figures = {"advantages": draw()[:, 0], "ref_per_token_logps": -3.0 + 0.1 * draw()}
    return rows | figures | {"num_items_in_batch": rows["completion_mask"].sum()}


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
            monkeypatch.setattr(Rollouts, "score_rows", getattr(GRPOTrainer, METHOD))
        trainer.model.zero_grad()
        trainer._metrics["train"].clear()
        loss = trainer._compute_loss(trainer.model, batch)
        loss.backward()
        figures = {name: values[-1] for name, values in trainer._metrics["train"].items()}
        found.append((loss.item(), read_gradients(trainer), figures))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-4, abs=1e-5)
    compare_gradients(found[0][1], found[1][1])
    assert found[0][2] == pytest.approx(found[1][2], rel=1e-4, abs=1e-5, nan_ok=True)


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
    monkeypatch.setattr(trainer, "score_chunk", lambda *args, **given: calls.append((args, given)) or (batch[0],))
    trainer._get_per_token_logps_and_entropies(trainer.model, *batch, batch_size=4, pixel_values=None, **kwargs)
    ((args, given),) = calls
    assert args[1] is batch[0] and args[2] is batch[1] and args[3] == BUDGET and given["batch_size"] == 4
    assert all(given[name] is value for name, value in kwargs.items())
