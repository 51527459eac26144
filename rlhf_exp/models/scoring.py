"""Scores token ids: a reward model's score of a whole text, a policy's log-probabilities of a completion.

    score_sequences(reward_model, [[5, 6, 7]], batch_size=64)    # [0.31]
    sum_logps(policy, [([5, 6], [7])], pad_id)                   # [-2.1]
    completion_logits(policy, [([5, 6], [7])], pad_id)           # [(1, vocabulary)]

    with whole_weights(policy):      # where an engine divides the weights: all ranks enter and leave together
        ...                          # as many forward passes as this rank likes, without gradient

Without FSDP2 the last changes nothing. Each process needs memory for all weights.

Batches hold rows of similar length, right-padded with their mask, in evaluation mode: a row's score does not depend on
the other rows in its batch.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from peft import PeftModel
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from rlhf_exp import processes
from rlhf_exp.progress import progress

Model = PreTrainedModel | PeftModel
"""A model, or one with an adapter."""

Row = tuple[list[int], list[int]]
"""The token ids of a prompt and of its completion."""

BATCH_ELEMENTS = 2**26
"""Completion positions times vocabulary in one batch: 256 MiB of float32 logits."""

BATCH_ROWS = 128


@contextmanager
def keeping_forward(model: nn.Module) -> Iterator[None]:
    """A forward that is put before the class's inside is gone after it; one that stood there before stays."""
    own = vars(model).get("forward")
    try:
        yield
    finally:
        vars(model).pop("forward", None)
        if own is not None:
            model.forward = own


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Without dropout and without the trainer's autocast inside; then as it was before.

    accelerate puts a forward with autocast before the class's, and keeps the one before.
    """
    training = model.training
    model.eval()
    try:
        with keeping_forward(model):
            if (plain := vars(model).get("_original_forward")) is not None:
                model.forward = plain
            yield
    finally:
        model.train(training)


class StateReader:
    """Reads a model's last hidden states, which TRL's fused language modelling head does not return. Its hook is there
    from the beginning, since `torch.compile` sees no later one.

    with reader.reading() as seen:   # then seen has those of each forward pass inside, (batch, time, size)
    """

    def __init__(self, model: Model) -> None:
        self._seen: list[torch.Tensor] | None = None
        find_backbone(model).register_forward_hook(self._read)

    @contextmanager
    def reading(self) -> Iterator[list[torch.Tensor]]:
        seen: list[torch.Tensor] = []
        self._seen = seen
        try:
            yield seen
        finally:
            self._seen = None

    def _read(self, module: nn.Module, args: tuple, output: Any) -> None:
        if self._seen is not None:
            self._seen.append(output.last_hidden_state)


@dataclass
class _States(BaseModelOutput):
    """What a backbone returns, with None for all that some architectures' heads read besides its last states."""

    def __getattr__(self, name: str) -> None:
        return None


def read_out(model: Model, states: torch.Tensor) -> torch.Tensor:
    """The model's logits (tokens, vocabulary) of last hidden states (tokens, size): by its own forward, within which
    the backbone returns these instead of computing them, since heads differ in what they do besides a product."""
    backbone = find_backbone(model)
    with keeping_forward(backbone):  # accelerate's hooks may have put one there
        backbone.forward = lambda *args, **kwargs: _States(last_hidden_state=states[None])
        ids = torch.zeros(1, len(states), dtype=torch.long, device=states.device)
        return model(input_ids=ids, use_cache=False).logits[0]


def find_backbone(model: Model) -> Any:
    """The model without its head, and below an adapter."""
    return (model.get_base_model() if isinstance(model, PeftModel) else model).base_model


@contextmanager
def whole_weights(model: nn.Module) -> Iterator[None]:
    """Keep every part of the model gathered, where a pass would gather it and let it go again: the passes of one rank
    would wait for those of the others, which may take fewer."""
    parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
            part.set_reshard_after_forward(part is not model, recurse=False)  # the root is needed again at once


@torch.no_grad()
def score_sequences(
    model: Model, sequences: list[list[int]], batch_size: int, title: str | None = None, together: bool = False
) -> list[float]:
    """A reward model's score of each sequence, read at its last token that is not padding, as RewardTrainer does."""
    pad_id = model.config.get_text_config().pad_token_id  # by which the model itself distinguishes padding from text

    def score(batch: list[int]) -> list[float]:
        inputs = pad([sequences[i] for i in batch], pad_id, model.device)
        return model(**inputs, use_cache=False).logits[:, 0].float().tolist()

    with evaluating(model):
        return map_batches(score, split_by_length(sequences, batch_size), title, together)


@torch.no_grad()
def sum_logps(model: Model, rows: list[Row], pad_id: int, title: str | None = None) -> list[float]:
    """log p(completion | prompt) of each row: the sum over the completion's tokens, in nats, at temperature 1. All
    processes have the same rows."""

    def score(batch: list[int]) -> Iterator[float]:
        for i, logits in zip(batch, completion_logits(model, [rows[i] for i in batch], pad_id), strict=True):
            completion = rows[i][1]
            ids = torch.tensor(completion[len(completion) - len(logits) :], device=logits.device)
            logits = logits.float()
            chosen = logits.gather(-1, ids[:, None]).squeeze(-1)
            yield (chosen - logits.logsumexp(-1)).double().sum().item()

    with evaluating(model):
        return map_batches(score, list(split_rows(rows, model.config.get_text_config().vocab_size)), title)


def map_batches(
    call: Callable[[list[int]], Iterable[Any]], batches: list[list[int]], title: str | None = None,
    together: bool = True,
) -> list[Any]:  # fmt: skip
    """What `call` returns for the rows of each batch, which it gets as their indices; in the order of the rows.

    `title` shows progress under that name. `together`: all processes have the same rows, and each takes whole batches
    of them.
    """
    found: dict[int, Any] = {}
    ranks = processes.count() if together else 1
    total = sum(map(len, batches))
    with progress(total, title, "row") as bar:
        for batch in processes.shard(batches) if together else batches:
            found |= zip(batch, call(batch), strict=True)
            bar.update(len(batch) * ranks)
    found = processes.gather_dict(found) if together else found
    return [found[i] for i in range(total)]


def split_by_length(sequences: list[list[int]], size: int) -> list[list[int]]:
    """Indices of the sequences, in batches of similar length."""
    lengths = [*map(len, sequences)]
    order = sorted(range(len(sequences)), key=lengths.__getitem__)
    return [order[start : start + size] for start in range(0, len(order), size)]


def completion_logps(model: Model, rows: list[Row], pad_id: int) -> torch.Tensor:
    """The log-probabilities at every completion position, row after row: (all completion tokens, vocabulary) float32,
    at temperature 1."""
    return torch.log_softmax(torch.cat(completion_logits(model, rows, pad_id)).float(), dim=-1)


def completion_logits(model: Model, rows: list[Row], pad_id: int) -> list[torch.Tensor]:
    """Next-token logits at the completion positions of each row: (completion tokens, vocabulary), in the model's
    precision; for a row without a prompt from the second token on, since the first has no prediction (TRL leaves
    it out too). Right-padded, with positions from 0, so that every architecture scores its own samples correctly."""
    inputs = pad([prompt + completion for prompt, completion in rows], pad_id, model.device)
    skipped = min(map(_start, rows)) - 1  # positions that predict only prompt tokens: their logits are not computed
    kept = inputs["input_ids"].shape[1] - skipped
    logits = model(**inputs, use_cache=False, logits_to_keep=kept).logits[:, -kept:]
    spans = [(_start(row) - 1 - skipped, sum(map(len, row)) - 1 - skipped) for row in rows]
    return [row[start:end] for row, (start, end) in zip(logits, spans, strict=True)]


def split_rows(rows: list[Row], vocabulary: int) -> Iterator[list[int]]:
    """Indices of rows in batches, by length, whose logits stay within BATCH_ELEMENTS; a single row may exceed it."""
    batch: list[int] = []
    lengths = [len(prompt) + len(completion) for prompt, completion in rows]
    for i in sorted(range(len(rows)), key=lengths.__getitem__):
        kept = lengths[i] + 1 - min(_start(rows[j]) for j in [*batch, i])
        if batch and (len(batch) == BATCH_ROWS or (len(batch) + 1) * kept * vocabulary > BATCH_ELEMENTS):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _start(row: Row) -> int:
    """Where the scored tokens start."""
    return max(len(row[0]), 1)


def pad(sequences: list[list[int]], pad_id: int, device: torch.device, left: bool = False) -> dict[str, torch.Tensor]:
    """`input_ids` and `attention_mask`, both (batch, longest) int64, padded on the right or on the left."""
    fill = partial(pad_sequence, batch_first=True, padding_side="left" if left else "right")
    rows = [torch.tensor(ids, dtype=torch.long) for ids in sequences]
    ids, mask = fill(rows, padding_value=pad_id), fill([torch.ones_like(row) for row in rows])
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
