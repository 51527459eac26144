"""RLOO (Ahmadian et al. 2024, arXiv:2402.14740), by TRL's RLOOTrainer.

It resumes exactly. Where `generation=` resolves to compact, our decoding loop samples, which stops decoding rows that
have ended. tests/trainers/test_rloo.py holds what is relied on.
"""

from trl import RLOOTrainer

from rlhf_exp.trainers.rollouts import Batch, OwnSampling


class ResumableRLOOTrainer(OwnSampling, RLOOTrainer):
    def finish_rollout(self, batch: Batch) -> Batch:
        """The policy's log-probabilities of the tokens, which TRL sums up, stay in the batch: figures are taken of
        them."""
        batch["old_per_token_logps"] = self.first_pass[0]
        if self.beta != 0.0:
            self._metrics["train"]["kl_k1"].append(self._metrics["train"]["kl"][-1])
        return batch
