"""RLOO (Ahmadian et al. 2024, arXiv:2402.14740), by TRL's RLOOTrainer.

It resumes exactly. Where `generation=` resolves to compact, our decoding loop samples, which stops decoding rows that
have ended: RLOOTrainer takes no `rollout_func`, so that its own step of sampling is the seam.
tests/trainers/test_rloo.py holds what is relied on.
"""

from typing import Any

from trl import RLOOTrainer

from rlhf_exp.models.generation import sample_rollout
from rlhf_exp.trainers.rollouts import Batch, Rollouts


class ResumableRLOOTrainer(Rollouts, RLOOTrainer):
    """RLOOTrainer; if it is given a `rollout_func`, our decoding loop samples."""

    def __init__(self, *args: Any, rollout_func: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._drops_ended = rollout_func is not None

    def _generate_single_turn(self, prompt_ids: list[list[int]], *multimodal: Any) -> list[list[int]]:
        if self._drops_ended:
            return sample_rollout(self, prompt_ids)
        return super()._generate_single_turn(prompt_ids, *multimodal)

    def finish_rollout(self, batch: Batch) -> Batch:
        """The policy's log-probabilities of the tokens, which TRL sums up, stay in the batch: figures are taken of
        them."""
        batch["old_per_token_logps"] = self.first_pass[0]
        if self.beta != 0.0:
            self._metrics["train"]["kl_k1"].append(self._metrics["train"]["kl"][-1])
        return batch
