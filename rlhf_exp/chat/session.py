"""Loads the models of a run, and samples answers to prompts as the run's evaluation does.

    session = Session(load_run(run_dir), beside_start=True)
    for which, answer in session.ask("use 3 7 8 make 53 .").items():
        which, answer.text, answer.grade      # trained, and a Completion

A prompt gets the run's chat template, system prompt, budget and sampling. Each stands alone, as in training.
"""

import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp.config import device
from rlhf_exp.config.compose import compose_files, parse
from rlhf_exp.errors import ConfigError
from rlhf_exp.evaluation.completions import Completion, judge, sample_held_out
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import load_policy, load_tokenizer, set_up_libraries
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.runs.load import Run, refusing_damage
from rlhf_exp.runs.settings import recall
from rlhf_exp.tasks import Row, Task, Text, add_system_prompt, find_task, load_task, wants_chat
from rlhf_exp.tasks.prompts import count_unknown
from rlhf_exp.tasks.tokens import encode_prompts


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
        self.run, self._asked = run, 0
        with refusing_damage(f"{run.path}/.hydra/config.yaml"):
            self.cfg = cfg = _adapt(run.config)
            cfg.max_tokens = max_tokens or cfg.max_tokens
            cfg.eval.update(completions=1, greedy=False, batch_size=1, seed=seed)
            cfg.eval.temperature = cfg.eval.temperature if temperature is None else temperature
            set_up_libraries(cfg)
            start = locate_start_model(cfg)
            if isinstance(start.quantization, DictConfig):
                start = replace(start, quantization=OmegaConf.to_container(start.quantization))
        trained, made = start.at(run.path / "model"), run.path / "start_model"  # of a run that made it, if it is there
        self.source, self.tokenizer = trained, load_tokenizer(trained)
        sources = {"start": start.at(made) if made.is_dir() else start} if beside_start else {}
        self.models = {which: load_policy(source) for which, source in (sources | {"trained": trained}).items()}

    def ask(self, text: str) -> dict[str, Completion]:
        """One answer of each model, by its name, graded if the prompt says all that grading needs. The same text asked
        again, in one session, draws from other random numbers, which both models share.

        Raises:
            ConfigError: words that the model does not know, or a prompt that leaves no room for an answer.
        """
        text = text.replace("\\n", "\n")  # which a command line cannot hold
        prompt: Text = [{"role": "user", "content": text}] if wants_chat(self.cfg, self.tokenizer) else text
        task = find_task(self.cfg.task.name)
        row = task.read_prompt(text) if hasattr(task, "read_prompt") else None
        asked = {"id": text, "prompt": add_system_prompt(prompt, self.cfg.task.system_prompt)}
        return self.ask_row((row or {}) | asked, task.grade if row else None)

    def ask_row(self, row: Row, grade: Any) -> dict[str, Completion]:
        """The same for a row of `task`, graded by `grade`."""
        tokenizer, prompt = self.tokenizer, row["prompt"]
        if isinstance(prompt, str) and (unknown := count_unknown(tokenizer, [prompt])):
            raise ConfigError([f"words that are not in the model's vocabulary: {', '.join(map(repr, unknown))}"])
        [ids] = encode_prompts(tokenizer, [row])
        cfg, room = copy.deepcopy(self.cfg), tokenizer.model_max_length - len(ids)
        if room < 1 or not ids:
            what = f"has {len(ids)} tokens, and the model reads {tokenizer.model_max_length}"
            raise ConfigError([f"the prompt {what}; it must leave room for an answer"])
        cfg.max_tokens = min(cfg.max_tokens, room)
        self._asked += 1
        experiment: Any = Experiment(cfg, None, self.source, tokenizer, Task("chat", [], [row], grade), [])  # type: ignore[arg-type]
        answers = {}
        for which, model in self.models.items():
            [answers[which]] = judge(experiment, sample_held_out(experiment, model, purpose=f"chat {self._asked}"))
        return answers

    @cached_property
    def task(self) -> Task:
        """The task as the run composed it, with this version's defaults, and its held-out rows.

        Raises:
            ConfigError: the run's config or its data cannot be read any more.
        """
        study, overrides = recall(str(self.run.path))
        try:
            cfg, _ = compose_files(overrides, **study)
        except (HydraException, OmegaConfBaseException, RecursionError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError([f"{self.run.path}: its config cannot be composed any more ({reason})"]) from None
        config = parse(cfg, overrides)
        if named := config.list_functions():  # the folder may be another's
            raise ConfigError([f"{self.run.path}: chat runs no files of code, and its rows need {', '.join(named)}"])
        return replace(load_task(config, self.tokenizer), train=[])


def _adapt(config: dict) -> Any:
    """The run's config, for this machine: the run may have been on another one."""
    cfg = OmegaConf.create(copy.deepcopy(config))
    cfg.device.use_cpu = device.cuda_major() == 0
    cfg.model.attn_implementation = device.choose_attention(cfg.model.dtype, cfg.device.use_cpu)
    return cfg
