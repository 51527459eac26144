"""Creates models with random weights, of any architecture, with a tokenizer that needs no download.

create_untrained({"architecture": "gpt2", "tokenizer": "bytes", "hidden_size": 64}, seed=0, path=Path("start_model"))
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    set_seed,
)

from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError, refusing
from rlhf_exp.graders.countdown import LARGEST_STEP

TRACE_WORDS = "<pad> <eos> <unk> use make . <think> </think> <answer> </answer> yes no give up check ; = ( ) + - * /"
"""The tiny model's vocabulary, before the integers from 0 to LARGEST_STEP: one token per word."""

RENAMED = {"intermediate_size": "n_inner"}
"""A common name that the `attribute_map` of GPT-2's config leaves out."""

FROM_TOKENIZER = ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id")


def create_untrained(init: dict, seed: int, path: Path) -> None:
    """Write a randomly initialised model and its tokenizer.

    Args:
        init: `architecture` (a model type of transformers), `tokenizer` (words, bytes), and the shape.

    Raises:
        ConfigError: a key that the architecture does not have, or a shape that it cannot have.
    """
    tokenizer = build_tokenizer(init)
    config = build_config(init, tokenizer)
    set_seed(seed)
    with _refusing_shape(init):
        model = AutoModelForCausalLM.from_config(config).eval()
        model(torch.tensor([[tokenizer.eos_token_id]]))  # fails if the heads do not divide the hidden size
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)


def build_config(init: dict, tokenizer: PreTrainedTokenizerBase) -> PreTrainedConfig:
    """The configuration of `init`, whose shape has transformers' common names: hidden_size, num_hidden_layers, ...

    Raises:
        ConfigError: a key that the architecture does not have, or a value of the wrong type.
    """
    kind: Any = CONFIG_MAPPING[init["architecture"]]
    fields = [name for name in kind.__annotations__ if name not in FROM_TOKENIZER]
    common = {given: name for given, name in (RENAMED | kind.attribute_map).items() if name in fields}
    names = common | {name: name for name in fields if name not in common.values()}
    shape = {key: value for key, value in init.items() if key not in ("architecture", "tokenizer")}
    if unknown := [key for key in shape if key not in names]:
        lacks = f"{init['architecture']} has no such key"
        allowed = f"must be one of architecture, tokenizer, {', '.join(names)}"
        raise ConfigError(f"model.init.{key}={shape[key]}: {lacks}{suggest(key, names)}; {allowed}" for key in unknown)
    own = {names[key]: value for key, value in shape.items()}
    tokens = {"bos_token_id": None, "pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    with _refusing_shape(init):
        return kind(**own, vocab_size=len(tokenizer), **tokens)


def build_tokenizer(init: dict) -> PreTrainedTokenizerFast:
    """The tokenizer that `init` names.

    Raises:
        ConfigError: the architecture cannot have it.
    """
    if (init["tokenizer"], init["architecture"]) == ("words", "qwen2"):
        # AutoTokenizer (5.23, MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS) takes the code of Qwen2's own tokenizer for
        # every folder of that architecture, which would silently drop words.
        raise ConfigError(["model.init.tokenizer=words: not with architecture=qwen2, only bytes"])
    return {"words": build_trace_tokenizer, "bytes": build_byte_tokenizer}[init["tokenizer"]]()


def build_trace_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token for each word of a search trace, including numbers; words are separated by spaces."""
    words = [*TRACE_WORDS.split(), *map(str, range(LARGEST_STEP + 1))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def build_byte_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token for each byte of UTF-8, which encodes and decodes any text. (In the folder of a Qwen2
    model, Qwen2's own tokenizer class loads it, which first normalizes Unicode to its composed form, NFC.)"""
    symbols = ["<pad>", "<eos>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(symbols)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )
    made.init_kwargs["unk_token"] = None  # written as null, or Qwen2's tokenizer would add one of its own
    return made


def _refusing_shape(init: dict) -> AbstractContextManager[None]:
    line = f"model.init: not a shape of {init['architecture']}"
    return refusing(line, StrictDataclassError, ValueError, RuntimeError)
