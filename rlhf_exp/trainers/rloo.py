"""RLOO (Ahmadian et al. 2024, arXiv:2402.14740), by TRL's RLOOTrainer.

It resumes exactly. Where `generation=` resolves to compact, our decoding loop samples, which stops decoding rows that
have ended: RLOOTrainer takes no `rollout_func`, so that its own step of sampling is the seam.
tests/trainers/test_rloo.py holds what is relied on.
"""

from typing import Any

from trl import RLOOTrainer

from rlhf_exp.models.generation import sample_rollout
from rlhf_exp.trainers.resuming import ResumableRollouts
from rlhf_exp.trainers.trimmed import TrimmedPasses


class ResumableRLOOTrainer(TrimmedPasses, ResumableRollouts, RLOOTrainer):
    """RLOOTrainer; if it is given a `rollout_func`, our decoding loop samples."""

    def __init__(self, *args: Any, rollout_func: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._drops_ended = rollout_func is not None

    def _generate_single_turn(self, prompt_ids: list[list[int]], *multimodal: Any) -> list[list[int]]:
        if self._drops_ended:
            return sample_rollout(self, prompt_ids)
        return super()._generate_single_turn(prompt_ids, *multimodal)
