"""PPO as a subclass of TRL's GRPOTrainer: its arguments here; trainer.py (rollouts and loss), actor_critic.py (the
critic's part in training and saving), advantages.py (rewards per token, GAE, the price of KL), critic.py.

    build_args(compose_config(["algo=ppo", "algo.args.num_iterations=2"]))      # a PPOConfig

A rollout is `generation_batch_size` completions. Training passes over it `num_iterations` times (the PPO epochs), each
time in reshuffled minibatches of per_device_train_batch_size x gradient_accumulation_steps.
"""

from dataclasses import dataclass
from typing import Literal

from trl import GRPOConfig


@dataclass(kw_only=True)
class PPOConfig(GRPOConfig):
    """TRL's arguments and PPO's own, whose defaults, and what each is, stand in conf/algo/ppo.yaml alone."""

    num_generations: int | None = 1
    loss_type: str = "dapo"
    beta: float = 0.0
    critic: Literal["shared", "separate"]
    critic_learning_rate: float
    critic_warmup_steps: int
    vf_coef: float
    cliprange_value: float | None
    gamma: float
    lam: float
    whiten_advantages: bool
    init_kl_coef: float
    target_kl: float | None
    kl_horizon: int
    missing_eos_penalty: float | None

    def __post_init__(self) -> None:
        """GRPO refuses groups of one. PPO has them, since its advantages do not compare completions of one prompt."""
        group = self.num_generations
        rounds = self.steps_per_generation or self.gradient_accumulation_steps
        self.num_generations = self.generation_batch_size or self.per_device_train_batch_size * rounds
        super().__post_init__()
        self.num_generations = group
        if self.generation_batch_size % group:  # type: ignore[operator]  # the parent has set it
            raise ValueError(
                f"a rollout of {self.generation_batch_size} does not hold groups of num_generations={group}"
            )
