"""What is scored is what was sampled: the same log-probability for each token, however the batch is padded.

Tiny GPT-2, Qwen2 and Qwen3; GPT-2's tokenizer pads with EOS, as the real one does. Sampling has a cache and left
padding; scoring is right-padded (probe, evaluation), left-padded under TRL's fused head (its trainers), or of one row
alone.
"""

import pytest
import torch
from trl.trainer.utils import add_fused_lm_head

from rlhf_exp.config.compose import compose_config
from rlhf_exp.models.generation import Sampling, sample_completions
from rlhf_exp.models.loading import load_policy
from rlhf_exp.models.row_random import pick_tokens
from rlhf_exp.models.scoring import completion_logps
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.models.untrained import build_byte_tokenizer
from tests.building import build_random

TOKENS = 8
PROMPTS = [
    "Hi",
    "What is 12 + 30? Think it over, and answer in one word.",
    "Name a river.",
    "Once upon a time there was",
]

TOLERANCE = {"float32": 2e-5, "bfloat16": 0.1, "nf4": 0.1}
"""The largest difference of a log-probability between two ways to compute it, in nats per token. Measured on these
models: 2e-6 in float32, 0.03 in bfloat16 and on a 4-bit base, whose sums are in bfloat16 too."""
PAIRS = [("gpt2", "float32"), ("gpt2", "nf4"), ("qwen2", "bfloat16"), ("qwen2", "nf4"), ("qwen3", "float32")]


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def loaded(request, tmp_path_factory):
    """(name of the dtype, model, tokenizer)."""
    (architecture, dtype), path = request.param, tmp_path_factory.mktemp("model")
    tokenizer = build_byte_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token if architecture == "gpt2" else tokenizer.pad_token
    build_random(architecture, tokenizer, hidden_size=64, num_attention_heads=4).save_pretrained(path)
    given = "peft=qlora" if dtype == "nf4" else f"model.dtype={dtype}"
    model = load_policy(locate_start_model(compose_config(["model=gpt2", f"model.path={path}", "device=cpu", given])))
    assert str(model.dtype) == f"torch.{'bfloat16' if dtype == 'nf4' else dtype}" and not model.training
    return dtype, model, tokenizer


def sample(model, tokenizer, method):
    """Rows of (prompt ids, completion ids), and (rows, TOKENS) log-probabilities that the tokens were drawn with."""
    prompt_ids = tokenizer(PROMPTS)["input_ids"]
    keys, ends = [("test", 0, i) for i in range(len(PROMPTS))], [tokenizer.eos_token_id]
    with pytest.MonkeyPatch.context() as patch:
        drawn = record_draws(patch)
        completion_ids = sample_completions(
            model, prompt_ids, keys, Sampling(TOKENS), ends, tokenizer.pad_token_id, method
        )
    assert {len(ids) for ids in completion_ids} == {TOKENS}, "the test wants rows that run to the end"
    return list(zip(prompt_ids, completion_ids, strict=True)), torch.stack([logps for _, logps in drawn], 1)


def record_draws(patch):
    """A list that gets of each step (tokens, log-probabilities with which they were drawn)."""
    drawn = []

    def record(logits, uniforms):
        tokens = pick_tokens(logits, uniforms)
        drawn.append((tokens, logits.log_softmax(-1).gather(1, tokens[:, None]).squeeze(1)))
        return tokens

    for caller in ("row_random", "generation"):
        patch.setattr(f"rlhf_exp.models.{caller}.pick_tokens", record)
    return drawn


@torch.no_grad()
def score_right_padded(model, tokenizer, rows):
    logps = completion_logps(model, rows, tokenizer.pad_token_id)
    tokens = torch.tensor([token for _, completion in rows for token in completion])
    return logps.gather(1, tokens[:, None]).view(len(rows), TOKENS)


@torch.no_grad()
def score_as_trl(model, tokenizer, rows):
    """Left-padded prompts and no position ids, through the fused head, as in `_get_per_token_logps_and_entropies`."""
    width = max(len(prompt) for prompt, _ in rows)
    ids = torch.tensor([[tokenizer.pad_token_id] * (width - len(p)) + p + c for p, c in rows])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * (len(p) + len(c)) for p, c in rows])
    labels = ids.clone()
    labels[:, :-TOKENS] = -100
    original = model.forward
    add_fused_lm_head(model)
    logps = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True).log_probs
    model.forward = original
    return logps[:, -TOKENS:]


def score_alone(model, tokenizer, rows):
    return torch.cat([score_right_padded(model, tokenizer, [row]) for row in rows])


@pytest.mark.parametrize("method", ["compact", "trl"])
def test_a_token_is_scored_as_it_was_sampled(loaded, method):
    dtype, model, tokenizer = loaded
    rows, drawn = sample(model, tokenizer, method)
    assert drawn.std() > 0.5, "the test wants a model that prefers some tokens"
    for score in (score_right_padded, score_as_trl, score_alone):
        scored = score(model, tokenizer, rows)
        assert scored.shape == drawn.shape
        assert (scored - drawn).abs().max() < TOLERANCE[dtype], score
