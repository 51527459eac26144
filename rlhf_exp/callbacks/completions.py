"""Keeps some completions of each logged step of training in completions.jsonl, from the buffer that TRL fills for its
own `log_completions`.

    trainer.add_callback(CompletionsWriter(trainer, Path("outputs/x"), most=16))

Nothing is sampled, scored or graded for it.
"""

import math
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerState

from rlhf_exp import processes
from rlhf_exp.graders import read_text
from rlhf_exp.runs.records import Completion, append, keep_lines
from rlhf_exp.tasks.texts import describe_prompt, write_turns
from rlhf_exp.trainers.rollouts import Rollouts

DIGITS = 6
"""Decimals of rewards and advantages, which TRL has in float32."""


class CompletionsWriter(TrainerCallback):
    """Writes the first whole groups of the rollout: `most` completions, but at least one group. A rollout that several
    logged steps learn from is written once, with the first of them."""

    def __init__(self, trainer: Rollouts, folder: Path, most: int) -> None:
        self._trainer: Any = trainer
        self._path = folder / "completions.jsonl"
        group = self._trainer.num_generations
        self._kept = max(1, most // group) * group
        self._seen = 0  # the number of the newest rollout

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """A resumed run keeps the lines up to the checkpoint's step, as metrics.jsonl does."""
        keep_lines(self._path, state.global_step, Completion)

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        number = self._trainer.rollouts
        if "train_runtime" in logs or number == self._seen:
            return
        self._seen = number
        parts = processes.gather(self._describe_own())
        for known in (known for part in parts for known in part):
            append(self._path, Completion(step=state.global_step, rollout=number, **known))

    def _describe_own(self) -> list[dict[str, Any]]:
        """Those kept completions that this process has sampled, with the keys of samples.jsonl. TRL's buffer holds the
        rollout of all processes, by process."""
        trainer, buffer = self._trainer, self._trainer._logs
        ids, group = trainer.newest_rollout[1], trainer.num_generations
        first = trainer.accelerator.process_index * len(ids)
        lines = []
        own = list(zip(trainer.newest_rows, ids, strict=True))[: max(0, self._kept - first)]
        for i, (row, tokens) in enumerate(own, start=first):
            line = {"id": row["id"], "sample": i % group, **describe_prompt(buffer["prompt"][i])}
            said, wrote = buffer["completion"][i], getattr(trainer, "newest_tool_mask", None)
            line |= {"completion": write_turns(said) if wrote else read_text(said)}
            line["tokens"] = sum(wrote[i - first]) if wrote else len(tokens)
            line["truncated"] = tokens[-1] not in trainer.eos_token_ids
            line |= {"outcome": graded[i]} if (graded := buffer.get("extra", {}).get("outcome")) else {}
            rewards = {name: values[i] for name, values in buffer.get("rewards", {}).items()}
            weighed = zip(trainer.reward_weights.tolist(), rewards.values(), strict=True)
            known = [weight * value for weight, value in weighed if not math.isnan(value)]
            line["rewards"] = {name: round(value, DIGITS) for name, value in rewards.items()}
            line["reward"] = round(sum(known), DIGITS) if known else None
            if group > 1:  # ppo has one per token instead
                line["advantage"] = round(buffer["advantages"][i], DIGITS)
            lines.append(line)
        return lines
