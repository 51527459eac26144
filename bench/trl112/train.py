"""PPO on Countdown with TRL 1.12's own PPOTrainer, in the environment of environment.py with the repo on its path.

    PYTHONPATH=. .bench/trl112/bin/python bench/trl112/train.py MODEL_FOLDER ROWS.jsonl ARGS.json RUN_DIR

ROWS has `prompt`, `numbers` and `target`; ARGS holds PPOConfig's arguments. Writes to RUN_DIR those files of a run of
rlhf_exp that the comparison reads: metrics.jsonl (step, time_s, reward, ppo/kl, ppo/eos_rate; a line per rollout) and
run.json (seconds of each phase).
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
from datasets import Dataset
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerBase,
    TrainerCallback,
    set_seed,
)
from trl.experimental.ppo import PPOConfig, PPOTrainer

from rlhf_exp.rewards.countdown import grade


class Grader(torch.nn.Module):
    """The task's grader in the form of a reward model, since PPOTrainer accepts nothing else.

    TRL calls the module named `base_model_prefix` for hidden states, then `score` on the last one, and takes each row's
    value at its last token. Here the hidden states are the token ids, and every token has the row's grade.
    """

    base_model_prefix = "backbone"

    def __init__(self, tokenizer: PreTrainedTokenizerBase, rows: list[dict[str, Any]]) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._rows = {tuple(ids): row for ids, row in zip(encode(tokenizer, rows), rows, strict=True)}
        self._width = len(next(iter(self._rows)))

    def backbone(self, input_ids: torch.Tensor, **kwargs: Any) -> SimpleNamespace:
        return SimpleNamespace(hidden_states=(input_ids,))

    def score(self, ids: torch.Tensor) -> torch.Tensor:
        """(batch, time) token ids -> (batch, time, 1) float32."""
        texts = self._tokenizer.batch_decode(ids[:, self._width :], skip_special_tokens=True)
        rows = [self._rows[tuple(prompt)] for prompt in ids[:, : self._width].tolist()]
        grades = [grade(text, row["numbers"], row["target"]).score for text, row in zip(texts, rows, strict=True)]
        return torch.tensor(grades, device=ids.device)[:, None, None].expand(*ids.shape, 1)


class Writer(TrainerCallback):
    """metrics.jsonl, in the names of our PPO."""

    def __init__(self, path: Path, batch_size: int) -> None:
        self._path, self._batch_size = path, batch_size
        self._start = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._start = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **kwargs: Any) -> None:
        row = {
            "step": state.global_step,
            "time_s": time.perf_counter() - self._start,
            "reward": logs["objective/scores"],
            "ppo/kl": logs["objective/kl"],
            "ppo/eos_rate": logs["val/num_eos_tokens"] / self._batch_size,
        }
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def encode(tokenizer: PreTrainedTokenizerBase, rows: list[dict[str, Any]]) -> list[list[int]]:
    """Prompt ids, all of one length: 1.12 pads prompts, and PPO on padded ones is not what is compared."""
    ids = tokenizer([row["prompt"] for row in rows])["input_ids"]
    if len(set(map(len, ids))) != 1:
        raise ValueError(f"prompts of one length are wanted, found {sorted(set(map(len, ids)))} tokens")
    return ids


@contextmanager
def phase(folder: Path, seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start
    temporary = folder / ".run.json"
    temporary.write_text(json.dumps({"seconds": seconds}))
    temporary.replace(folder / "run.json")


def main(model: Path, rows_file: Path, arguments: Path, folder: Path) -> None:
    seconds: dict[str, float] = {}
    folder.mkdir(parents=True, exist_ok=True)
    with phase(folder, seconds, "baseline"):  # as in our runs: what follows, from the models on, is training
        rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
        args = PPOConfig(output_dir=str(folder / "checkpoints"), **json.loads(arguments.read_text()))
        tokenizer = AutoTokenizer.from_pretrained(model)
        set_seed(args.seed)
    with phase(folder, seconds, "train"):
        trainer = PPOTrainer(
            args=args,
            processing_class=tokenizer,
            model=AutoModelForCausalLM.from_pretrained(model, dtype="float32"),
            ref_model=None,  # a copy of the policy
            reward_model=Grader(tokenizer, rows),
            value_model=AutoModelForSequenceClassification.from_pretrained(model, dtype="float32", num_labels=1),
            train_dataset=Dataset.from_dict({"input_ids": encode(tokenizer, rows)}),
            callbacks=[Writer(folder / "metrics.jsonl", args.per_device_train_batch_size)],
        )
        trainer.train()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
