"""curriculum: a completion budget that rises in stages.

budget = curriculum.budget_at(step)        # {budgets: [256, 512, 1024], from_steps: [0, 30, 60]}: 512 at step 30
set_budget(trainer, budget)

A stage trains as a run with max_tokens=<its budget> would: the budget limits sampling, is dr_grpo's constant, gives
hybrid its `alpha`, and decides which completions count as truncated. It depends only on the number of finished
optimizer steps, which a checkpoint holds. It takes effect at the next rollout; minibatches of an earlier rollout keep
theirs. Evaluation always has max_tokens.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trl import GRPOTrainer


def set_budget(trainer: "GRPOTrainer", budget: int) -> None:
    """Limit the trainer's next rollouts. TRL copies its argument to these places when the trainer is built, and does
    not read it again. vLLM's context was sized for that argument, max_tokens, which no stage's budget exceeds."""
    trainer.max_completion_length = budget
    if trainer.use_vllm:
        trainer.vllm_generation.max_completion_length = budget
    else:
        trainer.generation_config.max_new_tokens = budget
        trainer.generation_kwargs["max_new_tokens"] = budget
