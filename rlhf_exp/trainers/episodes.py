"""Episodes: rollouts of several turns, in which the policy calls the tools of an environment.

    class VariantGRPOTrainer(Episodes, GRPOTrainer): ...
    VariantGRPOTrainer(..., environment_factory={"game": Game})

TRL plays them: it resets an environment for each row, reads the calls out of what the policy writes, calls the tools,
and goes on after their results, which no loss is taken of (`tool_mask`). TRL calls this experimental;
tests/tasks/test_environment.py holds what is relied on. Here the policy writes each turn by our own decoding loop, from
the stream of the row and the turn.
"""

from typing import Any

from rlhf_exp.models.generation import sample_rollout
from rlhf_exp.trainers.rollouts import Batch, Rollouts


class Episodes(Rollouts):
    """Comes before GRPOTrainer among the bases. Without environments it changes nothing."""

    environment_factories: Any

    newest_tool_mask: list[list[int]]
    """Of the newest rollout: 1 for each token that the policy wrote, 0 for what a tool returned."""

    turns = 0
    """Turns of the newest rollout so far."""

    def give_keys(self, count: int) -> None:
        super().give_keys(count)
        self.turns = 0

    def _generate(self, prompts: list) -> tuple:
        generated = super()._generate(prompts)
        if self.environment_factories is not None:
            self.newest_tool_mask = generated[2]
        return generated

    def _generate_single_turn(self, prompt_ids: list[list[int]], *others: Any, **more: Any) -> tuple:
        """A turn of those rows that go on. TRL does not say which they are, so that after the first turn a stream is
        named by the place among them."""
        if self.environment_factories is None or self.use_vllm:
            return super()._generate_single_turn(prompt_ids, *others, **more)
        self.turns += 1
        keys = self.row_keys
        self.row_keys = [(*key, "turn", self.turns) for key in keys[: len(prompt_ids)]]
        completions = sample_rollout(self, prompt_ids)
        logps: Any = self.sampled_logps
        self.sampled_logps, self.row_keys = None, keys
        return completions, [row[: len(ids)].tolist() for row, ids in zip(logps, completions, strict=True)]

    def finish_rollout(self, batch: Batch) -> Batch:
        if self.environment_factories is not None and not self.use_vllm:
            batch["sampled_logps"] = batch.pop("sampling_per_token_logps")
        return batch
