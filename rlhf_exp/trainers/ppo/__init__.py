"""PPO as a subclass of TRL's GRPOTrainer: its arguments here; trainer.py (rollouts and loss), actor_critic.py (the
critic's part in training and saving), advantages.py (rewards per token, GAE, the price of KL), critic.py.

    PPOConfig(output_dir="x", per_device_train_batch_size=32, steps_per_generation=4, num_iterations=2)

A rollout is `generation_batch_size` completions. Training passes over it `num_iterations` times (the PPO epochs), each
time in reshuffled minibatches of per_device_train_batch_size x gradient_accumulation_steps.
"""

from dataclasses import dataclass

from trl import GRPOConfig


@dataclass
class PPOConfig(GRPOConfig):
    """The keys of `algo=ppo` (schema.Ppo); conf/algo/ppo.yaml says what each is."""

    num_generations: int | None = 1
    loss_type: str = "dapo"
    beta: float = 0.0
    critic: str = "shared"
    critic_learning_rate: float = 1e-3
    critic_warmup_steps: int = 0
    vf_coef: float = 0.1
    cliprange_value: float | None = 0.2
    gamma: float = 1.0
    lam: float = 1.0
    whiten_advantages: bool = True
    init_kl_coef: float = 0.05
    target_kl: float | None = None
    kl_horizon: int = 10_000
    missing_eos_penalty: float | None = None

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
