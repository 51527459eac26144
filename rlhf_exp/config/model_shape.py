"""Finds the start model's shape and number of parameters before anything loads.

    shape = find_shape("Qwen/Qwen3-1.7B", None, None, None)
    shape.parameters, shape.source      # 1720574976, "the shape of Qwen/Qwen3-1.7B that ships with the package"

The headers of safetensors in a model's folder, or in the hub's cache, say the number exactly. Without them it comes
from assets/shapes.json, or is estimated from config.json within some percent; defaults depend on its order of
magnitude.
"""

import json
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rlhf_exp.config import hub

INIT_VOCABULARY: dict[Any, int] = {"words": 224, "bytes": 258}
"""Tokens of the tokenizers that model.init can name."""

GPT2_NAMES = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
}
ASSETS = Path(__file__).parent.parent / "assets"
KNOWN = ASSETS / "shapes.json"
MOST_HEADER = 100_000_000  # bytes, as the format allows
_FLOATS = ("F64", "F32", "F16", "BF16")

# What a layer keeps of each token for the backward pass, in values, if attention keeps no scores. By
# torch.autograd.graph.saved_tensors_hooks on Qwen2 and Qwen3 of six shapes each, to 3%; GPT-2 keeps a fifth less.
KEPT_HIDDEN = 8  # times the hidden size, in float32 also where the rest is in bfloat16
KEPT_INNER = 4.5  # times the sizes of the MLP, the queries, the keys and the values


ConfigJson = dict[str, Any]
"""The content of a config.json of transformers."""


class Shape(NamedTuple):
    """`parameters` and `context` are None if not known; `source` says where they come from, or why they are not."""

    parameters: int | None
    context: int | None
    source: str
    values: ConfigJson | None = None


def find_shape(path: str | None, base: str | None, init: dict | None, name: str | None) -> Shape:
    """The shape of a model; arguments as in cfg.model. `path` null means the shipped option `name`."""
    if init is not None:
        values = dict(init) | {"model_type": init.get("architecture")}
        return _measure(values | {"vocab_size": INIT_VOCABULARY.get(init.get("tokenizer"))}, f"model={name}")
    folder = ASSETS / str(name) if path is None else Path(path).expanduser()
    if (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file():
        named = base or _load(folder / "adapter_config.json").get("base_model_name_or_path")
        if base is None and named is not None:
            named = find_local_base(folder, str(named)) or named
        if named is None or (Path(named).expanduser() / "adapter_config.json").is_file():
            return Shape(None, None, f"the adapter {folder} names no model as its base")
        return find_shape(str(named), None, None, None)
    if path is None or folder.is_dir():
        return _read(folder / "config.json", f"model={name}" if path is None else path)
    if (cached := hub.find_cached(path)) is not None:
        return _read(cached, path)
    if known := _load(KNOWN).get(path):
        parameters, source = known.pop("parameters"), f"the shape of {path} that ships with the package"
        return _measure(known, source)._replace(parameters=parameters, source=source)
    if (fetched := hub.fetch(path)) is not None:
        return _read(fetched, path)
    why = f"the config.json of {path} is not in the hub's cache, the hub does not give it, nor is there such a folder"
    return Shape(None, None, why)


def count_weights(folder: Path) -> int | None:
    """The number of values in the folder's safetensors, from the headers alone; None without any, or if packed.

    A tied head is stored once or not at all; packed weights (4 and 8 bits) have fewer values than parameters.
    """
    tensors: list[dict[str, Any]] = []
    with suppress(OSError, ValueError, TypeError, KeyError):  # by hand, since the package safetensors imports numpy
        for file in filter(Path.is_file, folder.glob("model*.safetensors")):  # opening a pipe would wait
            with open(file, "rb") as weights:
                length = int.from_bytes(weights.read(8), "little")
                header = json.loads(weights.read(min(length, MOST_HEADER)))
            tensors += [header[name] for name in header if name != "__metadata__"]
        packed = any(tensor["dtype"] not in _FLOATS for tensor in tensors)
        return None if packed or not tensors else sum(prod(tensor["shape"]) for tensor in tensors)
    return None


def estimate_parameters(config: ConfigJson) -> int | None:
    """The parameters of a dense decoder of that config.json without norms and biases; None if it is another model."""
    with suppress(KeyError, TypeError, ZeroDivisionError):
        hidden, vocabulary, heads = config["hidden_size"], config["vocab_size"], config["num_attention_heads"]
        head, is_gpt2 = config.get("head_dim") or hidden // heads, config.get("model_type") == "gpt2"
        inner = config.get("intermediate_size") or 4 * hidden
        attention = 2 * hidden * head * (heads + (config.get("num_key_value_heads") or heads))
        layers = config["num_hidden_layers"] * (attention + (2 if is_gpt2 else 3) * hidden * inner)
        embeddings = vocabulary * hidden * (1 if config.get("tie_word_embeddings", is_gpt2) else 2)
        positions = config.get("max_position_embeddings", 1_024) * hidden if is_gpt2 else 0
        return None if any("expert" in key for key in config) else layers + embeddings + positions
    return None


def count_token_bytes(config: ConfigJson, width: int, recomputes: bool) -> tuple[float, int]:
    """What a forward pass of all layers keeps of a token for the backward pass, and its keys and values while sampling.

    Args:
        config: a config.json.
        width: bytes of a value that the layers compute.
        recomputes: whether activations are computed again in the backward pass (activation_checkpointing).

    Raises:
        KeyError: the config names no hidden size or number of layers.
    """
    config = config | {name: config[own] for name, own in GPT2_NAMES.items() if own in config}
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    queries = config.get("num_attention_heads") or 1  # an upper bound for a model without attention
    keys = config.get("num_key_value_heads") or queries
    size = config.get("head_dim") or hidden // queries
    # Keys and values count as one of the two (see KEPT_INNER).
    inner = (config.get("intermediate_size") or 4 * hidden) + (queries + keys) * size
    layer = KEPT_HIDDEN * hidden * 4 + KEPT_INNER * inner * width
    # Recomputing keeps the inputs of each layer, and one whole layer.
    kept = layers * hidden * 4 + layer if recomputes else layers * layer
    return kept, 2 * layers * keys * size * width


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
        config = _load(folder / ".hydra" / "config.yaml")
        model = config.get("model") or {}
        start = Path(model.get("path") or ASSETS / str(model.get("name"))).expanduser()
        if (config.get("hub") or {}).get("base_model") == recorded and start.is_dir():
            return str(start)
    return None


def _read(file: Path, source: str) -> Shape:
    """The shape by a config.json, and by the weights beside it."""
    if not file.is_file():
        return Shape(None, None, f"{file} is missing")
    weights = count_weights(file.parent)
    shape = _measure(_load(file), f"the config.json of {source}")
    return shape._replace(parameters=weights, source=f"the weights of {source}") if weights else shape


def _measure(config: ConfigJson, source: str) -> Shape:
    values = config.get("text_config") or config
    named = values | {name: values[own] for name, own in GPT2_NAMES.items() if own in values}
    parameters, context = estimate_parameters(named), named.get("max_position_embeddings")
    about = f"{source}, estimated" if parameters else f"{source} has a shape whose parameters cannot be counted"
    return Shape(parameters, context, about, values)


def _load(path: Path) -> dict[str, Any]:
    """The mapping in a file of JSON, or of YAML; empty if it is none."""
    with suppress(OSError, ValueError, RecursionError, yaml.YAMLError):
        value = (yaml.safe_load if path.suffix == ".yaml" else json.loads)(path.read_text(encoding="utf-8"))
        return value if isinstance(value, dict) else {}
    return {}
