"""Measures KL and entropy of the policy on a fixed set of the start model's completions, the probe.

probe = Probe(start_model, rows, max_tokens=2048, pad_id=0)
probe.measure(policy)     # {"probe/kl": 0.1, "probe/entropy": 1.2}
"""

from collections.abc import Iterator

import torch

from rlhf_exp.models.kl import token_kl
from rlhf_exp.models.scoring import Model, Row, completion_logps, evaluating, split_rows, whole_weights


class Probe:
    """Completions of the start model, fixed for a run, at whose tokens the policy's distributions are measured.

    Rows are taken until there are `max_tokens` completion tokens. The start model's log-probabilities at them are kept:
    max_tokens x vocabulary float32 values in main memory.
    """

    def __init__(self, start_model: Model, rows: list[Row], max_tokens: int, pad_id: int) -> None:
        kept, left = [], max_tokens
        for prompt, completion in rows:
            if left <= 0:
                break
            kept.append((prompt, completion[:left]))
            left -= len(completion)
        vocabulary = start_model.config.get_text_config().vocab_size
        self._batches = [[kept[i] for i in batch] for batch in split_rows(kept, vocabulary)]
        self._pad_id = pad_id
        self._start_logps = [logps.cpu() for logps in self._logps(start_model)]

    def measure(self, policy: Model) -> dict[str, float]:
        """KL(policy || start) and the policy's entropy: exact over the whole vocabulary, means over the probe's
        completion tokens, in nats per token, at temperature 1. Neither is negative; KL is 0 for the start model."""
        kl = entropy = 0.0
        tokens = 0
        for logps, start in zip(self._logps(policy), self._start_logps, strict=True):
            kl += token_kl(logps, start.to(logps.device)).sum().item()
            entropy -= (logps.exp() * logps).sum().item()
            tokens += len(logps)
        return {"probe/kl": kl / tokens, "probe/entropy": entropy / tokens}

    @torch.no_grad()
    def _logps(self, model: Model) -> Iterator[torch.Tensor]:
        """For each batch (tokens, vocabulary) float32: the log-probabilities at every completion position."""
        with whole_weights(model), evaluating(model):
            for batch in self._batches:
                yield completion_logps(model, batch, self._pad_id)
