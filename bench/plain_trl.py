"""GRPO on Countdown as one would write it by hand with TRL alone; bench/layer.py compares with it.

    python bench/plain_trl.py MODEL_FOLDER ROWS.jsonl ARGS.json OUT.json

ROWS has `prompt`, `numbers` and `target`; ARGS holds GRPOConfig's arguments; the time of each log is written to OUT.
"""

import json
import sys
import time

from datasets import load_dataset
from transformers import AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from rlhf_exp.rewards.countdown import grade


def outcome(completions, numbers, target, **kwargs):
    return [grade(c, n, t).score for c, n, t in zip(completions, numbers, target, strict=True)]


class Clock(TrainerCallback):
    def __init__(self):
        self.logged_at = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.logged_at.append(time.perf_counter())


if __name__ == "__main__":
    model, rows, arguments, out = sys.argv[1:]
    with open(arguments) as file:
        args = GRPOConfig(**json.load(file))
    clock = Clock()
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=outcome,
        args=args,
        train_dataset=load_dataset("json", data_files=rows, split="train"),
        processing_class=AutoTokenizer.from_pretrained(model),
        callbacks=[clock],
    )
    trainer.train()
    with open(out, "w") as file:
        json.dump(clock.logged_at, file)
