import pytest
import torch

from rlhf_exp.evaluation.token_figures import split_text
from rlhf_exp.models import kl
from rlhf_exp.models.generation import Sampling
from rlhf_exp.models.kl import measure_completions, measure_tokens
from rlhf_exp.models.untrained import build_byte_tokenizer

TOKENIZER = build_byte_tokenizer()


def test_the_texts_of_any_tokens_are_together_the_completion():
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        ids = torch.randint(len(TOKENIZER), (20,), generator=generator).tolist()  # parts of characters, cut off too
        text = TOKENIZER.decode(ids, skip_special_tokens=True)
        texts = split_text(TOKENIZER, ids, text)
        assert len(texts) == 20 and "".join(texts) == text


def test_the_figures_of_tokens_are_the_models_own_and_their_kl_sums_up_to_the_completions(monkeypatch):
    monkeypatch.setattr(kl, "CHUNK_VALUES", 22)  # two positions at once
    generator = torch.Generator().manual_seed(0)
    rows = [([1], [3, 4, 5]), ([1, 2], [9, 0, 10, 10, 7])]
    logits = [[3 * torch.randn(len(ids), 11, generator=generator) for _, ids in rows] for _ in range(2)]
    scorers = [lambda batch, side=side: [side[rows.index(row)] for row in batch] for side in logits]
    wholes = measure_completions(*scorers, rows, 11, Sampling(8))
    for (_, ids), found, whole, *sides in zip(rows, measure_tokens(scorers, rows, 11), wholes, *logits, strict=True):
        p, q = (torch.log_softmax(side.double(), -1)[range(len(ids)), ids] for side in sides)
        assert found["token_logprobs"] == pytest.approx(p.tolist(), abs=1e-5)
        assert found["token_log_ratio"] == pytest.approx((p - q).tolist(), abs=1e-5)
        assert sum(found["token_kl"]) == pytest.approx(whole.kl, rel=1e-5)
    assert [list(found) for found in measure_tokens(scorers[:1], rows, 11)] == 2 * [["token_logprobs"]]
