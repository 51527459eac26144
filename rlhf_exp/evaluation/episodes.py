"""Plays episodes of held-out rows with their environments, by TRL's own loop, the one that training plays them by.

player = Player(cfg, {"game": Game}, tokenizer, model)
drawn = player.play(rows, keys, Sampling(256))      # one episode of each row
drawn[0].list_turns()                               # [(ids before, ids that the model wrote), ...]
"""

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from peft import PeftModel
from trl import GRPOConfig, GRPOTrainer

from rlhf_exp.config.schema import Config
from rlhf_exp.forms import Row
from rlhf_exp.models.generation import Sampling
from rlhf_exp.models.row_random import Key
from rlhf_exp.models.scoring import Model, keeping_forward
from rlhf_exp.tasks.environment import is_failure
from rlhf_exp.trainers.episodes import Episodes

Messages = list[dict[str, Any]]


class Drawn(NamedTuple):
    """The tokens of a prompt and of what was drawn after it.

    Attributes:
        wrote: of an episode, 1 for each of `ids` that the model wrote, 0 for one that a tool returned.
        episode: what else is known of an episode, by its names in a Completion.
    """

    prompt_ids: list[int]
    ids: list[int]
    wrote: Sequence[int] = ()
    episode: dict[str, Any] = {}

    def list_turns(self) -> list[tuple[list[int], list[int]]]:
        """What the model wrote, each time with all tokens before it."""
        if not self.wrote:
            return [(self.prompt_ids, self.ids)]
        turns, whole = [], [*self.prompt_ids, *self.ids]
        start = len(self.prompt_ids)
        for is_own, run in groupby(self.wrote):
            end = start + len([*run])
            turns += [(whole[:start], whole[start:end])] if is_own else []
            start = end
        return turns


class EpisodeTrainer(Episodes, GRPOTrainer):
    """Trains nothing: it plays rows with given keys."""

    given_keys: Sequence[Key] = ()

    def give_keys(self, count: int) -> None:
        super().give_keys(count)
        self.row_keys = [*self.given_keys]


class Player:
    """Plays with one model."""

    def __init__(self, cfg: Config, environments: dict[str, Any], tokenizer: Any, model: Model) -> None:
        os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
        self._ended: list[tuple[Messages, Messages, float | None]] = []
        keep: Any = self._keep
        self._pays = "environment" in cfg.reward.weights
        empty = Dataset.from_list(
            [{"prompt": [{"role": "user", "content": ""}], "environment": next(iter(environments))}]
        )
        base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
        # TRL puts its head of temperature 1 before the model's forward; a policy that is being trained has its own.
        # The folder is one that transformers makes.
        with keeping_forward(base), _keeping_random_state(), TemporaryDirectory() as folder:
            args = GRPOConfig(
                output_dir=folder, per_device_train_batch_size=2, num_generations=2, num_generations_eval=1, beta=0.0,
                max_completion_length=cfg.max_tokens, max_tool_calling_iterations=cfg.task.turns, report_to=[],
                use_cpu=cfg.device.use_cpu, bf16=cfg.device.bf16, activation_checkpointing=False, disable_tqdm=True,
                chat_template_kwargs=cfg.algo.args.get("chat_template_kwargs"),
            )  # fmt: skip
            self._trainer = EpisodeTrainer(
                model=model, args=args, train_dataset=empty, processing_class=tokenizer,
                reward_funcs=keep, environment_factory=environments,
            )  # fmt: skip
        self._trainer.accelerator.native_amp = False  # held-out rows are measured without autocast

    def play(self, rows: Sequence[Row], keys: Sequence[Key], sampling: Sampling) -> list[Drawn]:
        """One episode of each row, with what its environment pays if that is a reward."""
        trainer = self._trainer
        trainer.temperature, trainer.top_p, trainer.top_k = sampling.temperature, sampling.top_p, sampling.top_k
        trainer.given_keys = keys
        with torch.no_grad():
            trainer._generate_and_score_completions([*rows])
        drawn = zip(*trainer.newest_rollout, trainer.newest_tool_mask, self._ended, strict=True)
        found = []
        for prompt, ids, wrote, (asked, turns, earned) in drawn:
            known = {"prompt_ids": prompt, "messages": asked, "earned": earned}
            found.append(Drawn(prompt, ids, wrote, known | _describe(turns, wrote)))
        return found

    def _keep(
        self, prompts: list[Messages], completions: list[Messages], environments: list[Any], **columns: Any
    ) -> list[float]:
        """The reward function by which TRL hands over the episodes that have ended."""
        paid = [one._pay() if self._pays else None for one in environments]
        self._ended = [*zip(prompts, completions, paid, strict=True)]
        return [0.0] * len(completions)


@contextmanager
def _keeping_random_state() -> Iterator[None]:
    """TRL seeds all generators when it builds a trainer, and a policy that is being trained draws from them."""
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        yield
    random.setstate(states[0])
    np.random.set_state(states[1])


def _describe(turns: Messages, wrote: Sequence[int]) -> dict[str, Any]:
    results = [str(turn["content"]) for turn in turns if turn["role"] == "tool"]
    counts = {"tool_calls": len(results), "tool_failures": sum(map(is_failure, results))}
    cut = {"truncated": True} if turns[-1].get("tool_calls") else {}  # its calls came too late to be made
    return {"turns": turns, **counts, "tool_tokens": len(wrote) - sum(wrote), **cut}
