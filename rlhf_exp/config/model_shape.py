"""Finds the start model's shape and number of parameters before anything loads, from its config.json alone.

    shape = find_shape("Qwen/Qwen3-1.7B", None, None, None)
    shape.parameters, shape.source      # 1720574976, "the shape of Qwen/Qwen3-1.7B that ships with the package"

For a folder, the shape is that of its config.json or of its adapter's base; if that does not determine the parameters
exactly, they are counted in the headers of its safetensors. For a hub id, it comes from the hub's cache, else from
assets/shapes.json, else from the hub if it answers.
"""

import json
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from safetensors import SafetensorError, safe_open

from rlhf_exp.config import hub

INIT_VOCABULARY = {"words": 224, "bytes": 258}
"""Tokens of the tokenizers that model.init can name."""

GPT2_NAMES = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
}
COUNTED = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "smollm3")  # exactly, from config.json
_LLAMAS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "embed_tokens", "lm_head")
_MODULES = dict.fromkeys(COUNTED, _LLAMAS) | {"gpt2": ("c_attn", "c_proj", "c_fc", "wte", "wpe", "lm_head")}
"""The modules of these types that an adapter can be added to, by the last part of their names."""
ASSETS = Path(__file__).parent.parent / "assets"
KNOWN = ASSETS / "shapes.json"
_FLOATS = ("F64", "F32", "F16", "BF16")


class Shape(NamedTuple):
    """`parameters` and `context` are None if not known; `source` says where they come from, or why they are not."""

    parameters: int | None
    context: int | None
    source: str
    values: dict[str, Any] | None = None


def find_shape(path: str | None, base: str | None, init: dict | None, name: str | None) -> Shape:
    """The shape of a model; arguments as in cfg.model. `path` null means the shipped option `name`."""
    if init is not None:
        values = dict(init) | {"model_type": init.get("architecture")}
        values["vocab_size"] = INIT_VOCABULARY.get(init.get("tokenizer"))
        return _measure(values, f"model={name}")
    if path is None:
        return _read(ASSETS / str(name) / "config.json", f"model={name}")
    folder = Path(path).expanduser()
    if (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file():
        return _find_base(folder, base)
    if folder.is_dir():
        shape = _read(folder / "config.json", f"the config.json of {path}")
        exact = shape.values is None or shape.values.get("model_type") in COUNTED
        weights = None if exact else count_weights(folder)
        return shape._replace(parameters=weights, source=f"the weights of {path}") if weights else shape
    if (cached := hub.find_cached(path, "config.json")) is not None:
        return _read(cached, f"the cached config.json of {path}")
    if (known := _load(KNOWN).get(path)) is not None:
        return _measure(known, f"the shape of {path} that ships with the package")
    if (fetched := hub.fetch(path, "config.json")) is not None:
        return _read(fetched, f"the config.json of {path}")
    why = f"the config.json of {path} is not in the hub's cache, the hub does not give it, nor is there such a folder"
    return Shape(None, None, why)


def count_parameters(config: dict[str, Any]) -> int | None:
    """The parameters of a causal language model of that config.json; None for a shape that is not a dense decoder's.

    Exact for gpt2, llama, mistral, qwen2 and qwen3; other dense decoders are counted as a llama of their shape.
    """
    if any("expert" in key for key in config):
        return None
    try:
        return _count_gpt2(config) if config.get("model_type") == "gpt2" else _count_llama(config)
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def count_weights(folder: Path) -> int | None:
    """The number of values in the folder's safetensors, from the headers alone; None without any, or if packed.

    A tied head is stored once or not at all; packed weights (4 and 8 bits) have fewer values than parameters.
    """
    counts = [_count_file(str(file), file.stat().st_mtime_ns) for file in sorted(folder.glob("model*.safetensors"))]
    return sum(counts) if counts and None not in counts else None


def list_modules(path: str | None, base: str | None, init: dict | None, name: str | None) -> tuple[str, ...]:
    """The last parts of the names of the modules with a matrix of weights: of a known type, or as the safetensors in
    the model's folder say; empty if neither is there. Arguments as of `find_shape`."""
    shape = find_shape(path, base, init, name)
    kind = (shape.values or {}).get("model_type")
    if kind in _MODULES or path is None:
        return _MODULES.get(kind, ())
    found = set()
    try:
        for file in sorted(Path(path).expanduser().glob("model*.safetensors")):
            with safe_open(file, "np") as weights:
                names = [key for key in weights.keys() if len(weights.get_slice(key).get_shape()) > 1]
                found |= {key.removesuffix(".weight").rpartition(".")[2] for key in names}
    except (OSError, SafetensorError):
        return ()
    return (*sorted(found), "lm_head") if found else ()  # a tied head is not stored


@cache
def _count_file(file: str, changed: int) -> int | None:
    """The count for one file; `changed` makes the cache forget an older version."""
    try:
        with safe_open(file, "np") as weights:
            tensors = [weights.get_slice(name) for name in weights.keys()]
            packed = any(tensor.get_dtype() not in _FLOATS for tensor in tensors)
            return None if packed or not tensors else sum(prod(tensor.get_shape()) for tensor in tensors)
    except (OSError, SafetensorError):
        return None


def find_local_base(adapter: Path, recorded: str) -> str | None:
    """The folder of an adapter's base, if it is known on this machine by more than the place that the adapter recorded:
    the start model that the adapter's run made in its own folder, which may have been moved; the model that ships with
    this package; or what that run started from, if what is recorded is its `hub.base_model`. Else None."""
    runs, place = adapter.resolve().parents[:2], Path(recorded)  # of RUN/model, or of RUN/checkpoints/x
    if place.name == "start_model":
        return next((str(folder / place.name) for folder in runs if (folder / place.name).is_dir()), None)
    if place.parent.parts[-2:] == (ASSETS.parent.name, ASSETS.name) and not place.is_dir():
        return str(ASSETS / place.name)
    for folder in runs:
        config = _load_yaml(folder / ".hydra" / "config.yaml")
        model = config.get("model") or {}
        start = Path(model.get("path") or ASSETS / str(model.get("name"))).expanduser()
        if (config.get("hub") or {}).get("base_model") == recorded and start.is_dir():
            return str(start)
    return None


def common_names(config: dict[str, Any]) -> dict[str, Any]:
    """The config with GPT-2's values also under the names that other models use."""
    return config | {name: config[own] for name, own in GPT2_NAMES.items() if own in config}


def _find_base(adapter: Path, base: str | None) -> Shape:
    """The shape of an adapter's base, which is found as in models/."""
    named = base or _load(adapter / "adapter_config.json").get("base_model_name_or_path")
    if base is None and named is not None:
        named = find_local_base(adapter, str(named)) or named
    if named is None or (Path(named).expanduser() / "adapter_config.json").is_file():
        return Shape(None, None, f"the adapter {adapter} names no model as its base")
    return find_shape(str(named), None, None, None)


def _count_gpt2(config: dict[str, Any]) -> int:
    shape = common_names(config)
    hidden, vocabulary = shape["hidden_size"], shape["vocab_size"]
    inner = shape.get("intermediate_size") or 4 * hidden
    norms, attention = 2 * 2 * hidden, hidden * 3 * hidden + 3 * hidden + hidden * hidden + hidden
    mlp = 2 * hidden * inner + inner + hidden
    embeddings = vocabulary * hidden * (1 if shape.get("tie_word_embeddings", True) else 2)
    positions = shape.get("max_position_embeddings", 1_024) * hidden
    return embeddings + positions + shape["num_hidden_layers"] * (norms + attention + mlp) + 2 * hidden


def _count_llama(config: dict[str, Any]) -> int:
    kind, hidden, inner = config.get("model_type"), config["hidden_size"], config["intermediate_size"]
    heads = config["num_attention_heads"]
    head = config.get("head_dim") or (128 if kind == "qwen3" else hidden // heads)
    queries, keys = heads * head, (config.get("num_key_value_heads") or heads) * head
    attention = 2 * hidden * queries + 2 * hidden * keys
    if kind == "qwen2":
        attention += queries + 2 * keys  # biases of query, key and value
    elif config.get("attention_bias"):
        attention += queries + 2 * keys + hidden
    if kind == "qwen3":
        attention += 2 * head  # norms of query and key
    mlp = 3 * hidden * inner + (2 * inner + hidden if config.get("mlp_bias") else 0)
    embeddings = config["vocab_size"] * hidden * (1 if config.get("tie_word_embeddings", False) else 2)
    return embeddings + config["num_hidden_layers"] * (attention + mlp + 2 * hidden) + hidden


def _read(path: Path, source: str) -> Shape:
    if not path.is_file():
        return Shape(None, None, f"{path} is missing")
    return _measure(_load(path), source)


def _measure(config: dict[str, Any], source: str) -> Shape:
    values = config.get("text_config") or config
    parameters, context = count_parameters(values), common_names(values).get("max_position_embeddings")
    if parameters is None:
        return Shape(None, context, f"{source} has a shape whose parameters cannot be counted", values)
    about = "" if values.get("model_type") in COUNTED else ", counted as a llama's of its shape"
    return Shape(parameters, context, f"{source}{about}", values)


def _load_yaml(path: Path) -> dict[str, Any]:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError):
        return {}


def _load(path: Path) -> dict[str, Any]:
    return _parse(str(path), path.stat().st_mtime_ns)


@cache
def _parse(path: str, changed: int) -> dict[str, Any]:
    """The JSON of the file, cached until it changes, since every default of a run asks for it."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
