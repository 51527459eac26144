import math

import pytest
import torch
from scipy import stats
from transformers import GPT2Config, GPT2LMHeadModel, Qwen3Config, Qwen3ForCausalLM

from rlhf_exp.errors import NonFiniteLoss
from rlhf_exp.models.generation import Sampling, sample_completions

EOS, PAD = 1, 0
PROMPTS = [[5, 6, 7], [8], [9, 10, 11, 12, 13], [4, 4]]


@pytest.fixture(params=["qwen3", "gpt2"])
def model(request):
    torch.manual_seed(0)
    if request.param == "gpt2":
        config = GPT2Config(vocab_size=16, n_positions=64, n_embd=32, n_layer=2, n_head=2, eos_token_id=EOS)
        made = GPT2LMHeadModel(config)
    else:
        config = Qwen3Config(
            vocab_size=16, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, head_dim=16, eos_token_id=EOS, tie_word_embeddings=True,
        )  # fmt: skip
        made = Qwen3ForCausalLM(config)
    for parameter in made.parameters():  # sharper than at the start, so that a wrong context shows
        parameter.data *= 3.0 if parameter.dim() > 1 else 1.0
    return made.eval()


def slow_logps(model, prompt, completion, temperature=1.0):
    """The log-probability of each completion token, one unpadded forward pass per token, no cache."""
    found = []
    for i, token in enumerate(completion):
        logits = model(input_ids=torch.tensor([prompt + completion[:i]])).logits[0, -1]
        found.append(torch.log_softmax(logits.double() / temperature, -1)[token].item())
    return found


@pytest.mark.parametrize("method", ["compact", "trl"])
def test_a_completion_ends_at_eos_or_at_the_budget(model, method):
    torch.manual_seed(0)
    for completion in sample_completions(model, PROMPTS * 16, Sampling(12), [EOS], PAD, method):
        assert 1 <= len(completion) <= 12
        assert EOS not in completion[:-1]
        assert completion[-1] == EOS or len(completion) == 12


@torch.no_grad()
def test_each_token_is_drawn_from_the_policys_own_distribution(model, monkeypatch):
    """What the loop draws from, with padding, cache and dropped rows, is what an unpadded forward pass gives."""
    seen = {}
    draw = torch.multinomial

    def record(probabilities, *args, **kwargs):
        tokens = draw(probabilities, *args, **kwargs)
        steps.append((probabilities.clone(), tokens.clone()))
        return tokens

    steps: list = []
    monkeypatch.setattr(torch, "multinomial", record)
    torch.manual_seed(3)
    completions = sample_completions(model, PROMPTS, Sampling(10), [EOS], PAD)
    assert len({len(c) for c in completions}) > 1, "the test wants rows that end at different steps"
    alive = list(range(len(PROMPTS)))
    for step, (probabilities, tokens) in enumerate(steps):
        for row, p, token in zip(alive, probabilities, tokens.squeeze(1).tolist(), strict=True):
            assert completions[row][step] == token
            seen.setdefault(row, []).append(math.log(p[token]))
        alive = [row for row in alive if len(completions[row]) > step + 1]
    for row, logps in seen.items():
        assert logps == pytest.approx(slow_logps(model, PROMPTS[row], completions[row]), abs=2e-5)


@pytest.mark.parametrize(
    "sampling", [Sampling(3), Sampling(3, temperature=0.7), Sampling(3, top_k=4), Sampling(3, top_p=0.8)]
)
def test_compact_and_generate_draw_from_the_same_distribution(model, sampling):
    """A chi-squared test over the first two tokens of 6,000 completions each."""
    counts = []
    for method in ("compact", "trl"):
        torch.manual_seed(1)
        found = sample_completions(model, [[5, 6, 7]] * 6000, sampling, [EOS], PAD, method)
        table: dict = {}
        for completion in found:
            key = tuple(completion[:2])
            table[key] = table.get(key, 0) + 1
        counts.append(table)
    keys = sorted(set(counts[0]) | set(counts[1]))
    common = [k for k in keys if counts[0].get(k, 0) + counts[1].get(k, 0) >= 20]
    rare = [k for k in keys if k not in common]
    rows = [[t.get(k, 0) for k in common] + [sum(t.get(k, 0) for k in rare)] for t in counts]
    rows = [list(column) for column in zip(*[c for c in zip(*rows, strict=True) if sum(c)], strict=True)]
    assert stats.chi2_contingency(rows).pvalue > 1e-6  # at 1e-3 one processor in some hundreds would fail


def test_top_k_of_one_is_greedy_and_both_methods_agree(model):
    greedy = [
        sample_completions(model, PROMPTS, Sampling(8, top_k=1), [EOS], PAD, method) for method in ("compact", "trl")
    ]
    assert greedy[0] == greedy[1]


@torch.no_grad()
@pytest.mark.parametrize("method", ["compact", "trl"])
def test_temperature_0_takes_the_most_probable_token_and_no_random_number(model, method):
    model.generation_config.update(do_sample=True, temperature=0.6, top_p=0.5, top_k=3)  # as a checkpoint can bring
    state = torch.get_rng_state()
    found = sample_completions(model, PROMPTS, Sampling(8, temperature=0.0, top_p=0.9), [EOS], PAD, method)
    assert torch.equal(torch.get_rng_state(), state)
    for prompt, completion in zip(PROMPTS, found, strict=True):
        slow = []
        while len(slow) < 8 and EOS not in slow:
            slow.append(model(input_ids=torch.tensor([prompt + slow])).logits[0, -1].argmax().item())
        assert completion == slow


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_are_named(model, temperature):
    with torch.no_grad():
        model.get_output_embeddings().weight.fill_(torch.nan)
    with pytest.raises(NonFiniteLoss, match="^the policy's logits are not finite; try a lower algo.args.learning_rate"):
        sample_completions(model, PROMPTS, Sampling(4, temperature), [EOS], PAD)


def test_a_checkpoints_own_repetition_penalty_is_not_applied(model):
    plain = sample_completions(model, PROMPTS, Sampling(8, temperature=0.0), [EOS], PAD, "trl")
    model.generation_config.repetition_penalty = 5.0
    assert sample_completions(model, PROMPTS, Sampling(8, temperature=0.0), [EOS], PAD, "trl") == plain
    drawn = [sample_completions(model, PROMPTS, Sampling(8, top_k=1), [EOS], PAD, m) for m in ("trl", "compact")]
    assert drawn[0] == drawn[1] == plain


def test_the_same_seed_gives_the_same_completions(model):
    runs = []
    for _ in range(2):
        torch.manual_seed(7)
        runs.append(sample_completions(model, PROMPTS, Sampling(8), [EOS], PAD))
    assert runs[0] == runs[1]
