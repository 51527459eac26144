"""Loads the models of a run, and samples answers to prompts as the run's evaluation does.

    session = Session(load_run(run_dir), beside_start=True)
    for answer in session.ask("use 3 7 8 make 53 ."):
        answer.which, answer.text, answer.facts

A prompt gets the run's chat template, system prompt, budget and sampling. Each stands alone, as in training.
"""

import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp.config import device
from rlhf_exp.config.compose import compose_files, parse
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.generation import Sampling, choose_method, list_eos, sample_completions
from rlhf_exp.models.loading import load_policy, load_tokenizer, set_up_libraries
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.runs.load import Run, refusing_damage
from rlhf_exp.runs.settings import recall
from rlhf_exp.tasks import Row, Task, Text, add_system_prompt, find_task, load_task, wants_chat
from rlhf_exp.tasks.prompts import count_unknown
from rlhf_exp.tasks.tokens import encode_prompts


class Answer(NamedTuple):
    """One completion of the trained or the start model. `facts`: its outcome if it can be graded, its tokens with the
    end token, and whether the budget cut it off."""

    which: str
    text: str
    facts: list[str]


class Session:
    """The loaded models of a run.

    Args:
        beside_start: also load the start model.
        max_tokens, temperature: None leaves them as in the run's evaluation.

    Raises:
        ConfigError: a model or tokenizer that cannot be loaded, or a config that is damaged.
    """

    def __init__(
        self, run: Run, beside_start: bool = False, max_tokens: int | None = None,
        temperature: float | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        self.run, self.seed, self._asked = run, seed, 0
        with refusing_damage(f"{run.path}/.hydra/config.yaml"):
            self.cfg = _adapt(run.config)
            set_up_libraries(self.cfg)
            start = locate_start_model(self.cfg)
            if isinstance(start.quantization, DictConfig):
                start = replace(start, quantization=OmegaConf.to_container(start.quantization))
        trained, made = start.at(run.path / "model"), run.path / "start_model"  # of a run that made it, if it is there
        self.tokenizer = load_tokenizer(trained)
        sources = {"start": start.at(made) if made.is_dir() else start} if beside_start else {}
        self.models = {which: load_policy(source) for which, source in (sources | {"trained": trained}).items()}
        drawn = self.cfg.eval.temperature if temperature is None else temperature
        self.sampling = Sampling(max_tokens or self.cfg.max_tokens, drawn, self.cfg.eval.top_p, self.cfg.eval.top_k)

    def ask(self, text: str) -> list[Answer]:
        """One answer of each model, graded if the prompt says all that grading needs. The same text asked again, in one
        session, draws from other random numbers, which both models share.

        Raises:
            ConfigError: words that the model does not know, or a prompt that leaves no room for an answer.
        """
        text = text.replace("\\n", "\n")  # which a command line cannot hold
        prompt: Text = [{"role": "user", "content": text}] if wants_chat(self.cfg, self.tokenizer) else text
        task = find_task(self.cfg.task.name)
        row = task.read_prompt(text) if hasattr(task, "read_prompt") else None
        return self._answer(add_system_prompt(prompt, self.cfg.task.system_prompt), row, row and task.grade)

    def ask_row(self, row: Row) -> list[Answer]:
        """One answer of each model to the prompt of a row of `task`; raises as `ask`."""
        return self._answer(row["prompt"], row, self.task.grade)

    def _answer(self, prompt: Text, row: Row | None, grade: Any) -> list[Answer]:
        tokenizer = self.tokenizer
        if isinstance(prompt, str) and (unknown := count_unknown(tokenizer, [prompt])):
            raise ConfigError([f"words that are not in the model's vocabulary: {', '.join(map(repr, unknown))}"])
        ids = encode_prompts(tokenizer, [{"prompt": prompt}])
        room = tokenizer.model_max_length - len(ids[0])
        if room < 1 or not ids[0]:
            what = f"has {len(ids[0])} tokens, and the model reads {tokenizer.model_max_length}"
            raise ConfigError([f"the prompt {what}; it must leave room for an answer"])
        sampling = replace(self.sampling, max_new_tokens=min(self.sampling.max_new_tokens, room))
        key, answers = ("chat", self.seed, self._asked, str(prompt)), []
        self._asked += 1
        for which, model in self.models.items():
            eos_ids, method = list_eos(model, tokenizer), choose_method(self.cfg)
            with torch.no_grad():
                [drawn] = sample_completions(model, ids, [key], sampling, eos_ids, tokenizer.pad_token_id, method)
            [text] = tokenizer.batch_decode([drawn], skip_special_tokens=True)
            outcome = [grade(text, row).outcome] if row is not None and grade is not None else []
            cut_off = [] if drawn[-1] in eos_ids else ["cut off"]
            answers.append(Answer(which, text.strip(), [*outcome, f"{len(drawn)} tokens", *cut_off]))
        return answers

    @cached_property
    def task(self) -> Task:
        """The task as the run composed it, with this version's defaults, and its held-out rows.

        Raises:
            ConfigError: the run's config or its data cannot be read any more.
        """
        flags, overrides = recall(str(self.run.path))
        named = dict(flag[2:].split("=", 1) for flag in flags)
        try:
            cfg, _ = compose_files(overrides, named.get("config-name"), named.get("config-dir"))
        except (HydraException, OmegaConfBaseException, RecursionError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError([f"{self.run.path}: its config cannot be composed any more ({reason})"]) from None
        return replace(load_task(parse(cfg, overrides), self.tokenizer), train=[])


def _adapt(config: dict) -> Any:
    """The run's config, for this machine: the run may have been on another one."""
    cfg = OmegaConf.create(copy.deepcopy(config))
    cfg.device.use_cpu = device.cuda_major() == 0
    cfg.model.attn_implementation = device.choose_attention(cfg.model.dtype, cfg.device.use_cpu)
    return cfg
