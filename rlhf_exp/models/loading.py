"""What `from_pretrained` gives, of a model or of an adapter on its base, with one line for what it cannot read.

model = load_model(AutoModelForCausalLM, cfg, path, "model.path", dtype="float32", quantization=None)
is_classifier(cfg, path, "model.path")     # False
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from peft import PeftModel
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoTokenizer,
    BitsAndBytesConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from rlhf_exp.config.hub import is_hub_id
from rlhf_exp.errors import ConfigError
from rlhf_exp.models import adapters
from rlhf_exp.models.adapters import AdapterError, WrongBase, is_adapter
from rlhf_exp.models.positions import mend_positions
from rlhf_exp.models.quantization import keep_unpacked

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config

ASSETS = Path(__file__).parent.parent / "assets"

UNREADABLE = (OSError, ValueError, SafetensorError)
"""What from_pretrained raises for a folder or hub id that it cannot read."""

OFFLINE = {
    "model.path": "; without a network use model=tiny, model=tiny_gpt2, or model.path=FOLDER",
    "reward.path": "; without a network use reward.path=RUN_DIR",
}
HINTS = {
    "model.path": "set model.base=FOLDER to the one it was trained on",
    "reward.path": "merge it onto the one it was trained on: python -m rlhf_exp.merge ADAPTER OUT --base FOLDER",
}


def locate_model(cfg: "Config") -> str:
    """The folder or hub id that cfg.model names, for a model that is not to be made: may be an adapter's."""
    if cfg.model.path is None:
        return str(ASSETS / cfg.model.name)
    return str(Path(cfg.model.path).expanduser()) if is_folder(cfg.model.path) else cfg.model.path


def name_model(cfg: "Config") -> str:
    """What records call the start model: the option's name, or the end of the path given instead of its own."""
    path = cfg.model.path
    if path is None or (is_hub_id(path) and cfg.model.name != "tiny"):
        return cfg.model.name
    return "/".join(Path(path).parts[-2:])


def is_folder(path: str) -> bool:
    """Whether a model path is a local folder, not a hub id."""
    return Path(path).expanduser().is_dir()


def find_named_base(cfg: "Config", path: str) -> str | None:
    """cfg.model.base is that of cfg.model.path; the adapters that runs make record theirs."""
    return cfg.model.base if cfg.model.path is not None and path == locate_model(cfg) else None


def read_tokenizer(cfg: "Config", path: str, key: str = "model.path") -> PreTrainedTokenizerBase:
    """The tokenizer as it lies there; of an adapter that brings none, its base's.

    Raises:
        ConfigError: it cannot be had, with the local option to use.
    """
    try:
        at = path
        if is_adapter(path) and not (Path(path) / "tokenizer_config.json").is_file():
            at = adapters.find_base(path, find_named_base(cfg, path))
        tokenizer = AutoTokenizer.from_pretrained(at, trust_remote_code=cfg.model.trust_remote_code)
    except (*UNREADABLE, AdapterError) as error:
        raise ConfigError([explain(path, error, key)]) from None
    if not tokenizer("text")["input_ids"]:  # transformers 5.23 makes an empty one of a folder without its files
        raise ConfigError([f"{key}={path}: holds no tokenizer; must have a tokenizer.json, or its older files"])
    return tokenizer


def load_config(cfg: "Config", path: str, key: str = "model.path") -> PreTrainedConfig:
    """The model's configuration; of an adapter, its base's.

    Raises:
        ConfigError: it cannot be had, with the local option to use.
    """
    try:
        at = adapters.find_base(path, find_named_base(cfg, path)) if is_adapter(path) else path
        return AutoConfig.from_pretrained(at, trust_remote_code=cfg.model.trust_remote_code)
    except (*UNREADABLE, AdapterError) as error:
        raise ConfigError([explain(path, error, key)]) from None


def is_classifier(cfg: "Config", path: str, key: str) -> bool:
    """Whether a folder, hub id or adapter's folder holds a sequence classifier, which a reward model is."""
    try:
        if is_adapter(path):
            return adapters.read_task_type(path) == "SEQ_CLS"
    except AdapterError as error:
        raise ConfigError([explain(path, error, key)]) from None
    return any(name.endswith("ForSequenceClassification") for name in load_config(cfg, path, key).architectures or [])


def load_model(
    kind: Any, cfg: "Config", path: str, key: str, dtype: str | torch.dtype, quantization: dict | None, **kwargs: Any
) -> PreTrainedModel | PeftModel:
    """Load a model of the auto class `kind`, in evaluation mode, on the run's device, its positions mended.

    Args:
        path: a folder or hub id, or an adapter's folder.
        key: the configuration's key that names it, for messages.
        quantization: arguments of BitsAndBytesConfig.

    Raises:
        ConfigError: it cannot be had, with the local option to use.
    """
    kwargs |= {
        "dtype": dtype,
        "attn_implementation": cfg.model.attn_implementation,
        "trust_remote_code": cfg.model.trust_remote_code,
        "quantization_config": BitsAndBytesConfig(**quantization) if quantization else None,
        # On a GPU weights are quantised, and a missing head is drawn, there, as in TRL.
        "device_map": None if cfg.device.use_cpu else {"": "cuda"},
    }
    try:
        if is_adapter(path):
            model = adapters.put_on(adapters.load_base(kind, path, find_named_base(cfg, path), **kwargs), path)
        else:
            model = kind.from_pretrained(path, **kwargs)
    except (*UNREADABLE, AdapterError) as error:
        raise ConfigError([explain(path, error, key)]) from None
    mend_positions(model)
    keep_unpacked(model)
    return model.to("cpu" if cfg.device.use_cpu else "cuda").eval()


def explain(path: str, error: Exception, key: str = "model.path") -> str:
    """One line: why what `key` names cannot be loaded, and the local option to use."""
    if isinstance(error, AdapterError):
        return f"{key}={error}; {HINTS[key]}" if isinstance(error, WrongBase) else f"{key}={error}"
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return f"{key}={path}: cannot be loaded ({first}){'' if is_folder(path) else OFFLINE[key]}"
