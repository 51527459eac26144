"""Settings and kinds of failure on which no rule and no threshold was made: how the diagnosis does outside its own.

    HEALTHY["kto_default"]        # overrides, as in settings.py; with seeds, and whether a rule was shaped on it
    python bench/calibration/run.py --others

DEVELOPED ones showed what was wrong with earlier rules, and rules were mended on them. The others, ten settings and ten
kinds, are the test: they stay out of every calibration, and a version of the rules is judged by them once.
"""

from settings import (
    BREVITY,
    DPO,
    FAST,
    GROUPS,
    GRPO,
    HERE,
    HH_RM,
    KTO,
    MEASURED,
    NO_KL,
    PPO,
    RLOO,
    TRAINS_POLICY,
    WATCHED,
    reward,
)
from settings import HEALTHY as HEALTHY_OWN

GRPO_BREVITY = HEALTHY_OWN["grpo_brevity"]
FEW = "algo.args.num_generations=4"
LONG = ["algo.args.max_steps=60", "eval.every=20"]
MODULE = ["task=module", "max_tokens=48", "algo.args.max_steps=60", *TRAINS_POLICY]

HEALTHY_DEVELOPED = {
    "kto_default": ["experiment=compare_kto", "task.baselines=false", "task.sampling.rows=256", "max_tokens=48",
                    "algo.args.max_steps=60", "eval.every=20", "eval.every_rows=96"],
    "grpo_groups_of_4": [*GRPO, FEW, *LONG],
    "ppo_default": ["algo=ppo", "task=countdown", "max_tokens=48", "algo.args.max_steps=160", "eval.every=40",
                    "eval.every_rows=96", *TRAINS_POLICY],
    "grpo_brevity_long": [*GRPO_BREVITY, *LONG],
    "rloo_long": [*RLOO, *LONG],
}  # fmt: skip

HEALTHY = {
    "dr_grpo_groups_of_4": [*GRPO, "loss_type=dr_grpo", FEW, "max_tokens=40", "algo.args.max_steps=40"],
    "grpo_cosine": [*GRPO, "algo.args.learning_rate=5e-4", "algo.args.lr_scheduler_type=cosine",
                    "+algo.args.warmup_steps=5", "algo.args.max_steps=50", "eval.every=25"],
    "rloo_groups_of_4": [*RLOO, FEW, "algo.args.beta=0.02", "algo.args.max_steps=40"],
    "ppo_lambda": [*PPO, "algo.args.lam=0.95", "algo.args.init_kl_coef=0.03",
                   "algo.args.per_device_train_batch_size=16"],
    "ppo_brevity_one_pass": [*BREVITY, "max_tokens=48", "algo.args.steps_per_generation=2"],
    "dpo_ipo": [*DPO, "algo.args.loss_type=[ipo]", "algo.args.max_steps=60"],
    "kto_beta": [*KTO, "algo.args.beta=0.3", "algo.args.max_steps=80"],
    "sft_gsm8k_half_rate": ["algo=sft", "task=gsm8k", "task.source=generated", "model=tiny_qwen3", "max_tokens=32",
                            "task.train_rows=1024", "algo.args.learning_rate=5e-4", "algo.args.max_steps=150",
                            "eval.every=75", "eval.every_rows=64"],
    "reward_model_batch": [*HH_RM, "algo.args.max_steps=120", "algo.args.per_device_train_batch_size=32",
                           "algo.args.gradient_accumulation_steps=1"],
    "grpo_two_numbers": [*GRPO, "task.numbers=[2,3]", "reward=outcome", "max_tokens=64", "algo.args.max_steps=40"],
}  # fmt: skip

FAILURES_DEVELOPED = {
    "entropy_bonus_1": [*GRPO, *LONG, "algo.args.entropy_coef=1"],
    "rate_30_times": [*GRPO, "algo.args.learning_rate=3e-2"],
    "rate_a_hundredth": [*GRPO, "algo.args.learning_rate=1e-5"],
    "answer_in_prompts": ["algo=grpo", *MODULE, f"task.module={HERE}/shown.py", "reward=outcome", GROUPS,
                          "algo.args.per_device_train_batch_size=32", "algo.args.max_steps=40", *WATCHED],
    "sft_16_rows": ["experiment=compare_sft", "task.baselines=false", "task.train_rows=16", "max_tokens=48",
                    "algo.args.max_steps=120", "eval.every=40", "eval.every_rows=96"],
    "sft_rate_300_times": ["experiment=compare_sft", "task.baselines=false", "algo.args.learning_rate=0.3",
                           "max_tokens=48", "algo.args.max_steps=60", "eval.every=20", "eval.every_rows=96"],
    "length_pays": [*GRPO, *reward("length", 4), "+reward.weights.outcome=1.0", NO_KL, FAST, *LONG],
}  # fmt: skip

FAILURES = {
    "beta_100": [*GRPO, "algo.args.beta=100"],
    "warmup_10000": [*GRPO, "+algo.args.warmup_steps=10000"],
    "critic_rate_1e-9": [*PPO, "algo.args.critic=separate", "algo.args.critic_learning_rate=1e-9"],
    "reward_negated": [*GRPO, *reward("negated"), MEASURED, "algo.args.max_steps=40"],
    "temperature_3": [*GRPO, "algo.args.temperature=3", "algo.args.max_steps=40"],
    "weight_decay_30": [*GRPO, "+algo.args.weight_decay=30", "algo.args.max_steps=40"],
    "dpo_32_pairs": [*DPO, "task.sampling.rows=16", "algo.args.learning_rate=1e-3", "algo.args.max_steps=120",
                     "eval.every=40"],
    "sft_answers_of_others": ["algo=sft", *MODULE, f"task.module={HERE}/swapped.py",
                              "algo.args.per_device_train_batch_size=32", "algo.args.max_steps=120",
                              "eval.every=40", "eval.every_rows=96"],
    "kto_rate_30_times": [*KTO, "algo.args.learning_rate=3e-3", "algo.args.max_steps=60"],
    "rloo_adam_epsilon": [*RLOO, "+algo.args.adam_epsilon=1"],
}  # fmt: skip

MEANT = {
    "entropy_bonus_1": ("accuracy falls, entropy rises", "entropy_explosion kl_drift held_out_kl accuracy_fell"),
    "rate_30_times": ("accuracy falls to 0", "kl_drift held_out_kl gradient_spike entropy_collapse entropy_explosion"
                      " accuracy_fell reward_fell nonfinite_loss"),
    "rate_a_hundredth": ("nothing is learned", "policy_stands_still"),
    "answer_in_prompts": ("held-out accuracy does not rise with training's", ""),
    "sft_16_rows": ("training rows are learned by heart", "overfitting"),
    "sft_rate_300_times": ("accuracy falls to 0", "gradient_spike kl_drift held_out_kl accuracy_fell loss_rose"),
    "length_pays": ("completions lengthen and are cut off",
                    "truncation reward_without_gain one_component_carries_the_reward failed_rising"
                    " reward_apart_from_outcome accuracy_fell kl_drift held_out_kl"),
    "beta_100": ("nothing is learned", "policy_stands_still"),
    "warmup_10000": ("nothing is learned", "policy_stands_still"),
    "critic_rate_1e-9": ("the critic explains nothing", "explained_variance"),
    "reward_negated": ("accuracy falls", "reward_apart_from_outcome accuracy_fell"),
    "temperature_3": ("rollouts are noise", "misses_end_of_text sampled_apart_from_trained no_reward_variance"
                      " entropy_explosion truncation policy_stands_still"),
    "weight_decay_30": ("accuracy falls", "accuracy_fell kl_drift held_out_kl entropy_explosion reward_fell"),
    "dpo_32_pairs": ("few pairs are learned by heart", "overfitting chosen_falls kl_drift held_out_kl"
                     " accuracy_fell"),
    "sft_answers_of_others": ("wrong answers are learned", "accuracy_fell failed_rising"),
    "kto_rate_30_times": ("accuracy falls", "kl_drift held_out_kl accuracy_fell gradient_spike chosen_falls"),
    "rloo_adam_epsilon": ("nothing is learned", "policy_stands_still"),
}  # fmt: skip
"""As settings.MEANT, written before any of these was run."""

SEEDS = {"healthy": (1, 2), "failures": (0, 1)}
