"""GRPO on Countdown, or SFT, as one would write it by hand with TRL alone; bench/layer.py and bench/gpu.py compare
with it.

    python bench/plain_trl.py grpo MODEL_FOLDER ROWS.jsonl ARGS.json OUT.json

ROWS has `prompt`, `numbers` and `target` for grpo, `prompt` and `completion` for sft; ARGS holds the arguments of TRL's
config. OUT gets the time and the tokens of each log, and the GPU's peak.
"""

import json
import sys
import time

import torch
from datasets import load_dataset
from transformers import AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from rlhf_exp.graders import read_text
from rlhf_exp.rewards.countdown import grade


def outcome(completions, numbers, target, **kwargs):
    return [grade(read_text(c), n, t).score for c, n, t in zip(completions, numbers, target, strict=True)]


class Clock(TrainerCallback):
    def __init__(self):
        self.logs = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.logs.append({"time_s": time.perf_counter(), "num_tokens": logs.get("num_tokens")})


TRAINERS = {"grpo": (GRPOConfig, GRPOTrainer, {"reward_funcs": outcome}), "sft": (SFTConfig, SFTTrainer, {})}

if __name__ == "__main__":
    algo, model, rows, arguments, out = sys.argv[1:]
    config, trainer, more = TRAINERS[algo]
    with open(arguments) as file:
        args = config(**json.load(file))
    clock = Clock()
    trainer(
        model=model,
        args=args,
        train_dataset=load_dataset("json", data_files=rows, split="train"),
        processing_class=AutoTokenizer.from_pretrained(model),
        callbacks=[clock],
        **more,
    ).train()
    with open(out, "w") as file:
        json.dump({"logs": clock.logs[:-1], "peak_mb": torch.cuda.max_memory_allocated() / 1e6}, file)
