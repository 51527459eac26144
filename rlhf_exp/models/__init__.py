"""Tokenizers and models: where they are, how they are loaded, and what identifies their weights.

path = resolve_model(cfg, run_dir)          # a folder or a hub id that from_pretrained takes
tokenizer = load_tokenizer(cfg, path)
model = load_policy(cfg, path)

Where `path` is an adapter's folder, its base is loaded and the adapter put on it.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from omegaconf import OmegaConf
from peft import PeftModel
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    set_seed,
)

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.values import show
from rlhf_exp.errors import ConfigError
from rlhf_exp.models import adapters
from rlhf_exp.models.adapters import AdapterError, is_adapter
from rlhf_exp.models.loading import (
    explain,
    is_classifier,
    is_folder,
    load_config,
    load_model,
    locate_model,
    read_tokenizer,
)
from rlhf_exp.models.untrained import create_untrained
from rlhf_exp.runs.inputs import hash_weights

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config


def resolve_model(cfg: "Config", run_dir: Path) -> str:
    """The folder or hub id of the start model, of full weights.

    One that is not there yet is made in the run folder, once: an untrained one, seeded, or an adapter merged onto its
    base (unquantised, in cfg.model.dtype).

    Raises:
        ConfigError: it cannot be made.
    """
    if cfg.model.init is None and not is_adapter(locate_model(cfg)):
        return locate_model(cfg)
    path, part = run_dir / "start_model", run_dir / "start_model.part"
    if not path.exists():
        shutil.rmtree(part, ignore_errors=True)  # of a run that ended while it was written
        if cfg.model.init is not None:
            create_untrained(cfg.model.init, cfg.seed, part)
        else:
            _merge(cfg, part)
        part.rename(path)
    return str(path)


def load_tokenizer(cfg: "Config", path: str, key: str = "model.path") -> PreTrainedTokenizerBase:
    """Load the tokenizer, with a pad token (EOS where it has none, as TRL does), with the model's context as its
    `model_max_length` where that is shorter, and with thinking as cfg.model.enable_thinking says.

    Raises:
        ConfigError: it cannot be had, with the local option to use; it has neither a pad nor an EOS token; or its
            chat template does not know thinking.
    """
    tokenizer = read_tokenizer(cfg, path, key)
    if tokenizer.pad_token is None and tokenizer.eos_token is None:
        raise ConfigError(
            [f"{key}={path}: its tokenizer has neither a pad nor an EOS token; name one in its tokenizer_config.json"]
        )
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    set_thinking(cfg, tokenizer)
    context = getattr(load_config(cfg, path, key).get_text_config(), "max_position_embeddings", None)
    tokenizer.model_max_length = min(tokenizer.model_max_length, context or tokenizer.model_max_length)
    return tokenizer


def set_thinking(cfg: "Config", tokenizer: PreTrainedTokenizerBase) -> None:
    """Write thinking on or off into the chat template, so that TRL's every use of it and ours see the same prompt.

    Raises:
        ConfigError: the template does not know thinking.
    """
    thinking, template = cfg.model.enable_thinking, tokenizer.chat_template
    if thinking is None:
        return
    if "enable_thinking" not in str(template):
        lacks = "has no chat template" if template is None else "has a chat template without thinking"
        raise ConfigError([f"model.enable_thinking={show(thinking)}: model={cfg.model.name} {lacks}; must be null"])
    marked = f"{{%- set enable_thinking = {show(thinking)} %}}"
    if not template.startswith(marked):
        tokenizer.chat_template = marked + template


def load_policy(cfg: "Config", path: str, dtype: torch.dtype | None = None) -> PreTrainedModel | PeftModel:
    """Load a causal language model for measuring, in evaluation mode, on the run's device, quantised as cfg.peft says.

    `dtype` overrules the config's.

    Raises:
        ConfigError: it cannot be had, with the local option to use, or is not a language model.
    """
    _refuse_classifier(cfg, path)
    return load_model(AutoModelForCausalLM, cfg, path, "model.path", dtype or cfg.model.dtype, cfg.peft.quantization)


def load_scorer(cfg: "Config", path: str) -> PreTrainedModel | PeftModel:
    """Load a reward model of the run itself: a sequence classifier with one label, in evaluation mode.

    A head that the weights lack is drawn after set_seed(cfg.seed), which makes it the one that RewardTrainer starts
    from. The reward is read at the last token that is not padding; where EOS serves for padding (GPT-2), that is the
    last one before EOS, in training and here alike.

    Raises:
        ConfigError: it cannot be had, with the local option to use.
    """
    pad_id = load_tokenizer(cfg, path).pad_token_id
    set_seed(cfg.seed)
    return _load_scorer(cfg, path, "model.path", cfg.model.dtype, cfg.peft.quantization, pad_id)


def load_reward_model(cfg: "Config") -> tuple[PreTrainedModel | PeftModel, PreTrainedTokenizerBase]:
    """Load the reward model of cfg.reward.path, and its tokenizer: from a run's folder what that run saved, in its
    dtype and quantised as there; else that folder or hub id, in cfg.model.dtype.

    Raises:
        ConfigError: it cannot be had, or is not a classifier with one label.
    """
    folder, key = Path(cfg.reward.path).expanduser(), "reward.path"
    path, dtype, quantization = str(folder) if folder.is_dir() else cfg.reward.path, cfg.model.dtype, None
    if (folder / ".hydra" / "config.yaml").is_file():
        if not (folder / "model").is_dir():
            raise ConfigError(
                [f"{key}={cfg.reward.path}: a run that has saved no model; its run.json says how far it got"]
            )
        run = OmegaConf.load(folder / ".hydra" / "config.yaml")
        path, dtype = str(folder / "model"), run.model.dtype
        quantization = OmegaConf.to_container(run.peft.quantization) if run.peft.quantization else None
    if not is_classifier(cfg, path, key):
        held = (load_config(cfg, path, key).architectures or ["of no named class"])[0]
        raise ConfigError(
            [
                f"{key}={cfg.reward.path}: holds a language model ({held}), not a reward model;"
                " train one with algo=reward_model"
            ]
        )
    tokenizer = load_tokenizer(cfg, path, key)
    return _load_scorer(cfg, path, key, dtype, quantization, tokenizer.pad_token_id), tokenizer


def identify_weights(path: str) -> str:
    """What the weights and the tokenizer of a model are: a hash of its files, or the commit of a hub id."""
    if is_folder(path):
        return hash_weights(Path(path).expanduser())
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(path, local_files_only=True)).name


def count_unknown(tokenizer: PreTrainedTokenizerBase, prompts: list[str]) -> dict[str, int]:
    """How often each word of plain-text prompts falls outside the vocabulary; empty for a byte-level tokenizer."""
    counts: dict[str, int] = {}
    if tokenizer.unk_token_id is None:
        return counts
    for prompt in prompts:
        encoded = tokenizer(prompt, return_offsets_mapping=True)
        for token, (start, end) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
            if token == tokenizer.unk_token_id:
                counts[prompt[start:end]] = counts.get(prompt[start:end], 0) + 1
    return counts


def free_memory() -> None:
    """Give the GPU memory of deleted models back."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _merge(cfg: "Config", out: Path) -> None:
    adapter = locate_model(cfg)
    if not ALGORITHMS[cfg.algo.name].scores:
        _refuse_classifier(cfg, adapter)
    try:
        adapters.merge(adapter, out, cfg.model.base, cfg.model.dtype, cfg.model.trust_remote_code)
    except AdapterError as error:
        raise ConfigError([explain(adapter, error)]) from None


def _refuse_classifier(cfg: "Config", path: str) -> None:
    if is_classifier(cfg, path, "model.path"):
        raise ConfigError([f"model.path={path}: holds a reward model; algo={cfg.algo.name} needs a language model"])


def _load_scorer(
    cfg: "Config", path: str, key: str, dtype: str | torch.dtype, quantization: dict | None, pad_id: int
) -> PreTrainedModel | PeftModel:
    labels = load_config(cfg, path, key).num_labels
    if is_classifier(cfg, path, key) and not is_adapter(path) and labels != 1:
        raise ConfigError([f"{key}={path}: holds a classifier with {labels} labels; a reward model has one"])
    model = load_model(AutoModelForSequenceClassification, cfg, path, key, dtype, quantization, num_labels=1)
    model.config.get_text_config().pad_token_id = pad_id
    return model
