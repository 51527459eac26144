"""The runs of the calibration, fixed before any rule was applied: healthy settings, and failures induced on purpose.

    HEALTHY["grpo_48"]             # overrides of the command line, to which SHARED, the seed and the folder are added
    FAILURES["rate_too_high"]      # likewise; MEANT["rate_too_high"]: how it shows, and the right findings

A setting is a shipped one with its own rates and losses, shortened to 12 to 80 steps of smaller batches. It was taken
if its run of seed 100, which is in no table, did not lower held-out accuracy or reward (for preference data, accuracy
on held-out pairs).
"""

from pathlib import Path

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
        "algo.args.per_device_train_batch_size=32", *TRAINS_POLICY, *WATCHED]  # fmt: skip
GROUPS = "algo.args.num_generations=8"
GRPO, RLOO = [*GRPO, GROUPS], ["algo=rloo", *GRPO[1:], GROUPS]
PPO = ["algo=ppo", "task=countdown", "max_tokens=48", "algo.args.max_steps=80",
       "algo.args.per_device_train_batch_size=8", *TRAINS_POLICY, "eval.every=40", "eval.every_rows=96"]  # fmt: skip
SELF = ["task=countdown", "task.samples=self", "task.sampling.rows=96", "max_tokens=48", "eval.batch_size=128",
        *TRAINS_POLICY, "eval.every=20", "eval.every_rows=96"]  # fmt: skip
DPO = ["algo=dpo", *SELF, "algo.args.max_steps=40", "algo.args.per_device_train_batch_size=16"]
KTO = ["algo=kto", *SELF, "algo.args.max_steps=40", "algo.args.per_device_train_batch_size=32"]
PAIRS = ["task=hh_rlhf", "task.source=generated", "task.train_rows=1000", "task.max_length=256"]
HH_RM = ["experiment=hh_rlhf_gpt2_reward_model_tiny", "algo.args.max_steps=80"]
HH_DPO = ["experiment=hh_rlhf_gpt2_dpo_tiny", "algo.args.max_steps=60", "max_tokens=32"]
ROWS = ["task=file", f"task.path={HERE.parent.parent}/examples/own_task/rows.jsonl",
        f"task.checker={HERE.parent.parent}/examples/own_task/check.py:grade",
        'task.prompt_template="use {a} {b} {c} make {target} ."', "eval.rows=null", "eval.every_rows=32"]  # fmt: skip
BREVITY = [*(one for one in PPO if not one.startswith("task")), "task=brevity", "max_tokens=32"]
MEASURED = "+reward.weights.outcome=0"
LEARNED = ["reward=model", f"reward.path={ROOT}/prepared/reward_model", MEASURED]
RM = ["algo=reward_model", "task=countdown", "task.samples=self", "task.sampling.rows=256", "max_tokens=48",
      "algo.args.max_steps=60", "algo.args.per_device_train_batch_size=16", "eval.batch_size=128"]  # fmt: skip

TWICE = "algo.args.num_iterations=2"
"""With one pass, dapo, bnpo and cispo have the same gradient."""

HEALTHY = {
    "grpo_24": [*GRPO, "max_tokens=24"],
    "grpo_32": [*GRPO, "max_tokens=32"],
    "grpo_48": GRPO,
    "grpo_64": [*GRPO, "max_tokens=64"],
    "grpo_96": [*GRPO, "max_tokens=96", "algo.args.max_steps=16"],
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
    "grpo_lora": [*GRPO, "peft=lora"],
    "grpo_file": [*GRPO, *ROWS],
    "qwen3_tiny": ["experiment=countdown_qwen3_tiny", "task.baselines=false", "max_tokens=48"],
    "grpo_brevity": [*(one for one in GRPO if not one.startswith("task")), "task=brevity", "max_tokens=32"],
    "rloo": RLOO,
    "rloo_32": [*RLOO, "max_tokens=32"],
    "rloo_lora": [*RLOO, "peft=lora"],
    "ppo_shared": PPO,
    "ppo_shared_32": [*PPO, "max_tokens=32"],
    "ppo_separate": [*PPO, "algo.critic=separate"],
    "ppo_target_kl": [*PPO, "algo.target_kl=2"],
    "ppo_file": [*PPO, *ROWS],
    "ppo_brevity": BREVITY,
    "ppo_brevity_separate": [*BREVITY, "algo.critic=separate"],
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
    "hh_reward_model_qwen3": [*HH_RM, "model=tiny_qwen3"],
    "hh_reward_model_lora": [*HH_RM, "peft=lora"],
    "reward_model": RM,
    "reward_model_lora": [*RM, "peft=lora"],
    "grpo_reward_model": [*GRPO, *LEARNED],
    "rloo_reward_model": [*RLOO, *LEARNED],
    "ppo_reward_model": [*PPO, *LEARNED],
    "kto_lora": [*KTO, "peft=lora"],
    "hh_dpo_lora": [*HH_DPO, "peft=lora"],
    "sft_traces_32": ["experiment=compare_sft", "task.baselines=false", "algo.args.max_steps=60", "max_tokens=32"],
    "ppo_target_kl_32": [*PPO, "algo.target_kl=2", "max_tokens=32"],
    "ppo_target_kl_separate": [*PPO, "algo.target_kl=2", "algo.critic=separate"],
}  # fmt: skip


def reward(name: str, weight: float = 1.0) -> list[str]:
    """The faulty reward `name` of faults.py in place of the task's."""
    return ["reward=none", f"+reward.functions.{name}={FAULTS}:{name}", f"+reward.weights.{name}={weight}"]


def trainer(name: str) -> str:
    return f"algo.trainer={FAULTS}:{name}"


FAST, NO_KL = "algo.args.learning_rate=3e-3", "algo.args.beta=0"
FAILURES = {
    "rate_too_high": [*GRPO, "algo.args.learning_rate=1e-2"],
    "rate_too_low": [*GRPO, "algo.args.learning_rate=1e-6"],
    "pretrained_rate": [*RLOO, "algo.args.learning_rate=2e-2", "algo.args.lr_scheduler_type=constant"],
    "farmable_no_kl": [*GRPO, *reward("equations"), "+reward.weights.outcome=1.0", NO_KL, FAST],
    "partial_only": [*GRPO, *reward("partial"), MEASURED, NO_KL, FAST],
    "budget_too_small": [*GRPO, "max_tokens=12"],
    "top_p": [*GRPO, "+algo.args.top_p=0.7"],
    "wrong_reference": [*GRPO, trainer("WrongReference"), "algo.args.beta=1"],
    "frozen_adapter": [*GRPO, "peft=lora", trainer("FrozenAdapter")],
    "reward_zero": [*GRPO, *reward("zero")],
    "reward_shifted": [*GRPO, *reward("shifted")],
    "no_eos": [*GRPO, trainer("NoEos")],
    "one_outcome": [*GRPO, *reward("strict"), "algo.args.num_generations=2", "algo.args.temperature=0.2"],
    "vf_coef_0": [*PPO, "algo.vf_coef=1e-12"],
    "huge_clip": [*PPO, "algo.args.epsilon=1000", "algo.cliprange_value=null", "algo.args.num_iterations=4",
                  "algo.args.max_steps=160", "eval.every=80", FAST, "algo.init_kl_coef=0"],
    "critic_noise": [*PPO, "algo.critic=separate", trainer("NoisyCritic")],
    "labels_flipped": [*DPO, trainer("Flipped"), "algo.args.learning_rate=1e-3"],
    "dpo_displaced": [*DPO, FAST],
    "reward_model_hacked": [*GRPO, "reward=model", f"reward.path={ROOT}/prepared/weak_reward_model", MEASURED,
                            NO_KL, FAST],
    "reward_model_length": [*HH_RM, trainer("LongerIsBetter")],
    "test_rows_in_training": ["algo=sft", "task=module", f"task.module={HERE}/leaked.py", "max_tokens=48",
                              "algo.args.max_steps=120",
                              "algo.args.warmup_steps=10", "algo.args.per_device_train_batch_size=32"],
    "stale_sampling": [*GRPO, trainer("StaleSampling"), NO_KL, FAST],
    "component_100": [*GRPO, *reward("length", 100), "+reward.weights.outcome=1.0"],
    "reward_random": [*GRPO, *reward("noise"), NO_KL, FAST],
}  # fmt: skip

DRIFTS = "kl_drift held_out_kl gradient_spike nonfinite_loss entropy_collapse entropy_explosion reward_fell"
MEANT = {
    "rate_too_high": ("accuracy falls", DRIFTS),
    "rate_too_low": ("nothing is learned", "policy_stands_still"),
    "pretrained_rate": ("accuracy falls to 0", DRIFTS),
    "farmable_no_kl": ("accuracy falls, reward rises", "one_component_carries_the_reward reward_without_gain"
                       " reward_apart_from_outcome"),
    "partial_only": ("accuracy falls, reward rises",
                     "format_farming one_component_carries_the_reward reward_without_gain reward_apart_from_outcome"),
    "budget_too_small": ("all completions are cut off", "truncation no_reward_variance"),
    "top_p": ("the sampled distribution is not the trained one", "negative_kl sampled_apart_from_trained"),
    "wrong_reference": ("the policy is held to another model", "wrong_reference"),
    "frozen_adapter": ("no weight changes", "policy_stands_still"),
    "reward_zero": ("nothing can be learned", "no_reward_variance"),
    "reward_shifted": ("accuracy does not rise", "reward_apart_from_outcome"),
    "no_eos": ("every rollout fills the budget", "misses_end_of_text truncation"),
    "one_outcome": ("most groups have one outcome", "no_reward_variance"),
    "vf_coef_0": ("the critic explains nothing", "explained_variance"),
    "huge_clip": ("accuracy falls", f"{DRIFTS} clip_fraction sampled_apart_from_trained"),
    "critic_noise": ("explained variance far below 0", "explained_variance value_loss_spike"),
    "labels_flipped": ("accuracy falls", "accuracy_fell"),
    "dpo_displaced": ("chosen log-probabilities fall", "chosen_falls kl_drift held_out_kl"),
    "reward_model_hacked": ("accuracy falls, the model's score rises",
                            "over_optimisation one_component_carries_the_reward reward_without_gain"),
    "reward_model_length": ("held-out pairs at chance", "ranks_by_length reward_model_at_chance"),
    "test_rows_in_training": ("held-out rows were learned by heart", ""),
    "stale_sampling": ("rollouts are the start model's", "sampled_apart_from_trained"),
    "component_100": ("accuracy falls", "one_component_carries_the_reward reward_without_gain"
                      " reward_apart_from_outcome"),
    "reward_random": ("accuracy does not rise", "reward_apart_from_outcome"),
}  # fmt: skip
"""Of each failure how it shows that the run is sick, apart from any rule, and the findings that name it rightly:
several where they share the cause."""

CHECKS = {
    "budget_too_small": "end_of_text variance reward_reachability training_signal",
    "component_100": "reward_follows_outcome gameability_gap",
    "farmable_no_kl": "reward_follows_outcome adversarial_floor gameability_gap",
    "frozen_adapter": "parameters_change",
    "no_eos": "end_of_text sampling_is_the_policy",
    "one_outcome": "training_signal",
    "partial_only": "reward_follows_outcome oracle_max gameability_gap",
    "reward_random": "verifier_determinism reward_follows_outcome",
    "reward_shifted": "verifier_determinism reward_follows_outcome",
    "reward_zero": "reward_reachability variance",
    "stale_sampling": "sampling_is_the_policy",
    "test_rows_in_training": "splits_are_disjoint",
    "top_p": "sampling_is_the_policy",
    "vf_coef_0": "parameters_change",
    "wrong_reference": "policy_is_reference",
}  # fmt: skip
"""The checks of the preflight that name a failure rightly. A check that only warns names one if it warns in no healthy
run."""

SEVERAL_FAULTS = ("farmable_no_kl", "huge_clip", "one_outcome", "partial_only", "reward_model_hacked", "reward_random")
"""Failures with more than one fault, such as a bad reward and, with FAST and NO_KL, what lets it do harm."""

PREPARED = {
    "reward_model": [*RM, "task.sampling.rows=1000", "algo.args.max_steps=200", "eval.rows=96"],
    "weak_reward_model": ["algo=reward_model", "task=countdown", "task.samples=self", "task.sampling.rows=64",
                          "max_tokens=48", "algo.args.max_steps=12", "algo.args.per_device_train_batch_size=16",
                          "eval.rows=96"],
}  # fmt: skip
"""Runs that others start from; they are in no table."""

DEVELOPED = (0, 1, *range(4, 12), *range(16, 20), *range(24, 28))
"""Seeds of failures that were looked at; the others are the test. Rules were developed on 0 and 1; 4 to 7, 8 to 11,
16 to 19 and 24 to 27 were the tests of earlier tables, as 6 to 8, 10 to 12, 13 to 15, 16 to 18 and 19 to 21 were of
healthy runs, and 2 and 3 that of one which is thrown away. Healthy runs of seeds 0 to 8, and failures but for
`test_rows_in_training` of seeds 8 to 11, were run without cutting off reasoning. Seeds 28 to 31
were the test of the rules before these, and were looked at again while these were made: the kinds of others.py are the
test that nothing was shaped on."""

GAINED_NOTHING = ("dpo_lora", "grpo_lora", "kto", "kto_lora", "sft_traces", "sft_traces_32")
"""Settings whose 25 runs together gained neither accuracy nor reward nor wins that can be measured: their runs set no
threshold of `policy_stands_still`, which is no false alarm there."""

SEEDS = {
    "healthy": range(22),
    "healthy_test": range(22, 25),
    "failures": (*DEVELOPED, *range(28, 32)),
}
"""`healthy` set the thresholds; `healthy_test` are judged by them. A healthy run trains and is measured with 100 times
this plus the place of its setting: no two runs have the same seed, though their rows overlap."""
