"""The runs of the calibration, fixed before any rule was applied: healthy settings, and failures induced on purpose.

    HEALTHY["grpo_48"]             # overrides of the command line, to which SHARED, the seed and the folder are added
    FAILURES["rate_too_high"]      # Failure(overrides, right names, how the harm shows)

A setting is a shipped one with its own rates and losses, shortened to 12 to 80 steps of smaller batches. It was taken
if its run of seed 100, which is in no table, did not lower held-out accuracy or reward (for preference data, accuracy
on held-out pairs).
"""

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
FAULTS = f"{HERE}/faults.py"
ROOT = Path("/tmp/calibration")

SHARED = [
    "eval.rows=96", "eval.start_completions=2", "monitor.every_steps=2", "algo.args.logging_steps=1",
    "algo.args.disable_tqdm=true", "device=cpu",
]  # fmt: skip
TRAINS_POLICY = ["task.baselines=false"]
WATCHED = ["eval.every=10", "eval.every_rows=96"]
"""Held-out accuracy and reward in training, three times."""

GRPO = ["algo=grpo", "task=countdown", "max_tokens=48", "algo.args.max_steps=20",
        "algo.args.per_device_train_batch_size=64", *TRAINS_POLICY, *WATCHED]  # fmt: skip
RLOO = ["algo=rloo", *GRPO[1:]]
PPO = ["algo=ppo", "task=countdown", "max_tokens=48", "algo.args.max_steps=80",
       "algo.args.per_device_train_batch_size=16", *TRAINS_POLICY, "eval.every=40", "eval.every_rows=96"]  # fmt: skip
SELF = ["task=countdown", "task.samples=self", "task.sampling.rows=128", "max_tokens=48", "eval.batch_size=128",
        *TRAINS_POLICY, "eval.every=20", "eval.every_rows=96"]  # fmt: skip
DPO = ["algo=dpo", *SELF, "algo.args.max_steps=40", "algo.args.per_device_train_batch_size=16"]
KTO = ["algo=kto", *SELF, "algo.args.max_steps=40", "algo.args.per_device_train_batch_size=32"]
PAIRS = ["task=hh_rlhf", "task.source=generated", "task.train_rows=1000", "task.max_length=256"]
HH_RM = ["experiment=hh_rlhf_gpt2_reward_model_tiny", "algo.args.max_steps=80"]
HH_DPO = ["experiment=hh_rlhf_gpt2_dpo_tiny", "algo.args.max_steps=60", "max_tokens=32"]
ROWS = ["task=file", f"task.path={HERE.parent.parent}/examples/own_task/rows.jsonl",
        f"task.checker={HERE.parent.parent}/examples/own_task/check.py:grade",
        'task.prompt_template="use {a} {b} {c} make {target} ."', "eval.rows=null", "eval.every_rows=32"]  # fmt: skip
BREVITY = ["experiment=brevity_lr_1e-5_tiny", "algo.args.max_steps=120"]

TWICE = "algo.args.num_iterations=2"
"""With one pass, dapo, bnpo and cispo have the same gradient."""

HEALTHY = {
    "grpo_24": [*GRPO, "max_tokens=24"],
    "grpo_32": [*GRPO, "max_tokens=32"],
    "grpo_48": GRPO,
    "grpo_64": [*GRPO, "max_tokens=64", "algo.args.max_steps=16"],
    "grpo_96": [*GRPO, "max_tokens=96", "algo.args.max_steps=12"],
    "dr_grpo": [*GRPO, "loss_type=dr_grpo"],
    "dr_grpo_32": [*GRPO, "loss_type=dr_grpo", "max_tokens=32"],
    "dapo": [*GRPO, "loss_type=dapo"],
    "bnpo": [*GRPO, "loss_type=bnpo", TWICE],
    "cispo": [*GRPO, "loss_type=cispo", TWICE],
    "hybrid": [*GRPO, "loss_type=hybrid"],
    "sapo": [*GRPO, "loss_type=sapo", TWICE],
    "grpo_two_passes": [*GRPO, TWICE],
    "grpo_curriculum": [*GRPO, "algo.curriculum.budgets=[32,48]", "algo.curriculum.from_steps=[0,10]"],
    "grpo_outcome": [*GRPO, "reward=outcome"],
    "grpo_graduated": [*GRPO, "reward=graduated"],
    "grpo_length_efficiency": [*GRPO, "reward=length_efficiency"],
    "grpo_process": [*GRPO, "reward=process"],
    "grpo_lora": [*GRPO, "peft=lora"],
    "grpo_file": [*GRPO, *ROWS],
    "qwen3_tiny": ["experiment=countdown_qwen3_tiny", "task.baselines=false", "max_tokens=48"],
    "grpo_brevity": [*GRPO[:1], "task=brevity", *GRPO[2:5], *WATCHED, "max_tokens=32"],
    "rloo": RLOO,
    "rloo_32": [*RLOO, "max_tokens=32"],
    "rloo_lora": [*RLOO, "peft=lora"],
    "ppo_shared": PPO,
    "ppo_shared_32": [*PPO, "max_tokens=32"],
    "ppo_separate": [*PPO, "algo.critic=separate"],
    "ppo_target_kl": [*PPO, "algo.target_kl=2"],
    "ppo_file": [*PPO, *ROWS],
    "ppo_brevity_1e-5": BREVITY,
    "ppo_brevity_1e-6": ["experiment=brevity_lr_1e-6_tiny", *BREVITY[1:]],
    "sft_traces": ["experiment=compare_sft", "task.baselines=false", "algo.args.max_steps=60", "max_tokens=48"],
    "sft_gsm8k": ["algo=sft", "task=gsm8k", "task.source=generated", "model=tiny_qwen3", "max_tokens=32",
                  "task.train_rows=512", "algo.args.max_steps=80", "eval.every=40", "eval.every_rows=64"],
    "sft_gsm8k_qwen2": ["algo=sft", "task=gsm8k", "task.source=generated", "model=tiny_qwen2", "max_tokens=32",
                        "task.train_rows=512", "algo.args.max_steps=80"],
    "rejection_sampling": ["experiment=countdown_rejection_sampling", *SELF[2:], "algo.args.max_steps=40",
                           "algo.args.warmup_steps=5"],
    "dpo": DPO,
    "dpo_lora": [*DPO, "peft=lora"],
    "kto": KTO,
    "hh_dpo": HH_DPO,
    "hh_dpo_qwen3": [*HH_DPO, "model=tiny_qwen3"],
    "hh_reward_model": HH_RM,
    "hh_reward_model_qwen2": [*HH_RM, "model=tiny_qwen2"],
}  # fmt: skip


class Failure(NamedTuple):
    overrides: list[str]
    names: tuple[str, ...]
    """Findings that are the right ones; several where one cause shows in several ways."""
    harm: str
    """What shows that the run is sick, apart from any rule."""


def reward(name: str, weight: float = 1.0) -> list[str]:
    """The faulty reward `name` of faults.py in place of the task's."""
    return ["reward=none", f"+reward.functions.{name}={FAULTS}:{name}", f"+reward.weights.{name}={weight}"]


def trainer(name: str) -> str:
    return f"algo.trainer={FAULTS}:{name}"


FAST = "algo.args.learning_rate=3e-3"
FAILURES = {
    "rate_too_high": Failure([*GRPO, "algo.args.learning_rate=1e-2"], (), "accuracy falls"),
    "rate_too_low": Failure([*GRPO, "algo.args.learning_rate=1e-6"], (), "nothing is learned"),
    "pretrained_rate": Failure([*RLOO, "algo.args.learning_rate=2e-2", "algo.args.lr_scheduler_type=constant"], (), "accuracy falls"),
    "farmable_no_kl": Failure([*GRPO, *reward("equations"), "+reward.weights.outcome=1.0", "algo.args.beta=0", FAST], (), "accuracy falls, reward rises"),
    "partial_only": Failure([*GRPO, *reward("partial"), "+reward.weights.outcome=0", "algo.args.beta=0", FAST], (), "accuracy falls, reward rises"),
    "budget_too_small": Failure([*GRPO, "max_tokens=12"], (), "nearly all completions are cut off, accuracy 0"),
    "top_p": Failure([*GRPO, "+algo.args.top_p=0.7"], (), "the sampled distribution is not the trained one"),
    "wrong_reference": Failure([*GRPO, trainer("WrongReference"), "algo.args.beta=1"], (), "accuracy falls"),
    "frozen_adapter": Failure([*GRPO, "peft=lora", trainer("FrozenAdapter")], (), "no weight changes"),
    "reward_zero": Failure([*GRPO, *reward("zero")], (), "nothing can be learned"),
    "reward_shifted": Failure([*GRPO, *reward("shifted")], (), "accuracy does not rise"),
    "no_eos": Failure([*GRPO, trainer("NoEos")], (), "every completion fills the budget"),
    "one_outcome": Failure([*GRPO, *reward("strict"), "algo.args.num_generations=2", "algo.args.temperature=0.2"], (), "most groups have one outcome"),
    "vf_coef_0": Failure([*PPO, "algo.vf_coef=1e-12"], (), "the critic explains nothing"),
    "huge_clip": Failure([*PPO, "algo.args.epsilon=1000", "algo.cliprange_value=null", "algo.args.num_iterations=4", "algo.args.max_steps=160", "eval.every=80", FAST, "algo.init_kl_coef=0"], (), "accuracy falls"),
    "critic_noise": Failure([*PPO, "algo.critic=separate", trainer("NoisyCritic")], (), "explained variance far below 0"),
    "labels_flipped": Failure([*DPO, trainer("Flipped"), "algo.args.learning_rate=3e-4"], (), "accuracy falls"),
    "dpo_displaced": Failure([*DPO, FAST], (), "chosen log-probabilities fall, accuracy falls"),
    "reward_model_hacked": Failure([*GRPO, "reward=model", f"reward.path={ROOT}/prepared/weak_reward_model", "+reward.weights.outcome=0", "algo.args.beta=0", FAST], (), "accuracy falls, the model's score rises"),
    "reward_model_length": Failure([*HH_RM, trainer("LongerIsBetter")], (), "held-out pairs at chance, the longer answer wins"),
    "test_rows_in_training": Failure(["algo=sft", "task=module", f"task.module={HERE}/leaked.py", "max_tokens=48", "eval.every=40", "eval.every_rows=96", "algo.args.max_steps=120", "algo.args.warmup_steps=10", "algo.args.per_device_train_batch_size=32"], (), "held-out accuracy is of rows that were learned by heart"),
    "stale_sampling": Failure([*GRPO, trainer("StaleSampling"), "algo.args.beta=0", FAST], (), "sampled by the start model throughout"),
    "component_100": Failure([*GRPO, *reward("length", 100), "+reward.weights.outcome=1.0"], (), "accuracy falls"),
    "reward_random": Failure([*GRPO, *reward("noise"), "algo.args.beta=0", FAST], (), "accuracy does not rise"),
}  # fmt: skip

PREPARED = {
    "weak_reward_model": ["algo=reward_model", "task=countdown", "task.samples=self", "task.sampling.rows=64",
                          "max_tokens=48", "algo.args.max_steps=12", "algo.args.per_device_train_batch_size=16",
                          "eval.rows=96"],
}  # fmt: skip
"""Runs that others start from; they are in no table."""

SEEDS = {"healthy": (0, 1, 2), "failures": (0, 1, 2, 3)}
"""A healthy run trains and is measured with 100 times this plus the place of its setting, so that no two share rows."""
DEVELOPED = (0, 1)
"""Seeds of failures that rules were developed on; the others are the test."""
