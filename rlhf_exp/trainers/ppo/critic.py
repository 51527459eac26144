"""Critics, which estimate the value of the state before each token of a completion, and their error.

    critic = SharedCritic(policy)            # a head on the policy's last hidden states: no second forward
    critic = SeparateCritic(policy_path)     # a model of its own, from the same weights

Both become a submodule of the policy, so that the optimizer, accelerate and gradient clipping see them; the trainer
keeps them out of what is saved as the policy. Both start at the value 0 everywhere.
"""

from typing import Any

import torch
from torch import nn
from transformers import AutoModelForTokenClassification, PreTrainedModel


class SharedCritic(nn.Module):
    """A small network on the policy's last hidden states."""

    def __init__(self, backbone: PreTrainedModel) -> None:
        super().__init__()
        size = backbone.config.get_text_config().hidden_size
        self.hidden = nn.Linear(size, size)
        self.score = nn.Linear(size, 1)
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """(batch, time, hidden) of any dtype -> (batch, time) float32."""
        return self.score(torch.tanh(self.hidden(hidden_states.to(self.score.weight)))).squeeze(-1)


class SeparateCritic(nn.Module):
    """The policy's architecture and start weights with a value head, trained in full."""

    def __init__(self, path: str, **model_init_kwargs: Any) -> None:
        super().__init__()
        model_init_kwargs["dtype"] = "float32"  # half-precision weights would round small updates away
        self.model = AutoModelForTokenClassification.from_pretrained(path, num_labels=1, **model_init_kwargs)
        head = next(m for m in reversed(list(self.model.modules())) if isinstance(m, nn.Linear))
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """(batch, time) token ids and mask -> (batch, time) float32, the value after each token."""
        values = self.model(input_ids=input_ids, attention_mask=attention_mask).logits.squeeze(-1)
        return values.to(torch.promote_types(values.dtype, torch.float32))


def clip_value_errors(
    values: torch.Tensor, old_values: torch.Tensor, returns: torch.Tensor, cliprange: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Squared errors of the critic: the larger of the plain error and the error of the values limited to a change of
    `cliprange` since the rollout; and where the latter was taken. All (batch, time). None clips nothing."""
    plain = (values - returns).square()
    if cliprange is None:
        return plain, torch.zeros_like(plain)
    clipped = (old_values + (values - old_values).clamp(-cliprange, cliprange) - returns).square()
    return torch.maximum(plain, clipped), (clipped > plain).float()
