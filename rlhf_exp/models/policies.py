"""Sampling baselines: a model's own weights, sampled in another way. What training gains has to be compared with them.

    Policy("temperature", "0.5", temperature=0.5)
    Policy("words forbidden", "give", (Reweight(((17, 0.0),)),))

A processor is what `generate` takes: (input_ids, logits) -> logits, over the prompt and all tokens so far. It is a
frozen dataclass, whose `repr` names it in the cache of completions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

Processor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

FORBIDDEN = "words forbidden"
"""The family whose policies those of other families are combined with."""


@dataclass(frozen=True)
class Reweight:
    """Multiplies the probabilities of tokens by fixed weights, in rows that hold none of the tokens `until` so far.

    Attributes:
        weights: (token id, weight); 0 forbids the token.
    """

    weights: tuple[tuple[int, float], ...]
    until: tuple[int, ...] = ()

    def __call__(self, input_ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Both over the same rows: (batch, time) token ids and (batch, vocabulary) logits."""
        ids, weights = zip(*self.weights, strict=True)
        ended = torch.isin(input_ids, input_ids.new_tensor(self.until)).any(1, keepdim=True)
        change = torch.zeros_like(logits)
        change[:, list(ids)] = logits.new_tensor(weights).log()
        return torch.where(ended, logits, logits + change)


@dataclass(frozen=True)
class Policy:
    """One way to sample a model's weights.

    Attributes:
        family: the policies among which the best one is chosen.
        processors: applied to the logits before temperature, top_p and top_k.
        temperature: None is that of the evaluation, 0 is greedy.
    """

    family: str
    name: str
    processors: tuple[Processor, ...] = ()
    temperature: float | None = None

    def combine(self, other: "Policy") -> "Policy":
        """This policy with the processors of another one as well."""
        return replace(self, name=f"{self.name}; {other.name}", processors=(*other.processors, *self.processors))


TEMPERATURES = (0.3, 0.5, 0.75, 1.25)

OF_EVERY_TASK = (
    *(Policy("temperature", f"{t:g}", temperature=t) for t in TEMPERATURES),
    Policy("greedy", "greedy", temperature=0.0),
)
"""Policies that need no knowledge of the task's words."""
