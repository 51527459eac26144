"""Sampling by either method: from which distribution, with which random numbers, with changed logits."""

from dataclasses import replace

import pytest
import torch
from transformers import TopPLogitsWarper

from rlhf_exp.errors import NonFiniteLoss
from rlhf_exp.models.generation import CANDIDATES, Reweight, Sampling, build_warpers, sample_completions
from rlhf_exp.models.untrained import build_byte_tokenizer
from tests.building import build_random

EOS, PAD = 1, 0
PROMPTS = [[5, 6, 7], [8], [9, 10, 11, 12, 13], [4, 4]]
METHODS = ("compact", "trl")


def name_keys(count, name="test"):
    return [(name, i) for i in range(count)]


def sample(model, prompts, sampling, method="compact", keys=None):
    keys = keys or name_keys(len(prompts))
    return sample_completions(model, prompts, keys, sampling, [EOS], PAD, method)


@pytest.fixture(params=["qwen3", "gpt2"])
def model(request):
    model = build_random(request.param, build_byte_tokenizer())
    model.resize_token_embeddings(16)  # so few that completions end
    return model


@pytest.mark.parametrize("sampling", [Sampling(10), Sampling(10, 0.7, 0.8), Sampling(10, top_k=4)])
def test_a_completion_is_the_same_alone_in_any_batch_in_any_order_and_by_either_method(model, sampling):
    """In float64, so that no number lies within rounding of a boundary between two tokens."""
    model, prompts, keys = model.double(), PROMPTS * 4, name_keys(16)
    state = torch.get_rng_state()
    together = sample(model, prompts, sampling, keys=keys)
    assert len(set(map(len, together))) > 1 and len(set(map(tuple, together))) > 8
    order = list(reversed(range(16)))
    for method, size in (("compact", 1), ("compact", 5), ("trl", 5), ("trl", 16)):
        for batch in (order[i : i + size] for i in range(0, 16, size)):
            found = sample(model, [prompts[i] for i in batch], sampling, method, [keys[i] for i in batch])
            assert found == [together[i] for i in batch]
    assert torch.equal(torch.get_rng_state(), state)
    longer = sample(model, prompts, replace(sampling, max_new_tokens=14), keys=keys)
    assert [ids[:10] for ids in longer] == together
    assert sample(model, prompts, sampling, keys=name_keys(16, "other")) != together


@torch.no_grad()
@pytest.mark.parametrize("method", METHODS)
def test_temperature_0_takes_the_most_probable_token_and_no_random_number(model, method):
    model.generation_config.update(do_sample=True, temperature=0.6, top_p=0.5, top_k=3)  # as a checkpoint can bring
    found = sample_completions(model, PROMPTS, [], Sampling(8, temperature=0.0, top_p=0.9), [EOS], PAD, method)
    for prompt, completion in zip(PROMPTS, found, strict=True):
        slow = []
        while len(slow) < 8 and EOS not in slow:
            slow.append(model(input_ids=torch.tensor([prompt + slow])).logits[0, -1].argmax().item())
        assert completion == slow


@pytest.mark.parametrize(("temperature", "method"), [(0.0, "compact"), (1.0, "compact"), (1.0, "trl")])
def test_logits_that_are_not_finite_are_named(model, temperature, method):
    with torch.no_grad():
        model.get_output_embeddings().weight.fill_(torch.nan)
    with pytest.raises(NonFiniteLoss, match="^the policy's logits are not finite"):
        sample(model, PROMPTS, Sampling(4, temperature), method)


def test_a_checkpoints_own_sampling_is_not_applied(model):
    plain = [sample(model, PROMPTS, Sampling(8, temperature), "trl") for temperature in (0.0, 1.0)]
    model.generation_config.update(repetition_penalty=5.0, typical_p=0.1, min_p=0.9)
    assert [sample(model, PROMPTS, Sampling(8, temperature), "trl") for temperature in (0.0, 1.0)] == plain


def test_probabilities_are_multiplied_and_sum_to_one_until_a_token_of_the_row():
    logits = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    ids, reweight = torch.tensor([[4, 4], [3, 4], [4, 3]]), Reweight(((2, 4.0), (5, 0.0)), until=(3,))
    changed = reweight(ids, logits)
    slow = logits[0].softmax(-1) * torch.tensor([1, 1, 4, 1, 1, 0])
    assert torch.allclose(changed[0].softmax(-1), slow / slow.sum(), atol=1e-6) and changed[0].softmax(-1)[5] == 0
    assert torch.equal(changed[1:], logits[1:])


@pytest.mark.parametrize("temperature", [1.0, 0.0])
@pytest.mark.parametrize("method", METHODS)
def test_a_processor_sees_the_prompt_and_all_tokens_so_far_and_may_forbid_one(model, method, temperature):
    model, seen = model.double(), set()
    plain = sample(model, PROMPTS, Sampling(8, temperature), method)

    def watch(ids, logits):
        seen.update(map(tuple, ids.tolist()))
        return logits

    assert sample(model, PROMPTS, Sampling(8, temperature, processors=(watch,)), method) == plain
    for prompt, completion in zip(PROMPTS, plain, strict=True):
        padded = [PAD] * (5 - len(prompt)) + prompt
        assert {tuple(padded + completion[:i]) for i in range(len(completion))} <= seen
    token = plain[0][0]
    forbidden = Sampling(8, temperature, processors=(Reweight(((token, 0.0),)),))
    assert not any(token in ids for ids in sample(model, PROMPTS, forbidden, method))


@pytest.mark.parametrize("spread", (0.1, 2, 4, 8))
@pytest.mark.parametrize("vocabulary", (64, 8 * CANDIDATES))
def test_the_tokens_of_top_p_are_those_of_transformers(spread, vocabulary):
    scores = spread * torch.randn(32, vocabulary, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for top_p in (0.1, 0.9, 0.999):
        expected = TopPLogitsWarper(top_p)(None, scores)
        assert torch.equal(build_warpers(Sampling(1, top_p=top_p))(None, scores), expected)
