"""Changed logits, by themselves and in sampling by either method."""

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from rlhf_exp.models.generation import Reweight, Sampling, sample_completions

PROMPTS = [[5, 6, 7], [8, 9], [5, 9, 7], [3]]
KEYS = [("test", i) for i in range(len(PROMPTS))]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=12, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, head_dim=8, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


def draw(model, method, *processors, temperature=1.0):
    return sample_completions(model, PROMPTS, KEYS, Sampling(20, temperature), [1], 0, method, processors)


def test_probabilities_are_multiplied_and_sum_to_one():
    logits = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    changed = Reweight(((2, 4.0), (5, 0.0)))(torch.zeros(3, 2, dtype=torch.long), logits).softmax(-1)
    slow = logits.softmax(-1) * torch.tensor([1, 1, 4, 1, 1, 0])
    assert torch.allclose(changed, slow / slow.sum(1, keepdim=True), atol=1e-6)
    assert (changed[:, 5] == 0).all()


def test_rows_that_hold_a_token_of_until_keep_their_logits():
    ids, logits = torch.tensor([[3, 4], [4, 3], [4, 4]]), torch.zeros(3, 6)
    changed = Reweight(((2, 4.0), (5, 0.0)), until=(3,))(ids, logits)
    assert torch.equal(changed[:2], logits[:2]) and not torch.equal(changed[2], logits[2])


@pytest.mark.parametrize("temperature", [1.0, 0.0])
@pytest.mark.parametrize("method", ["compact", "trl"])
def test_a_forbidden_token_is_never_sampled(model, method, temperature):
    free = draw(model, method, temperature=temperature)
    word = free[0][0]
    held = draw(model, method, Reweight(((word, 0.0),)), temperature=temperature)
    assert any(word in ids for ids in free) and not any(word in ids for ids in held)


def test_both_methods_show_a_processor_the_prompt_and_all_tokens_so_far(model):
    def watch(method):
        seen = set()

        class Watch:
            def __call__(self, input_ids, logits):
                for row in input_ids.tolist():
                    seen.add(tuple(row))
                return logits

        return draw(model, method, Watch()), seen

    (compact, seen), (trl, _) = watch("compact"), watch("trl")
    assert compact == trl == draw(model, "compact")
    for prompt, ids in zip(PROMPTS, compact, strict=True):
        padded = [0] * (3 - len(prompt)) + prompt
        assert {tuple(padded + ids[:i]) for i in range(len(ids))} <= seen
    assert len(seen) == sum(map(len, compact))
