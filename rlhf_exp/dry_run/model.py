"""The model that a dry run describes: its shape, its tokenizer, and how many parameters are trained; no weights."""

import warnings
from collections.abc import Callable
from typing import Any

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
from rlhf_exp.models.adapters import build_peft_config, explaining_targets
from rlhf_exp.models.loading import load_tokenizer
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.models.untrained import build_config, build_tokenizer


def load_shape(cfg: Config, unchecked: list[str]) -> PretrainedConfig | None:
    """The model's config; None, and a line in `unchecked`, if it is only available from the network."""
    if cfg.model.init is not None:
        return build_config(cfg.model.init, build_tokenizer(cfg.model.init))
    source = locate_start_model(cfg)
    config = _unless_offline(lambda: source.config, source.path, "its config.json", unchecked)
    known = find_shape(cfg.model.path, cfg.model.base, None, cfg.model.name).values
    if config is not None or known is None or known.get("model_type") not in CONFIG_MAPPING:
        return config
    return CONFIG_MAPPING[known["model_type"]](**{key: value for key, value in known.items() if key != "model_type"})


def find_tokenizer(cfg: Config, unchecked: list[str]) -> PreTrainedTokenizerBase | None:
    """The model's tokenizer; None, and a line in `unchecked`, if it is only available from the network."""
    if cfg.model.init is not None:
        return build_tokenizer(cfg.model.init)
    source = locate_start_model(cfg)
    return _unless_offline(lambda: load_tokenizer(source), source.path, "its tokenizer", unchecked)


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
        from peft import get_peft_model

        with explaining_targets(cfg):
            trained = get_peft_model(model, peft_config).get_nb_trainable_parameters()[0]
    return model, trained


def _unless_offline(load: Callable[[], Any], path: str, what: str, unchecked: list[str]) -> Any:
    """The result of `load`; None, and a line in `unchecked`, if it is on the hub and the program is offline."""
    try:
        return load()
    except ConfigError:
        if not is_hub_id(path) or not is_offline():
            raise
        unchecked.append(f"model.path={path}: {what} is not in the hub's cache, and there is no network")
        return None
