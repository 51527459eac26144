"""Rows of problems for a calculator, and dialogues from which a chat model learns to call it.

    python examples/tools/dialogues.py MODEL FOLDER      # a model folder or hub id; writes rows.jsonl, dialogues.jsonl

A dialogue is two rows for algo=sft: after the problem comes the call, and after the tool's result the answer. Their
system message is the one that the chat template writes for the tool, so that training shows the model what it will
read when it plays.
"""

import json
import random
import sys
from importlib.resources import files
from pathlib import Path

from transformers import AutoTokenizer

from rlhf_exp.tasks.tools import Calculator

KINDS = [
    ("A box holds {a} screws. How many screws are in {b} boxes?", "{a} * {b}"),
    ("A train has {a} seats, and {b} of them are taken. How many are free?", "{a} - {b}"),
    ("A farm has {a} hens and {b} ducks. How many birds is that?", "{a} + {b}"),
    ("A ticket costs {a} crowns. What do {b} tickets cost?", "{a} * {b}"),
    ("A shop had {a} pens and got {b} boxes of {c} pens. How many pens has it now?", "{a} + {b} * {c}"),
    ("A school has {a} pupils in each of {b} rooms, and {c} are ill. How many are there?", "{a} * {b} - {c}"),
]
ROWS = {"train": 600, "validation": 60, "test": 120}


def draw_problems(count):
    """Different problems, each with the expression that solves it."""
    generator, found = random.Random(0), {}
    while len(found) < count:
        problem, expression = KINDS[len(found) % len(KINDS)]
        drawn = {"a": generator.randint(200, 999), "b": generator.randint(12, 99), "c": generator.randint(12, 99)}
        found[problem.format(**drawn)] = expression.format(**drawn)
    return found.items()


def main(model, folder):
    tokenizer = AutoTokenizer.from_pretrained(model)
    template = files("trl").joinpath("chat_templates", "qwen2_5.jinja").read_text()
    tool, rows, dialogues = Calculator(), [], []
    hint = tool.reset()
    splits = [split for split, count in ROWS.items() for _ in range(count)]
    for split, (question, expression) in zip(splits, draw_problems(len(splits)), strict=True):
        result = tool.calculate(expression)
        rows.append({"question": question, "answer": result, "split": split})
        asked = {"role": "user", "content": question + hint}
        text = tokenizer.apply_chat_template([asked], tools=[tool.calculate], chat_template=template, tokenize=False)
        system = text.removeprefix("<|im_start|>system\n").partition("<|im_end|>")[0]
        arguments = json.dumps({"name": "calculate", "arguments": {"expression": expression}})
        call = f"<tool_call>\n{arguments}\n</tool_call>"
        begun = [{"role": "system", "content": system}, asked]
        dialogues.append({"prompt": begun, "completion": call, "split": split})
        returned = {"role": "user", "content": f"<tool_response>\n{result}\n</tool_response>"}
        begun = [*begun, {"role": "assistant", "content": call}, returned]
        dialogues.append({"prompt": begun, "completion": f"#### {result}", "split": split})
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, made in (("rows", rows), ("dialogues", dialogues)):
        Path(folder, f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in made), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
