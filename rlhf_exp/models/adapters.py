"""LoRA adapters: their configuration, and loading one with its base.

peft_config = build_peft_config(cfg)                 # None for peft=none
load_adapted(AutoModelForCausalLM, source)
"""

import json
import re
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils import load_peft_weights
from peft.utils.error import NoMatchingPeftModuleError
from safetensors import SafetensorError
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from rlhf_exp.config.schema import Config, conflict, find_value
from rlhf_exp.config.values import show, suggest
from rlhf_exp.errors import ConfigError, refusing
from rlhf_exp.models.scoring import Model
from rlhf_exp.models.source import OTHER_BASE, ModelSource
from rlhf_exp.runs.files import write_json

UNREADABLE = (OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError, SafetensorError, ImportError)
"""Errors of from_pretrained for a folder or hub id that it cannot read, and for a config.json with values of other
types, or that asks for a package that is missing."""

MOST, SHOWN = 200, 3  # the most characters of a library's error in a message, and names of tensors


def build_peft_config(cfg: Config) -> LoraConfig | None:
    """The config of the adapter that TRL adds to the model; a reward model's head is also trained, in full."""
    if cfg.peft.lora is None:
        return None
    scores = cfg.algo.row.scores
    kind, head = ("SEQ_CLS", ["score"]) if scores else ("CAUSAL_LM", None)
    return LoraConfig(**asdict(cfg.peft.lora), task_type=kind, modules_to_save=head)


def add_adapter(cfg: Config, model: Any, peft_config: LoraConfig) -> PeftModel:
    """The model without storage with its adapter, as TRL will build it.

    Raises:
        ConfigError: a target that is no module of the model, that cannot have an adapter, or whose adapter TRL would
            not train: it reads the weights of the head itself.
    """
    targets: Any = find_value(cfg, "peft.lora.target_modules")
    names = [name for name, _ in model.named_modules()]
    listed = targets if isinstance(targets, list) else []
    unknown = [target for target in listed if not any(name.endswith(f".{target}") or name == target for name in names)]
    with explaining_targets(cfg, ValueError, TypeError, re.error):
        adapted = get_peft_model(model, peft_config)
    if unknown:
        ends = sorted({name.rpartition(".")[2] for name in names} - {""})
        raise _refuse_targets(cfg, f"{model.__class__.__name__} has no module {unknown[0]}{suggest(unknown[0], ends)}")
    if isinstance(adapted.get_output_embeddings(), BaseTunerLayer):
        head = next(name for name, module in model.named_modules() if module is adapted.get_output_embeddings())
        why = f"the adapter of the head, {head}, would not be trained, since TRL reads the head's own weights"
        raise _refuse_targets(cfg, f"{why}; leave {head} out, as all-linear does")
    return adapted


def explaining_targets(cfg: Config, *more: type[Exception]) -> AbstractContextManager[None]:
    """Inside the `with`, an adapter for modules that the model does not have is the user's mistake, and so are `more`
    of peft's errors."""
    if cfg.peft.lora is None:
        return nullcontext()
    line = conflict(cfg, "peft.lora.target_modules", f"do not fit model={cfg.model.path or cfg.model.name}")
    return refusing(line, NoMatchingPeftModuleError, *more)


def _refuse_targets(cfg: Config, why: str) -> ConfigError:
    return ConfigError([conflict(cfg, "peft.lora.target_modules", why)])


def load_weights(kind: Any, source: ModelSource, **kwargs: Any) -> PreTrainedModel:
    """`kind.from_pretrained(**kwargs)` of full weights: the source's own, or those of an adapter's base. Tensors of its
    files that the model does not have are told in a line, and so is the new head of a reward model made from a language
    model.

    Raises:
        ConfigError: its files lack tensors, which transformers would draw at random.
    """
    model, info = kind.from_pretrained(source.weights, **kwargs, output_loading_info=True, ignore_mismatched_sizes=True)
    missing, unused = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    has_head = any(name.endswith("ForSequenceClassification") for name in source.config.architectures or [])
    if kind is AutoModelForSequenceClassification and not has_head:
        of_base = f"{model.base_model_prefix}."
        head, missing = missing, [name for name in missing if name.startswith(of_base)]
        unused = [name for name in unused if name.startswith(of_base)]
        if not missing and not source.is_adapter:  # an adapter brings its head
            new = f"its head as a reward model is new, drawn by the seed: {name_some(head)}"
            _tell(f"{source.path}: a language model; {new}")
    place = f"of its base {source.weights}, " if source.is_adapter else ""
    if info["mismatched_keys"]:
        others = name_some(sorted(name for name, *_ in info["mismatched_keys"]))
        raise source.refuse(f"{place}its weights are of other sizes than its config.json says: {others}")
    if missing:
        lacks = f"{place}{len(missing)} of {len(model.state_dict())} tensors are in none of its files"
        remedy = "they would be random numbers, so save or copy the model again"
        raise source.refuse(f"{lacks}: {name_some(missing)}; {remedy}")
    if unused:
        _tell(f"{source.path}: {place}{len(unused)} tensors of its files are not used: {name_some(unused)}")
    return model


_tell = cache(partial(print, flush=True))
"""Print a line once: the start model is loaded several times."""


def name_some(names: list[str]) -> str:
    """The first names, and how many more.

    >>> name_some(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def load_adapted(kind: Any, source: ModelSource, **kwargs: Any) -> PeftModel:
    """The base of an adapter, by `kind.from_pretrained(base, **kwargs)`, with the adapter added, for inference.

    Raises:
        ConfigError: the base cannot be loaded, or the adapter is for a model with other modules or sizes. (Other
            weights of the same shape cannot be detected, nor additional layers.)
    """
    at = source.weights
    try:
        base = load_weights(kind, source, **kwargs)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="fan_in_fan_out is set to False")  # GPT-2: peft corrects it
            warnings.filterwarnings("ignore", message="Found missing adapter keys")  # refused below
            warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # peft uses an old name
            # As in training: TRL keeps adapters in float32, or in the base's dtype if that is quantised.
            keeps_dtype = getattr(base, "is_quantized", False)
            adapted = PeftModel.from_pretrained(base, source.path, autocast_adapter_dtype=not keeps_dtype)
        saved = load_peft_weights(source.path, device="cpu").keys()
        needed = get_peft_model_state_dict(adapted, save_embedding_layers=False).keys()
        for names, fault in ((needed - saved, "lacks"), (saved - needed, "has, and the base does not need,")):
            if names:
                raise ValueError(f"the adapter {fault} {len(names)} tensors: {name_some(sorted(names))}")
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, *UNREADABLE) as error:
        reason = f"cannot be loaded onto its base {at} ({show(str(error), MOST)})"
        raise source.refuse(f"{reason}; {OTHER_BASE}") from error
    return adapted


def record_base(folder: Path, hub_id: str) -> None:
    """Write the base's id on the hub into the config of the adapter in `folder`, in place of a folder of this machine,
    so that peft, transformers and vLLM find it elsewhere."""
    config = folder / "adapter_config.json"
    values = json.loads(config.read_text(encoding="utf-8"))
    write_json(config, values | {"base_model_name_or_path": hub_id})


def keep_dtype_on_resume(model: Model) -> None:
    """Make a resumed run keep the dtype of its adapters.

    TRL trains adapters on a quantised base in bfloat16. A resuming Trainer calls `load_adapter`, which by default casts
    them to float32, so that the run would differ from an uninterrupted one.
    """
    if isinstance(model, PeftModel) and getattr(model, "is_quantized", False):
        model.load_adapter = partial(model.load_adapter, autocast_adapter_dtype=False)  # type: ignore[method-assign]
