"""Keeps some completions of each logged step of training in completions.jsonl, from the buffer that TRL fills for its
own `log_completions`.

    trainer.add_callback(CompletionsWriter(trainer, folder, most=16))

Nothing is sampled, scored or graded for it.
"""

import math
from typing import Any

from transformers import TrainerCallback, TrainerState

from rlhf_exp import processes
from rlhf_exp.errors import tell
from rlhf_exp.graders import read_text
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.runs.records import Completion, append, keep_lines, read_lines, write_lines
from rlhf_exp.tasks.texts import describe_prompt
from rlhf_exp.trainers.rollouts import Rollouts

MOST_BYTES = 16_000_000
"""The size above which rollouts are thinned out."""
DIGITS = 6
"""Decimals of rewards and advantages, which TRL has in float32."""


class CompletionsWriter(TrainerCallback):
    """Writes the first whole groups of the rollout: `most` completions, but at least one group. A rollout that several
    logged steps learn from is written once, with the first of them.

    Whenever the file exceeds MOST_BYTES, only rollouts stay whose number, counted from 1, is divisible by 2, then
    by 4 and so on; from then on only such rollouts are written. So they stay evenly spaced over the run.
    """

    def __init__(self, trainer: Rollouts, folder: RunFolder, most: int) -> None:
        self._trainer: Any = trainer
        self._folder, self._path = folder, folder.path / "completions.jsonl"
        group = self._trainer.num_generations
        self._kept = max(1, most // group) * group
        self._every = 1
        self._seen = 0  # the number of the newest rollout

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """A resumed run keeps the lines up to the checkpoint's step, as metrics.jsonl does, and their spacing."""
        numbers = {one.rollout for one in keep_lines(self._path, state.global_step, Completion) if one.rollout}
        self._every = min((number & -number for number in numbers), default=1)  # the power of 2 that divides each

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        number = self._trainer.rollouts
        if "train_runtime" in logs or number == self._seen:
            return
        self._seen = number
        parts = processes.gather(self._describe_own())
        if not processes.is_main() or number % self._every:
            return
        for known in (known for part in parts for known in part):
            append(self._path, Completion(step=state.global_step, rollout=number, **known))
        while self._path.stat().st_size > MOST_BYTES:
            self._every *= 2
            kept = [one for one in read_lines(self._path, Completion) if (one.rollout or 0) % self._every == 0]
            write_lines(self._path, kept)

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        if processes.is_main():
            size = self._folder.record.completions_mb = round(self._path.stat().st_size / 1e6, 3)
            tell(f"completions of training: {size:.2f} MB in completions.jsonl; monitor.completions=0 keeps none")

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
            line |= {"completion": read_text(buffer["completion"][i]), "tokens": len(tokens)}
            line["truncated"] = tokens[-1] not in trainer.eos_token_ids
            line |= {"outcome": buffer["extra"]["outcome"][i]} if "outcome" in buffer["extra"] else {}
            rewards = {name: values[i] for name, values in buffer["rewards"].items()}
            weighed = zip(trainer.reward_weights.tolist(), rewards.values(), strict=True)
            known = [weight * value for weight, value in weighed if not math.isnan(value)]
            line["rewards"] = {name: round(value, DIGITS) for name, value in rewards.items()}
            line["reward"] = round(sum(known), DIGITS) if known else None
            if group > 1:  # ppo has one per token instead
                line["advantage"] = round(buffer["advantages"][i], DIGITS)
            lines.append(line)
        return lines
