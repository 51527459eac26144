"""Loads the models of a run, and samples answers to prompts as the run's evaluation does.

    session = Session(load_run(run_dir), Options(beside_start=True))
    for answer in session.ask("use 3 7 8 make 53 ."):
        answer.which, answer.text, answer.grade

A prompt gets the run's chat template, system prompt, budget and sampling. Each stands alone, as in training.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlhf_exp.config import device
from rlhf_exp.config.compose import compose_files, parse
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders import Grade
from rlhf_exp.models.generation import Sampling, choose_method, list_eos, sample_completions
from rlhf_exp.models.loading import load_policy, load_tokenizer, set_up_libraries
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.runs.load import Run, refusing_damage
from rlhf_exp.runs.settings import recall
from rlhf_exp.tasks import Row, Task, Text, add_system_prompt, find_task, load_task, wants_chat
from rlhf_exp.tasks.prompts import count_unknown
from rlhf_exp.tasks.tokens import encode_prompts

TRAINED, START = "trained", "start"
MOST_SHOWN = 300
"""Letters of an example."""


@dataclass(frozen=True)
class Options:
    """What the command line chooses; None leaves it as in the run's evaluation."""

    beside_start: bool = False
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """One completion.

    Attributes:
        which: trained or start.
        tokens: with the end token.
        truncated: whether the budget cut it off.
        grade: None if the prompt is none of the task's, or the task does not grade.
    """

    which: str
    text: str
    tokens: int
    truncated: bool
    grade: Grade | None


class Session:
    """The loaded models of a run.

    Raises:
        ConfigError: a model or tokenizer that cannot be loaded, or a config that is damaged.
    """

    def __init__(self, run: Run, options: Options) -> None:
        self.run, self.options = run, options
        with refusing_damage(f"{run.path}/.hydra/config.yaml"):
            self.cfg = _adapt(run.config)
            set_up_libraries(self.cfg)
            start = locate_start_model(self.cfg)
            if isinstance(start.quantization, DictConfig):
                start = replace(start, quantization=OmegaConf.to_container(start.quantization))
        trained = start.at(run.path / "model")
        self.tokenizer: PreTrainedTokenizerBase = load_tokenizer(trained)
        self.models: dict[str, PreTrainedModel | PeftModel] = {}
        if options.beside_start:
            made = run.path / "start_model"  # of a run that made it, with full weights
            self.models[START] = load_policy(start.at(made) if made.is_dir() else start)
        self.models[TRAINED] = load_policy(trained)
        self.sampling = Sampling(
            options.max_tokens or self.cfg.max_tokens,
            self.cfg.eval.temperature if options.temperature is None else options.temperature,
            self.cfg.eval.top_p,
            self.cfg.eval.top_k,
        )
        self._asked = 0

    def ask(self, text: str) -> list[Answer]:
        """One answer of each model. The same text asked again, in one session, draws from other random numbers, which
        both models share.

        Raises:
            ConfigError: words that the model does not know, or a prompt that leaves no room for an answer.
        """
        text = text.replace("\\n", "\n")  # as a command line has it
        prompt: Text = [{"role": "user", "content": text}] if wants_chat(self.cfg, self.tokenizer) else text
        return self._answer(add_system_prompt(prompt, self.cfg.task.system_prompt), self._find_row(text))

    def ask_row(self, row: Row) -> list[Answer]:
        """One answer of each model to the prompt of one of `rows`.

        Raises:
            ConfigError: as `ask`.
        """
        return self._answer(row["prompt"], row)

    def _answer(self, prompt: Text, row: Row | None) -> list[Answer]:
        if isinstance(prompt, str) and (unknown := count_unknown(self.tokenizer, [prompt])):
            words = ", ".join(map(repr, unknown))
            example = f"; a prompt that it knows: {found}" if (found := self.example) else ""
            raise ConfigError([f"words that are not in the model's vocabulary: {words}{example}"])
        ids = encode_prompts(self.tokenizer, [{"prompt": prompt}])
        room = self.tokenizer.model_max_length - len(ids[0])
        if room < 1 or not ids[0]:
            what = f"has {len(ids[0])} tokens, and the model reads {self.tokenizer.model_max_length}"
            raise ConfigError([f"the prompt {what}; it must leave room for an answer"])
        sampling = replace(self.sampling, max_new_tokens=min(self.sampling.max_new_tokens, room))
        key = ("chat", self.options.seed, self._asked, str(prompt))
        self._asked += 1
        return [self._sample(which, ids, key, sampling, row) for which in self.models]

    def rows(self) -> Iterator[Row]:
        """The held-out rows of the run's task, whose prompts are graded.

        Raises:
            ConfigError: the run's config or its data cannot be read any more.
        """
        yield from self._task.eval

    @cached_property
    def example(self) -> str | None:
        """A prompt of the run's held-out rows, as it would be typed; None if the run recorded none, or it is long."""
        prompt = next((sample["prompt"] for sample in self.run.samples), "")
        prompt = prompt.removeprefix(str(add_system_prompt("", self.cfg.task.system_prompt)))
        return prompt.replace("\n", "\\n") if 0 < len(prompt) <= MOST_SHOWN else None

    def _sample(self, which: str, ids: list[list[int]], key: tuple, sampling: Sampling, row: Row | None) -> Answer:
        model, tokenizer = self.models[which], self.tokenizer
        eos_ids, method = list_eos(model, tokenizer), choose_method(self.cfg)
        with torch.no_grad():
            [drawn] = sample_completions(model, ids, [key], sampling, eos_ids, tokenizer.pad_token_id, method)
        [text] = tokenizer.batch_decode([drawn], skip_special_tokens=True)
        grade = self._grade(text, row) if row is not None else None
        return Answer(which, text.strip(), len(drawn), drawn[-1] not in eos_ids, grade)

    def _find_row(self, text: str) -> Row | None:
        """The row of a typed prompt, if the prompt says all that grading needs."""
        read = getattr(find_task(self.cfg.task.name), "read_prompt", None)
        return None if read is None else read(text)

    def _grade(self, text: str, row: Row) -> Grade | None:
        grade = self._task.grade if "_task" in vars(self) else find_task(self.cfg.task.name).grade
        return None if grade is None else grade(text, row)

    @cached_property
    def _task(self) -> Task:
        """The task as the run composed it, with this version's defaults."""
        flags, overrides = recall(str(self.run.path))
        named = dict(flag[2:].split("=", 1) for flag in flags)
        try:
            cfg, _ = compose_files(overrides, named.get("config-name"), named.get("config-dir"))
        except (HydraException, OmegaConfBaseException, RecursionError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError([f"{self.run.path}: its config cannot be composed any more ({reason})"]) from None
        config: Config = parse(cfg, overrides)
        return replace(load_task(config, self.tokenizer), train=[])


def _adapt(config: dict) -> Any:
    """The run's config, for this machine: the run may have been on another one."""
    cfg = OmegaConf.create(copy.deepcopy(config))
    cfg.device.use_cpu = device.cuda_major() == 0
    cfg.model.attn_implementation = device.choose_attention(cfg.model.dtype, cfg.device.use_cpu)
    return cfg
