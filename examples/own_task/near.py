"""Countdown, but an answer whose value is at most `task.options.near` away from the target is right."""

from random import Random

from rlhf_exp.graders import Grade
from rlhf_exp.rewards.countdown import evaluate, read_answer
from rlhf_exp.tasks import Item, OwnTask
from rlhf_exp.tasks.splits import split_of


class Near(OwnTask):
    def rows(self):
        items, random = {"train": {}, "validation": {}, "test": {}}, Random(0)
        for _ in range(1000):
            numbers, target = random.sample(range(1, 21), 3), random.randint(1, 60)
            text = f"use {' '.join(map(str, numbers))} make {target} ."
            columns = {"numbers": numbers, "target": target, "near": self.options["near"]}
            items[split_of(text)][text] = Item(text, columns)  # by a hash: no prompt is in two splits
        return {split: list(found.values()) for split, found in items.items()}

    def write_prompt(self, item, chat):
        return item.id

    def grade(self, completion, row):
        expression = read_answer(completion)
        found = evaluate(expression, list(map(str, row["numbers"]))) if expression else None
        if found is None or found.unused or found.value is None:
            return Grade("failed", 0.0, expression or None)
        right = abs(found.value - row["target"]) <= row["near"]
        return Grade("correct" if right else "partial", 1.0 if right else 0.1, expression)
