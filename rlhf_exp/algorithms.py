"""Which data each algorithm learns from, and the losses it knows."""

PROMPTS, DEMONSTRATIONS, PAIRS = "prompts", "demonstrations", "preference pairs"

ALGO_NEEDS = {"grpo": PROMPTS, "ppo": PROMPTS, "sft": DEMONSTRATIONS, "dpo": PAIRS, "reward_model": PAIRS}
GRADED = ("countdown", "gsm8k")
"""Tasks whose answers are right or wrong: they have a grader, and their pairs are sampled from the start model."""

# The losses that TRL 1.16 knows (grpo_trainer.py, sft_config.py, dpo_trainer.py: a list), and our own hybrid of two of
# them (trainers/grpo/hybrid.py); TRL's reward model has one.
LOSS_TYPES = {
    "grpo": ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo", "hybrid"),
    "sft": ("nll", "dft"),
    "dpo": (
        *("sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot"),
        *("aot_unpaired", "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm"),
    ),
}
TRL_SAMPLING = ("min_p", "repetition_penalty", "generation_kwargs")
"""Arguments of GRPOConfig that generation=compact does not have."""

REWARDS = (
    *("outcome", "model", "graduated", "process", "think_format", "length_efficiency", "overlong", "repetition"),
    *("self_consistency", "brevity", "random", "constant"),
)
REWARD_TASKS = {
    "graduated": ("countdown",),
    "process": ("countdown",),
    **dict.fromkeys(("outcome", "length_efficiency", "self_consistency"), GRADED),
}
"""Tasks that a reward can read; one that is not here reads any."""

ARCHITECTURES = ("gpt2", "qwen2", "qwen3")
TOKENIZERS = ("words", "bytes")
