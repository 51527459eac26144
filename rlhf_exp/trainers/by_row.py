"""Gives each completion of a rollout its own random numbers (models/draws.py), whichever code samples.

    class VariantGRPOTrainer(ResumableRollouts, GRPOTrainer): ...     # ResumableRollouts is a SamplesByRow

A completion's key is the run's seed, the number of the rollout, and the completion's place in it: it stays the same if
the rollout is split otherwise over batches or processes, or the run is resumed. The key does not name the problem,
which may be drawn twice in a rollout: the second completion would be a copy. `row_keys` holds the keys for our own
loop; TRL's call of `generate` gets them in its generation config. vLLM and transformers' continuous batching draw from
generators of their own, as the batch comes.
tests/trainers/test_by_row.py holds what is relied on.
"""

from typing import Any

from rlhf_exp.models.draws import Key, draw_by_key


class SamplesByRow:
    """Comes before a TRL trainer that samples among the bases."""

    rollouts = 0
    """How many have begun."""

    row_keys: list[Key]
    """One for each completion of the rollout that is being sampled on this process."""

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        first = self.accelerator.process_index * len(inputs)
        self.row_keys = [("training", self.args.seed, self.rollouts, first + i) for i in range(len(inputs))]
        if not (self.use_vllm or self.use_transformers_continuous_batching):
            draw_by_key(self.generation_config, self.row_keys)
        self.rollouts += 1
        return super()._generate_and_score_completions(inputs)
