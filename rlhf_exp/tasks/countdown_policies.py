"""Sampling baselines of the tiny model on Countdown: it never gives up, and a fixed rule.

list_policies(tokenizer)     # [Policy("words forbidden", "give forbidden", ...), ...]
"""

from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerBase

from rlhf_exp.models.generation import FORBIDDEN, Policy, Reweight
from rlhf_exp.tasks.countdown_search import OPERATIONS

RULE_WEIGHTS = (10, 1000)  # by which the probability of `*` is multiplied


@dataclass(frozen=True)
class MultiplyFirst:
    """Multiplies the probability of `*` in a search by a weight, in rows whose target exceeds the sum of their numbers.
    (A fixed weight, since the model has already chosen the first number, and knows no product with the smaller number
    first.)

    Attributes:
        times, make: the token ids of `*`, and of the word between a prompt's numbers and its target.
        begins: the token ids after which an attempt begins, for its first operation only; empty for every operation.
        until: the token ids that end the search.
        numbers: (token id, value).
    """

    weight: float
    times: int
    make: int
    begins: tuple[int, ...]
    until: tuple[int, ...]
    numbers: tuple[tuple[int, int], ...]

    def __call__(self, input_ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Both over the same rows: (batch, time) token ids and (batch, vocabulary) logits."""
        ids, found = (input_ids.new_tensor(column) for column in zip(*self.numbers, strict=True))
        values = input_ids.new_zeros(logits.shape[1]).scatter(0, ids, found)
        make = (input_ids == self.make).int().argmax(1, keepdim=True)
        given = torch.arange(input_ids.shape[1], device=input_ids.device) < make
        exceeds = values[input_ids.gather(1, make + 1)[:, 0]] > (values[input_ids] * given).sum(1)
        here = exceeds & ~torch.isin(input_ids, input_ids.new_tensor(self.until)).any(1)
        if self.begins:
            begun = torch.isin(input_ids[:, -2], input_ids.new_tensor(self.begins))
            here &= begun & torch.isin(input_ids[:, -1], ids)
        change = torch.zeros_like(logits)
        change[:, self.times] = logits.new_tensor(self.weight).log()
        return torch.where(here[:, None], logits + change, logits)


def list_policies(tokenizer: PreTrainedTokenizerBase) -> list[Policy]:
    """The policies that change the words of search traces; none for a tokenizer that has no token for each of them."""
    ids = tokenizer.get_vocab()
    words = ("<think>", "</think>", "make", "no", "give", "check", *OPERATIONS)
    if not all(word in ids for word in words):
        return []
    never = Reweight(((ids["give"], 0.0),))
    found = [Policy(FORBIDDEN, "give forbidden", (never,))]
    copies = (ids["check"], ids["</think>"])  # an answer repeats operations that the search has chosen
    numbers = tuple(sorted((i, int(word)) for word, i in ids.items() if word.isdecimal()))
    for begins, where in (((ids["<think>"], ids["no"]), "as the first operation"), ((), "as any operation")):
        for weight in RULE_WEIGHTS:
            rule = MultiplyFirst(weight, ids["*"], ids["make"], begins, copies, numbers)
            name = f"* {where} times {weight} if the target exceeds the sum"
            found.append(Policy("made to multiply first", name, (rule,)))
    return found
