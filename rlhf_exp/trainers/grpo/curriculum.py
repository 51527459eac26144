"""curriculum: a completion budget that rises in stages.

budget = budget_at(step, curriculum)        # {budgets: [256, 512, 1024], from_steps: [0, 30, 60]}: 512 at step 30
set_budget(trainer, budget)

The rule is one: a stage trains as a run with max_tokens=<its budget> would. So the budget bounds sampling, is dr_grpo's
constant, and is what hybrid takes its `alpha` from; a completion counts as truncated where it has no end within it. It
follows from the number of finished optimizer steps alone, which a checkpoint holds, and takes effect with the next
rollout: minibatches of an earlier one keep theirs. Evaluation has max_tokens throughout.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trl import GRPOTrainer

    from rlhf_exp.config.schema import Curriculum


def budget_at(step: int, curriculum: "Curriculum") -> int:
    """The budget, in tokens, after `step` finished optimizer steps: of the last stage that has begun."""
    return curriculum.budgets[bisect_right(curriculum.from_steps, step) - 1]


def set_budget(trainer: "GRPOTrainer", budget: int) -> None:
    """Bound the trainer's next rollouts. TRL copies its argument to these places when it is built, and never reads it
    again; vLLM's context was sized for the argument, which is max_tokens, no stage's budget above it."""
    trainer.max_completion_length = budget
    if trainer.use_vllm:
        trainer.vllm_generation.max_completion_length = budget
    else:
        trainer.generation_config.max_new_tokens = budget
        trainer.generation_kwargs["max_new_tokens"] = budget
