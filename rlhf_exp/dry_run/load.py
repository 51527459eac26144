"""What a dry run describes: the model's shape, without weights, its tokenizer, and the rows, checked as a run checks
them, counted, and measured in tokens."""

import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from rlhf_exp.config.hub import is_hub_id, is_offline
from rlhf_exp.config.model_shape import find_shape
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.adapters import add_adapter, build_peft_config
from rlhf_exp.models.loading import adapt_template, find_teacher, load_tokenizer
from rlhf_exp.models.source import ModelSource, locate_start_model, locate_teacher
from rlhf_exp.models.untrained import build_config, build_tokenizer
from rlhf_exp.rewards import build_rewards, load_function
from rlhf_exp.tasks import TaskRows, load_task
from rlhf_exp.tasks.prompts import check_context, check_rows, check_tools, check_vocabulary, count_prompts
from rlhf_exp.tasks.sources import Unavailable
from rlhf_exp.tasks.tokens import measure

SAMPLE_ROWS = 256


class Lengths(NamedTuple):
    """Tokens of a training row, as its trainer sees them.

    A completion that is sampled counts as the whole budget; `bound` then says " at most".
    """

    prompt: float
    """Mean of a prompt; 0 if the rows are not known."""
    answers: list[float]
    """Mean of each answer."""
    bound: str
    longest: float
    """The longest row, with its prompts: others are padded to it, and a pair to twice its longer half. Of rows that are
    sampled the longest prompt and the budget: a batch may be one group."""
    longest_prompt: float

    @property
    def row(self) -> float:
        """Mean of a row, with a prompt before each answer."""
        return len(self.answers) * self.prompt + sum(self.answers)


def load_shape_and_tokenizer(
    cfg: Config, unchecked: list[str]
) -> tuple[PretrainedConfig | None, PreTrainedTokenizerBase | None]:
    """The model's config and tokenizer; None, and a line in `unchecked`, for what is only available from the network.
    The shapes of some models are known without it."""
    if cfg.model.init is not None:
        tokenizer = build_tokenizer(cfg.model.init)
        adapt_template(locate_start_model(cfg), tokenizer)
        shape = build_config(cfg.model.init, tokenizer)
        tokenizer.model_max_length = getattr(shape, "max_position_embeddings", tokenizer.model_max_length)
        return shape, tokenizer
    source = locate_start_model(cfg)
    shape = _unless_offline(lambda: source.config, source, "its config.json", unchecked)
    known = find_shape(cfg.model.path, cfg.model.base, None, cfg.model.name).values or {}
    if shape is None and known.get("model_type") in CONFIG_MAPPING:
        shape = CONFIG_MAPPING[known["model_type"]](**{key: known[key] for key in known if key != "model_type"})
    tokenizer = _unless_offline(lambda: load_tokenizer(source), source, "its tokenizer", unchecked)
    path = cfg.teacher.path
    if path is not None and tokenizer is not None and (is_hub_id(path) or Path(path).expanduser().exists()):
        teacher = locate_teacher(cfg)  # else a study trains it first
        _unless_offline(lambda: find_teacher(cfg, source, tokenizer), teacher, "its tokenizer", unchecked)
    return shape, tokenizer


def build_on_meta(cfg: Config, shape: PretrainedConfig) -> "tuple[PreTrainedModel, int]":
    """The model without storage, and how many of its parameters are trained."""
    dtype = (shape.dtype or torch.float32) if cfg.model.dtype == "auto" else getattr(torch, cfg.model.dtype)
    kind: Any = AutoModelForCausalLM
    if cfg.algo.row.scores:
        kind, shape.num_labels = AutoModelForSequenceClassification, 1
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft's about GPT-2, and TRL's about old names
        model = kind.from_config(shape, dtype=dtype, trust_remote_code=cfg.model.trust_remote_code)
        if (peft_config := build_peft_config(cfg)) is None:
            return model, model.num_parameters()
        trained = add_adapter(cfg, model, peft_config).get_nb_trainable_parameters()[0]
    return model, trained


def load_checked_task(cfg: Config, tokenizer: Any, unchecked: list[str]) -> TaskRows | None:
    """The task with its rows, checked as a run checks them. None, and a line in `unchecked`, if they are only available
    from the network."""
    if tokenizer is None:
        unchecked.append(f"task={cfg.task.name}: its rows, which are counted in tokens")
        return None
    try:
        task = load_task(cfg, tokenizer)
    except Unavailable as error:
        if not is_offline():
            raise
        unchecked.append(error.problems[0].split(" (")[0] + "; its rows and prompts")
        return None
    check_vocabulary(tokenizer, task)
    check_context(cfg, tokenizer, task)
    check_rows(cfg, task)
    check_tools(cfg, tokenizer, task)
    if cfg.reward.path is None:
        build_rewards(cfg, task)
    else:  # without the weights of a reward model
        for name, where in cfg.reward.functions.items():
            load_function(name, where, task)
    return task


def measure_lengths(cfg: Config, tokenizer: Any, task: TaskRows | None) -> Lengths:
    """The lengths in a sample of the rows."""
    names = [name for name in cfg.algo.row.form.columns if name not in ("prompt", "label")]
    sample = [] if task is None else (task.train or task.eval)[:SAMPLE_ROWS]
    given = [tuple(row[name] for name in names if name in row) for row in sample]
    counts = measure(tokenizer, [row["prompt"] for row in sample], given) if sample else []
    prompts = [tokens.prompt for tokens in counts] or [0]
    if task is not None and task.environments:
        prompts = count_prompts(tokenizer, task, sample)
    prompt, most = fmean(prompts), max(prompts)
    if not any(given):
        answers = [float(cfg.max_tokens)] * max(1, len(names))
        return Lengths(prompt, answers, " at most", len(answers) * most + sum(answers), most)
    longest = max(tokens.prompt + max(tokens.answers) for tokens in counts)
    means = [fmean(column) for column in zip(*(tokens.answers for tokens in counts), strict=True)]
    return Lengths(prompt, means, "", len(names) * longest, most)


def _unless_offline(load: Callable[[], Any], source: ModelSource, what: str, unchecked: list[str]) -> Any:
    """The result of `load`; None, and a line in `unchecked`, if it is on the hub and the program is offline."""
    try:
        return load()
    except ConfigError:
        if not is_hub_id(source.path) or not is_offline():
            raise
        unchecked.append(f"{source.key}={source.path}: {what} is not in the hub's cache, and there is no network")
        return None
