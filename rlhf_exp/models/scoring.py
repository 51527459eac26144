"""Scores token ids: a reward model's score of a whole text, a policy's log-probability of an answer.

    score_sequences(reward_model, [[5, 6, 7]], batch_size=64)    # [0.31]
    sum_logps(policy, [([5, 6], [7])], pad_id)                   # [-2.1]

Batches hold rows of similar length, right-padded with their mask, in evaluation mode: a row's score does not depend on
the other rows in its batch.
"""

from collections.abc import Iterator

import torch
from tqdm.auto import tqdm
from transformers import PreTrainedModel

BATCH_ELEMENTS = 2**26
"""Answer positions times vocabulary in one batch: 256 MiB of float32 logits."""

BATCH_ROWS = 128


@torch.no_grad()
def score_sequences(
    model: PreTrainedModel, sequences: list[list[int]], batch_size: int, title: str | None = None
) -> list[float]:
    """A reward model's score of each sequence, read at its last token that is not padding, as RewardTrainer does.

    `title` shows a progress bar under that name.
    """
    pad_id = model.config.get_text_config().pad_token_id  # by which the model itself distinguishes padding from text
    training = model.training
    model.eval()
    scores = [0.0] * len(sequences)
    order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
    with tqdm(total=len(sequences), desc=title, unit="text", leave=False, disable=title is None or None) as bar:
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            inputs = _pad([sequences[i] for i in batch], pad_id, model.device)
            for i, score in zip(batch, model(**inputs, use_cache=False).logits[:, 0].float().tolist(), strict=True):
                scores[i] = score
            bar.update(len(batch))
    model.train(training)
    return scores


@torch.no_grad()
def sum_logps(
    model: PreTrainedModel, rows: list[tuple[list[int], list[int]]], pad_id: int, title: str | None = None
) -> list[float]:
    """log p(answer | prompt) of each (prompt ids, answer ids) row: the sum over the answer's tokens, in nats, at
    temperature 1. `title` shows a progress bar under that name."""
    training = model.training
    model.eval()
    sums = [0.0] * len(rows)
    with tqdm(total=len(rows), desc=title, unit="answer", leave=False, disable=title is None or None) as bar:
        for batch in split_rows(rows, model.config.get_text_config().vocab_size):
            sequences = [rows[i][0] + rows[i][1] for i in batch]
            starts = [_start(rows[i]) for i in batch]
            inputs = _pad(sequences, pad_id, model.device)
            skipped = min(starts) - 1  # positions that predict only prompt tokens: their logits are not computed
            keep = inputs["input_ids"].shape[1] - skipped
            logits = model(**inputs, use_cache=False, logits_to_keep=keep).logits[:, -keep:]
            for row, i, ids, start in zip(logits, batch, inputs["input_ids"], starts, strict=True):
                end = len(rows[i][0]) + len(rows[i][1])
                predicted = row[start - 1 - skipped : end - 1 - skipped].float()
                chosen = predicted.gather(-1, ids[start:end, None]).squeeze(-1)
                sums[i] = (chosen - predicted.logsumexp(-1)).double().sum().item()
            bar.update(len(batch))
    model.train(training)
    return sums


def completion_logps(
    model: PreTrainedModel, rows: list[tuple[list[int], list[int]]], pad_id: int, temperature: float = 1.0
) -> torch.Tensor:
    """`completion_logits` as log-probabilities at `temperature`, in float32."""
    return torch.log_softmax(completion_logits(model, rows, pad_id).float() / temperature, dim=-1)


def completion_logits(model: PreTrainedModel, rows: list[tuple[list[int], list[int]]], pad_id: int) -> torch.Tensor:
    """Next-token logits at every completion position of (prompt ids, completion ids) rows, row after row: (all
    completion tokens, vocabulary), in the model's precision. Right-padded, with positions from 0, so that every
    architecture scores its own samples correctly."""
    width = max(len(prompt) + len(completion) for prompt, completion in rows)
    ids = torch.tensor([p + c + [pad_id] * (width - len(p) - len(c)) for p, c in rows], device=model.device)
    mask = torch.tensor([[1] * (len(p) + len(c)) + [0] * (width - len(p) - len(c)) for p, c in rows])
    skipped = min(len(prompt) for prompt, _ in rows) - 1  # positions that predict only prompt tokens
    logits = model(
        input_ids=ids, attention_mask=mask.to(model.device), use_cache=False, logits_to_keep=width - skipped
    ).logits[:, skipped - width :]
    picked = [
        row[len(p) - 1 - skipped : len(p) + len(c) - 1 - skipped] for row, (p, c) in zip(logits, rows, strict=True)
    ]
    return torch.cat(picked) if len(picked) > 1 else picked[0]


def token_kl(logps: torch.Tensor, reference_logps: torch.Tensor) -> torch.Tensor:
    """KL(policy || reference) at each position, in nats, exact over the vocabulary.

    Args:
        logps, reference_logps: (tokens, vocabulary) float32, normalised.

    Returns:
        (tokens,) float32, at least 0: each term is p (r - 1 - log r) with r = q / p, which gives the same sum without
        negative terms, so that rounding cannot make it negative (Schulman's k3, summed instead of sampled).
    """
    log_ratio = reference_logps - logps
    return (logps.exp() * (torch.expm1(log_ratio) - log_ratio)).sum(-1)


def split_rows(rows: list[tuple[list[int], list[int]]], vocabulary: int) -> Iterator[list[int]]:
    """Indices of rows in batches, by length, whose logits stay within BATCH_ELEMENTS; a single row may exceed it."""
    batch: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: len(rows[i][0]) + len(rows[i][1])):
        width = len(rows[i][0]) + len(rows[i][1])
        kept = width + 1 - min(_start(rows[j]) for j in [*batch, i])
        if batch and (len(batch) == BATCH_ROWS or (len(batch) + 1) * kept * vocabulary > BATCH_ELEMENTS):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _start(row: tuple[list[int], list[int]]) -> int:
    """Where the scored tokens start. The first token of a text has no prediction; TRL leaves it out too."""
    return max(len(row[0]), 1)


def _pad(sequences: list[list[int]], pad_id: int, device: torch.device) -> dict[str, torch.Tensor]:
    width = max(map(len, sequences))
    ids = torch.tensor([ids + [pad_id] * (width - len(ids)) for ids in sequences], device=device)
    lengths = torch.tensor([len(ids) for ids in sequences], device=device)
    return {"input_ids": ids, "attention_mask": (torch.arange(width, device=device) < lengths[:, None]).long()}
