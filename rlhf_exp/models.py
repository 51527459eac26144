"""Tokenizers and models: where they are, how they are loaded, and what identifies their weights.

path = resolve_model(cfg, run_dir)          # a folder or a hub id that from_pretrained takes
tokenizer = load_tokenizer(cfg, path)
model = load_policy(cfg, path)
"""

import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    set_seed,
)

from rlhf_exp.config import ConfigError
from rlhf_exp.tasks.countdown_traces import LARGEST_STEP

if TYPE_CHECKING:
    from rlhf_exp.config import Config

ASSETS = Path(__file__).parent / "assets"

TRACE_WORDS = "<pad> <eos> <unk> use make . <think> </think> <answer> </answer> yes no give up check ; = ( ) + - * /"
"""The tiny model's vocabulary, before the integers from 0 to LARGEST_STEP: one token a word."""


def resolve_model(cfg: "Config", run_dir: Path) -> str:
    """The folder or hub id of the start model. An untrained one is first made, seeded, in the run folder."""
    if cfg.model.init is not None:
        path = run_dir / "start_model"
        if not (path / "config.json").exists():
            create_untrained(cfg.model.init, cfg.seed, path)
        return str(path)
    if cfg.model.path is None:
        return str(ASSETS / cfg.model.name)
    return str(Path(cfg.model.path).expanduser()) if is_folder(cfg.model.path) else cfg.model.path


def is_folder(path: str) -> bool:
    """Whether a model path is a local folder, not a hub id."""
    return Path(path).expanduser().is_dir()


def create_untrained(init: dict, seed: int, path: Path) -> None:
    """Write a randomly initialised Qwen3 of the shape `init`, with the word-level tokenizer of the search traces."""
    tokenizer = build_trace_tokenizer()
    set_seed(seed)
    config = Qwen3Config(
        **init,
        vocab_size=len(tokenizer),
        bos_token_id=None,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    Qwen3ForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)


def build_trace_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token for each word of a search trace, numbers included; words are parted by spaces."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = [*TRACE_WORDS.split(), *map(str, range(LARGEST_STEP + 1))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def load_tokenizer(cfg: "Config", path: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer, with a pad token (EOS where it has none, as TRL does).

    Raises:
        ConfigError: it cannot be had, with the local option to use.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=cfg.model.trust_remote_code)
    except (OSError, ValueError) as error:
        raise ConfigError([_explain(path, error)]) from None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_policy(cfg: "Config", path: str, dtype: torch.dtype | None = None) -> PreTrainedModel:
    """Load a causal language model for measuring, in evaluation mode, on the run's device.

    `dtype` overrules the config's.

    Raises:
        ConfigError: it cannot be had, with the local option to use.
    """
    kwargs = {"attn_implementation": cfg.model.attn_implementation} if cfg.model.attn_implementation else {}
    try:
        model = AutoModelForCausalLM.from_pretrained(
            path, dtype=dtype or cfg.model.dtype, trust_remote_code=cfg.model.trust_remote_code, **kwargs
        )
    except (OSError, ValueError) as error:
        raise ConfigError([_explain(path, error)]) from None
    return model.to("cpu" if cfg.device.use_cpu else "cuda").eval()


def identify_weights(path: str) -> str:
    """What the weights and the tokenizer of a model are: a hash of its files, or the commit of a hub id."""
    if is_folder(path):
        files = sorted(f for f in Path(path).iterdir() if re.search(r"\.(safetensors|json|txt|model|jinja)$", f.name))
        digest = sha256()
        for file in files:
            digest.update(file.name.encode())
            digest.update(sha256(file.read_bytes()).digest())
        return digest.hexdigest()
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


def _explain(path: str, error: Exception) -> str:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    where = "" if is_folder(path) else "; without a network use model=tiny, or model.path=FOLDER"
    return f"model.path={path}: cannot be loaded ({first}){where}"
