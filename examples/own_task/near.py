"""Countdown, but an answer whose value is at most `task.options.near` away from the target is right."""

from random import Random

from rlhf_exp.rewards.countdown import evaluate, read_answer
from rlhf_exp.rewards.grade import Grade
from rlhf_exp.tasks import Task
from rlhf_exp.tasks.splits import split_of


def load(cfg, tokenizer):
    held_out = draw(cfg.eval.split, cfg.eval.rows or 64, cfg.eval.seed)
    return Task("near", draw_prompts(cfg, tokenizer, cfg.task.train_rows or 256), held_out, grade=None)


def draw_prompts(cfg, tokenizer, n):
    return draw("train", n, cfg.task.data_seed)


def build_grader(keys):
    def grade(completion, row):
        expression = read_answer(completion)
        found = evaluate(expression, list(map(str, row["numbers"]))) if expression else None
        if found is None or found.unused or found.value is None:
            return Grade("failed", 0.0, expression or None)
        right = abs(found.value - row["target"]) <= keys.options["near"]
        return Grade("correct" if right else "partial", 1.0 if right else 0.1, expression)

    return grade


def draw(split, n, seed):
    rows, random = {}, Random(seed)
    while len(rows) < n:
        numbers, target = random.sample(range(1, 21), 3), random.randint(1, 60)
        prompt = f"use {' '.join(map(str, numbers))} make {target} ."
        if split_of(prompt) == split:  # by a hash: no prompt is in two splits
            rows[prompt] = {"id": prompt, "prompt": prompt, "numbers": numbers, "target": target}
    return list(rows.values())
