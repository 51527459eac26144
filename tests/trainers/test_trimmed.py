"""Passes without padding, and of shared prompts, against TRL's own pass on the same batch: figures, gradients,
metrics, whole steps."""

from functools import partial

import pytest
import torch
from trl import GRPOTrainer

from rlhf_exp.models.scoring import find_backbone
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
    monkeypatch.setattr(trimmed, "TILE_VOCABULARY", 7)


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
    first_of = [[p for p, _ in LENGTHS].index(prompt) for prompt, _ in LENGTHS]
    rows["prompt_ids"] = rows["prompt_ids"][first_of]  # prompts of the same length are the same
    figures = {"advantages": draw()[:, 0], "ref_per_token_logps": -3.0 + 0.1 * draw()}
    return rows | figures | {"num_items_in_batch": rows["completion_mask"].sum()}


def read_gradients(trainer):
    return {name: p.grad.clone() for name, p in trainer.model.named_parameters() if p.grad is not None}


def compare_gradients(found, wanted):
    assert found.keys() == wanted.keys() and found
    joined = [torch.cat([gradients[name].flatten() for name in wanted]) for gradients in (found, wanted)]
    assert (joined[0] - joined[1]).norm() < 1e-4 * joined[1].norm()


@pytest.mark.parametrize(
    ("model", "overrides"),
    [
        ("tiny_gpt2", ["algo.args.beta=0.3", "algo.args.entropy_coef=0.1"]),
        ("tiny_qwen3", ["+algo.args.importance_sampling_level=sequence", "loss_type=dr_grpo"]),
        ("tiny_gpt2", ["algo.args.activation_checkpointing=true", "+algo.args.top_entropy_quantile=0.5"]),
        ("tiny_qwen3", ["peft=lora", "algo.args.beta=0.3"]),
        (
            "tiny_qwen3",
            ["peft=lora", "algo.args.beta=0.3", "loss_type=dapo", "algo.args.activation_checkpointing=true"],
        ),
    ],
    ids=["kl-entropy", "sequence", "checkpointing", "lora", "lora-checkpointing"],
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


@pytest.mark.parametrize("peft", ["none", "lora"])
def test_a_prompt_is_computed_once_for_its_completions_in_a_chunk(make, peft):
    trainer = make("grpo", "tiny_gpt2", "loss_type=dr_grpo", f"peft={peft}")
    batch, sizes = make_batch(50), []
    find_backbone(trainer.model).register_forward_hook(
        lambda model, args, kwargs, output: sizes.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    trainer._compute_loss(trainer.model, batch)
    prompts, completions = sizes[::2], sizes[1::2]
    assert sum(rows for rows, _ in completions) == len(LENGTHS)
    assert sum(rows for rows, _ in prompts) < len(LENGTHS)
    assert max(width for _, width in prompts) < max(prompt for prompt, _ in LENGTHS)


def test_a_batch_without_any_token_to_learn_from_has_a_gradient_of_0(make):
    trainer = make("grpo", "tiny_qwen3")
    batch = make_batch(trainer.model.config.vocab_size)
    batch["completion_mask"] = torch.zeros_like(batch["completion_mask"])
    trainer._compute_loss(trainer.model, batch).backward()
    gradients = read_gradients(trainer)
    assert gradients and not any(gradient.any() for gradient in gradients.values())


def test_trls_own_pass_is_taken_where_a_model_has_another_loss(make, monkeypatch):
    trainer = make("grpo", "tiny_qwen3")
    batch, calls = make_batch(50), []
    monkeypatch.setattr(trainer, "score_chunk", lambda *args, **given: calls.append(given) or (args[1],))
    ids, mask = (torch.cat([batch[f"prompt_{part}"], batch[f"completion_{part}"]], 1) for part in ("ids", "mask"))
    getattr(trainer, METHOD)(trainer.model, ids, mask, BUDGET, batch_size=4, compute_aux_loss=True)
    assert [(given["batch_size"], given["compute_aux_loss"]) for given in calls] == [(4, True)]
