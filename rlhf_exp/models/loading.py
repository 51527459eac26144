"""Loads tokenizers and models from their source (source.py), with a one-line error for what cannot be read.

    source = resolve_model(cfg, run_dir)     # the start model, of full weights
    tokenizer = load_tokenizer(source)
    model = load_policy(source)
    teacher = find_teacher(cfg, source, tokenizer)       # of the student's vocabulary; None without one
    merge(ModelSource("outputs/x/model"), "merged")      # an adapter with its base, as a model of full weights

For an adapter, the base is loaded and the adapter added to it.
"""

import gc
import os
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BitsAndBytesConfig,
    PreTrainedTokenizerBase,
    set_seed,
)
from transformers.utils import logging

from rlhf_exp import processes
from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import one_of, show
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.adapters import UNREADABLE, load_adapted, load_weights
from rlhf_exp.models.patches import patch_model
from rlhf_exp.models.scoring import Model
from rlhf_exp.models.source import ModelSource, locate_start_model, locate_teacher
from rlhf_exp.models.untrained import create_untrained
from rlhf_exp.runs.manifest import explain_damage, staged

START_MODEL = "start_model"
"""A folder in the run folder."""


def set_up_libraries(cfg: Config) -> None:
    """Silence messages of the libraries, and set torch's threads.

    What the imports have made is also taken out of garbage collections: each phase of a run begins with one
    (runs/environment.py), which otherwise takes 0.3 s.
    """
    if not gc.get_freeze_count():  # once: what an earlier job of a sweep has left may still become garbage
        gc.freeze()
    os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")  # else the hub's bot may give other files
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # TRL uses old names
    warnings.filterwarnings("ignore", message="fan_in_fan_out is set to False")  # peft corrects it for GPT-2
    if cfg.device.threads:
        torch.set_num_threads(cfg.device.threads)


def resolve_model(cfg: Config, run_dir: Path) -> ModelSource:
    """The start model, with full weights. If it does not exist yet it is made once in the run folder: an untrained
    model, seeded, or an adapter merged with its base (unquantised, in cfg.model.dtype).

    Raises:
        ConfigError: it cannot be made.
    """
    source = locate_start_model(cfg)
    if cfg.model.init is None and not source.is_adapter:
        return source
    processes.on_main(_make_start_model, cfg, source, run_dir)
    return source.at(run_dir / START_MODEL)


def _make_start_model(cfg: Config, source: ModelSource, run_dir: Path) -> None:
    if (run_dir / START_MODEL).exists() and explain_damage(run_dir / START_MODEL) is None:
        return
    with staged(run_dir, START_MODEL) as staging:
        if cfg.model.init is not None:
            create_untrained(cfg.model.init, cfg.seed, staging / START_MODEL)
        else:
            merge(source, staging / START_MODEL)


def merge(source: ModelSource, out: str | Path) -> None:
    """Write base plus adapter as one model of full weights in the source's dtype, with its tokenizer.

    The base is loaded unquantised. An adapter trained on a 4-bit base learned with weights rounded to 4 bits: merged
    with the unrounded ones it differs from the trained model by that rounding. In bfloat16 the sum is rounded once
    more.

    Raises:
        ConfigError: its base or its tokenizer cannot be loaded, or does not fit.
    """
    source.check_whole()
    scores = {"num_labels": 1} if source.is_classifier else {}
    kind = AutoModelForSequenceClassification if scores else AutoModelForCausalLM
    how = {"dtype": source.dtype, "trust_remote_code": source.trust_remote_code, "use_safetensors": True}
    merged = load_adapted(kind, source, **how, **scores).merge_and_unload()
    tokenizer = read_tokenizer(source)
    if scores:  # it pools at the last token that is not padding
        merged.config.pad_token_id = tokenizer.pad_token_id
    merged.save_pretrained(out)
    tokenizer.save_pretrained(out)


def load_tokenizer(source: ModelSource) -> PreTrainedTokenizerBase:
    """Load the tokenizer, with a pad token (EOS if it has none, as in TRL), with the model's context as its
    `model_max_length` if that is shorter, and with thinking as the source says.

    Raises:
        ConfigError: it cannot be loaded (the message names the local option), it has neither a pad nor an EOS token, or
            one that the model has no embedding for, or its chat template does not know thinking.
    """
    tokenizer = read_tokenizer(source)
    if tokenizer.pad_token is None and tokenizer.eos_token is None:
        raise source.refuse("its tokenizer has neither a pad nor an EOS token; name one in its tokenizer_config.json")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    adapt_template(source, tokenizer)
    shape = source.config.get_text_config()
    for kind in ("pad", "eos"):
        token, text = getattr(tokenizer, f"{kind}_token_id"), getattr(tokenizer, f"{kind}_token")
        if token is not None and token >= shape.vocab_size:
            lacks = f"its tokenizer's {kind} token is {token}, {text}, and the model has embeddings of 0 to"
            way = f"name another one in its tokenizer_config.json, or call model.resize_token_embeddings({token + 1})"
            raise source.refuse(f"{lacks} {shape.vocab_size - 1}; {way}")
    context = getattr(shape, "max_position_embeddings", None)
    tokenizer.model_max_length = min(tokenizer.model_max_length, context or tokenizer.model_max_length)
    return tokenizer


def read_tokenizer(source: ModelSource) -> PreTrainedTokenizerBase:
    """The unchanged tokenizer; for an adapter without one, its base's.

    Raises:
        ConfigError: it cannot be loaded; the message names the local option.
    """
    source.check_whole()
    path = source.tokenizer
    with source.loading(Exception):  # a damaged file leads to errors of many types, tokenizers' to a plain Exception
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=source.trust_remote_code)
        reads = len(tokenizer("text")["input_ids"])
    if not reads:  # transformers 5.23 makes an empty one for a folder without a tokenizer
        raise source.refuse("holds no tokenizer; must have a tokenizer.json, or its older files")
    return tokenizer


def find_teacher(cfg: Config, student: ModelSource, tokenizer: PreTrainedTokenizerBase) -> ModelSource | None:
    """The teacher, whose weights are not loaded; None without one.

    Raises:
        ConfigError: it is no language model, or has another vocabulary than the student, with which its distributions
            are compared token by token.
    """
    if cfg.teacher.path is None:
        return None
    teacher = locate_teacher(cfg)
    teacher.check_language_model()
    own, its = tokenizer.get_vocab(), read_tokenizer(teacher).get_vocab()
    sizes = [source.config.get_text_config().vocab_size for source in (teacher, student)]
    if own != its or len(set(sizes)) > 1:
        shared = sum(own.get(token) == place for token, place in its.items())
        found = (f"{n:,} tokens in {size:,} embeddings" for n, size in zip((len(its), len(own)), sizes, strict=True))
        why = f"has another vocabulary than the student: {' and '.join(found)}, {shared:,} tokens of which are the same"
        raise teacher.refuse(f"{why}; must be a model with the student's tokenizer")
    return teacher


def adapt_template(source: ModelSource, tokenizer: PreTrainedTokenizerBase) -> None:
    """Give the tokenizer the chat template that the source names, one of TRL's, and write thinking on or off into its
    template, so that every use of it, in TRL and here, sees the same prompt.

    Raises:
        ConfigError: TRL has no such template, or the template does not know thinking.
    """
    if source.chat_template is not None:
        tokenizer.chat_template = _read_template(source.chat_template)
    _set_thinking(source, tokenizer)


def _read_template(name: str) -> str:
    folder = files("trl") / "chat_templates"
    texts = {Path(one.name).stem: one for one in folder.iterdir() if one.name.endswith(".jinja")}
    if name not in texts:
        names = sorted(one for one in texts if not one.endswith("_training"))
        raise ConfigError([f"model.chat_template={show(name)}: {one_of(name, names)}"])
    return texts[name].read_text(encoding="utf-8")


def _set_thinking(source: ModelSource, tokenizer: PreTrainedTokenizerBase) -> None:
    thinking, template = source.enable_thinking, tokenizer.chat_template
    if thinking is None:
        return
    if "enable_thinking" not in str(template):
        lacks = "has no chat template" if template is None else "has a chat template without thinking"
        raise ConfigError([f"model.enable_thinking={show(thinking)}: model={source.name} {lacks}; must be null"])
    marked = f"{{%- set enable_thinking = {show(thinking)} %}}"
    if not template.startswith(marked):
        tokenizer.chat_template = marked + template


def load_policy(source: ModelSource) -> Model:
    """Load a causal language model for measuring, in evaluation mode, on the run's device.

    Raises:
        ConfigError: it cannot be loaded (the message names the local option), or is not a language model.
    """
    source.check_language_model()
    return _load(AutoModelForCausalLM, source)


def load_scorer(source: ModelSource, seed: int | None = None) -> Model:
    """Load a reward model: a sequence classifier with one label, in evaluation mode, on the run's device.

    The reward is read at the last token that is not padding; if EOS serves as padding (GPT-2), that is the last one
    before EOS, in training and here.

    Args:
        seed: if the weights have no head, one is drawn after set_seed(seed), which makes it the one with which
            RewardTrainer starts. Without a seed there must be a head.

    Raises:
        ConfigError: it cannot be loaded (the message names the local option), or is not a classifier with one label.
    """
    if seed is None and not source.is_classifier:
        held = (source.config.architectures or ["of no named class"])[0]
        raise source.refuse(f"holds a language model ({held}), not a reward model; train one with algo=reward_model")
    pad_id = load_tokenizer(source).pad_token_id
    if seed is not None:
        set_seed(seed)
    model = _load(AutoModelForSequenceClassification, source, num_labels=1)
    model.config.get_text_config().pad_token_id = pad_id
    return model


def _load(kind: Any, source: ModelSource, **kwargs: Any) -> Model:
    kwargs |= {
        "dtype": source.dtype,
        "attn_implementation": source.attn_implementation,
        "trust_remote_code": source.trust_remote_code,
        "use_safetensors": True,
        "quantization_config": BitsAndBytesConfig(**source.quantization) if source.quantization else None,
        # As in TRL: if there is a GPU, weights are quantised and a missing head is drawn on it.
        "device_map": None if source.use_cpu else {"": "cuda"},
    }
    source.check_whole()
    with source.loading(*UNREADABLE):
        model: Any = (load_adapted if source.is_adapter else load_weights)(kind, source, **kwargs)
    patch_model(model)
    return model.to("cpu" if source.use_cpu else "cuda").eval()
