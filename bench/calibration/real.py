"""Settings and kinds of failure of SmolLM2-135M-Instruct: what rules of tiny models say of a real one.

    python bench/calibration/run.py --real        # needs `make smollm2`; about five hours of one core

As others.py: each meaning was written before its first run, DEVELOPED ones were looked at, the others are the test,
looked at once, and none is in a calibration. Rates are this package's defaults for a model of this size, but for
failures by a rate. The sums and the start model that answers some of them are those of docs/results/smollm2.md.
"""

import json
import random

from others import MEANT as MEANT_OTHERS
from settings import DRIFTS, NO_KL, ROOT, TRAINS_POLICY, reward, trainer
from settings import MEANT as MEANT_OWN

SUMS = ROOT / "prepared" / "sums.jsonl"
REAL = ["model=smollm2_135m", "device.threads=1", "eval.rows=48", "eval.batch_size=48", "eval.start_completions=1",
        "monitor.every_steps=5"]  # fmt: skip
WATCHED = ["eval.every=10", "eval.every_rows=32"]
ROWS = ["task=file", f"task.path={SUMS}", 'task.prompt_template="{question}"', "task.answer_column=answer",
        "task.checker=numeric", "max_tokens=12", "task.prompt=plain", *TRAINS_POLICY]  # fmt: skip
LEARNED = [*REAL, *ROWS, f"model.path={ROOT}/prepared/sums/model"]
BATCH = ["algo.args.per_device_train_batch_size=16", "algo.args.gradient_accumulation_steps=1"]
GROUPS = [*BATCH, "algo.args.num_generations=8", "algo.args.max_steps=20", *WATCHED]
GRPO, RLOO = ["algo=grpo", *LEARNED, *GROUPS], ["algo=rloo", *LEARNED, *GROUPS]
PPO_STEPS = [*BATCH, "algo.args.num_iterations=2", "algo.args.max_steps=24", "eval.every=12", "eval.every_rows=32"]
BREVITY = [*REAL, "task=brevity", "task@task.of=gsm8k", "task.of.source=generated", "task.of.prompt=plain",
           "max_tokens=16"]  # fmt: skip
PPO = ["algo=ppo", *BREVITY, *PPO_STEPS]
TEXTS = ["algo.args.per_device_train_batch_size=8", BATCH[1], "algo.args.max_steps=20", *WATCHED]
DPO = ["algo=dpo", *LEARNED, *TEXTS, "task.chosen_column=good", "task.rejected_column=bad"]
KTO = ["algo=kto", *DPO[1:]]

HEALTHY_DEVELOPED = {
    "smollm2_sft_sums": ["algo=sft", *REAL, *ROWS, *TEXTS, "task.completion_column=good"],
    "smollm2_grpo_sums": GRPO,
    "smollm2_grpo_brevity": ["algo=grpo", *BREVITY, *GROUPS],
    "smollm2_ppo_brevity": PPO,
    "smollm2_dpo_sums": DPO,
    "smollm2_reward_model": ["algo=reward_model", *REAL, "task=hh_rlhf", "task.source=generated",
                             "task.train_rows=400", "task.max_length=128", *TEXTS[:3]],
}  # fmt: skip
HEALTHY = {
    "smollm2_dr_grpo_lora": [*GRPO, "loss_type=dr_grpo", "peft=lora"],
    "smollm2_rloo_sums": RLOO,
    "smollm2_ppo_sums": ["algo=ppo", *LEARNED, *PPO_STEPS, "algo.args.critic=separate"],
    "smollm2_sft_gsm8k": ["algo=sft", *REAL, "task=gsm8k", "task.source=generated", "task.prompt=plain",
                          "task.train_rows=512", "max_tokens=48", *TEXTS, *TRAINS_POLICY],
    "smollm2_kto_sums": KTO,
    "smollm2_dapo_brevity": ["algo=grpo", *BREVITY, *GROUPS, "loss_type=dapo", "algo.args.num_iterations=2",
                             "algo.args.num_generations=4"],
}  # fmt: skip
FAILURES_DEVELOPED = {
    "smollm2_rate_300_times": [*GRPO, "algo.args.learning_rate=3e-3"],
    "smollm2_reward_zero": [*GRPO, *reward("zero")],
    "smollm2_no_eos": [*GRPO, trainer("NoEos")],
    "smollm2_labels_flipped": [*DPO, trainer("Flipped"), "algo.args.learning_rate=1e-4"],
}
FAILURES = {
    "smollm2_rate_a_thousandth": [*GRPO, "algo.args.learning_rate=1e-8"],
    "smollm2_length_pays": [*GRPO, *reward("length", 4), "+reward.weights.outcome=1.0", NO_KL,
                            "algo.args.learning_rate=1e-4"],
    "smollm2_critic_noise": [*PPO, "algo.args.critic=separate", trainer("NoisyCritic")],
    "smollm2_sft_rate_600_times": ["algo=sft", *REAL, *ROWS, *TEXTS, "task.completion_column=good",
                                   "algo.args.learning_rate=3e-2"],
}  # fmt: skip

MEANT = {
    "smollm2_rate_300_times": ("accuracy falls", f"{DRIFTS} accuracy_fell"),
    "smollm2_reward_zero": MEANT_OWN["reward_zero"],
    "smollm2_no_eos": MEANT_OWN["no_eos"],
    "smollm2_labels_flipped": MEANT_OWN["labels_flipped"],
    "smollm2_rate_a_thousandth": MEANT_OWN["rate_too_low"],
    "smollm2_length_pays": MEANT_OTHERS["length_pays"],
    "smollm2_critic_noise": MEANT_OWN["critic_noise"],
    "smollm2_sft_rate_600_times": ("the loss rises", MEANT_OTHERS["sft_rate_300_times"][1]),
}
SEEDS = {"healthy": (1, 2), "failures": (0, 1)}

PREPARED = {"sums": ["algo=sft", *REAL, *ROWS, *BATCH, "task.completion_column=good", "algo.args.max_steps=30",
                     "algo.args.learning_rate=1e-4"]}  # fmt: skip


def write_sums() -> None:
    SUMS.parent.mkdir(parents=True, exist_ok=True)
    draws = random.Random(0)
    pairs = draws.sample([(a, b) for a in range(10, 100) for b in range(10, 100)], 1200)
    with SUMS.open("w", encoding="utf-8") as rows:
        for a, b in pairs:
            row = {
                "question": f"I have {a} apples and get {b} more. How many apples do I have?",
                "answer": a + b,
                "good": f"You have {a + b} apples.",
                "bad": f"You have {a + b + draws.choice((-10, -1, 1, 10))} apples.",
            }
            rows.write(json.dumps(row) + "\n")
