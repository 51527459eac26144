"""On-policy distillation (Agarwal et al. 2023, arXiv:2306.13649), by TRL's DistillationTrainer.

The policy samples one completion for each prompt, and learns to draw each of its tokens as the teacher would: `beta` is
0 for KL(teacher || policy), 1 for KL(policy || teacher), and between them a mixture (a generalised Jensen-Shannon
divergence), exact over the vocabulary. There is no reward, and nothing holds the policy at the start model. The logged
`loss` is the divergence in nats per token. tests/test_trl_seam.py holds what is relied on.
"""

from typing import Any

import torch
from trl import DistillationTrainer

from rlhf_exp import processes
from rlhf_exp.trainers.rollouts import Batch, OwnSampling


class DistillTrainer(OwnSampling, DistillationTrainer):
    num_generations = 1
    use_transformers_continuous_batching = False
    reward_weights = torch.zeros(0)

    def count_passes(self) -> int:
        """A rollout is one optimizer step."""
        return self.args.gradient_accumulation_steps

    def _compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        with self.accelerator.autocast():  # TRL calls it in place of the model's forward, which has accelerate's
            return super()._compute_loss(*args, **kwargs)

    def finish_rollout(self, batch: Batch) -> Batch:
        """TRL keeps the texts of the newest rollout only with `log_completions`; here always, as of trainers that have
        rewards (callbacks/completions.py)."""
        for name, ids in zip(("prompt", "completion"), self.newest_rollout, strict=True):
            texts = self._tokenizer.batch_decode(ids, skip_special_tokens=True)
            self._logs[name].extend(text for own in processes.gather(texts) for text in own)
        return batch
