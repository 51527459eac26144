"""Estimates from the model's shape how many bytes of memory a run needs at its peak, on each GPU or on this computer.

    phases = estimate_memory(cfg, args, model, trained, prompt=90, row=602)
    phases["training"]          # {"weights": 2.4e9, "AdamW's moments": 4.8e9, "gradients": 2.4e9, "activations": 4.6e9}

bench/memory.py compares it with runs.
"""

from typing import Any

import torch
from transformers import PreTrainedModel, TrainingArguments

from rlhf_exp.config.device import count_completions, count_processes, targets_other_hardware
from rlhf_exp.config.rules.machine import DEEPSPEED, SHARDED
from rlhf_exp.config.schema import Config, Ppo

# What a layer keeps of each token for the backward pass, in values, if attention keeps no scores. By
# torch.autograd.graph.saved_tensors_hooks on Qwen2 and Qwen3 of six shapes each, to 3%; GPT-2 keeps a fifth less.
KEPT_HIDDEN = 8  # times the hidden size, in float32 also where the rest is in bfloat16
KEPT_INNER = 4.5  # times the sizes of the MLP, the queries, the keys and the values
OPTIMIZER_STATES = 2  # AdamW's two moments
MARGIN = 1.25
"""Nine runs on a CPU took 0.85 to 1.24 times the estimate: docs/gpu.md."""
BYTES_4_BIT = 0.5 + 8 / 64 / 8 + 4 / 64 / 256  # a weight, and its shares of the scales of two levels

Phases = dict[str, dict[str, float]]
"""Bytes by phase, and in it by what takes them."""


def estimate_memory(
    cfg: Config, args: TrainingArguments, model: PreTrainedModel, trained: int, prompt: float, row: float
) -> Phases:
    """The bytes of the training step, of sampling for it, and of evaluation.

    It leaves out the libraries, fragmentation, and the logits, which TRL computes in parts. Weights count whole on each
    process, since sampling and measuring gather them (models/scoring.py).

    Args:
        prompt, row: tokens of a prompt, and of the longest training row: its prompts and its answers, padded.
    """
    width, of_algo = torch.finfo(model.dtype).bits // 8, cfg.algo.row
    weights = count_weight_bytes(cfg, model, width)
    # Among how many processes gradients and moments are divided.
    parts = count_processes(cfg) if cfg.scale.name in (*SHARDED, *DEEPSPEED) else 1
    held = {"weights": weights, "AdamW's moments": trained * width * OPTIMIZER_STATES / parts}
    if cfg.peft.own_reference and keeps_reference(cfg, args):
        held["the reference"] = weights
    if getattr(cfg.algo, "critic", None) == "separate":
        held["the critic"] = model.num_parameters() * width * (2 + OPTIMIZER_STATES)
    phases = {}
    if of_algo.trains:
        copies = (1 + (cfg.scale.name == "ddp")) / parts  # DDP has a second copy, to be summed
        kept = args.per_device_train_batch_size * row * _count_kept_bytes(args, model, width)
        phases["training"] = held | {"gradients": copies * trained * width, "activations": kept}
    cached = _count_cached_bytes(args, model, width)
    if of_algo.online:
        phases["sampling"] = held | {"keys and values": count_completions(cfg) * row * cached}
    if not of_algo.scores:
        sampled = {"keys and values": cfg.eval.batch_size * (prompt + cfg.max_tokens) * cached}
        phases["evaluation"] = {"weights": (1 + of_algo.trains) * weights, **sampled}
        if cfg.eval.every:
            phases["validation"] = held | {"the start model": 0 if cfg.peft.lora else weights} | sampled
    return phases


def warn_of_memory(cfg: Config, needed: dict[str, float], free: float, where: str) -> str:
    """A warning for the line about memory if more bytes are needed in a phase than are free in a place (cost.py): how
    much that is, and a remedy. Of another machine, also that the run fits it, or may not."""
    peak, other = max(needed.values(), default=0), targets_other_hardware(cfg)
    place = f"the {free / 1e9:.0f} GB of {where}" if other else f"the {free / 1e9:.2f} GB that are free on {where}"
    if peak <= free:
        fits = "may not fit" if MARGIN * peak > free else "fits"
        return f"; {fits} in {place}" if other else ""
    ways = {"none": "peft=lora or peft=qlora", "lora": "peft=qlora"}.get(cfg.peft.name)
    way = f"add {ways}" if ways else "use a smaller model or algo.args.per_device_train_batch_size"
    if all(bytes_ <= free for phase, bytes_ in needed.items() if phase not in ("evaluation", "validation")):
        way = f"use an eval.batch_size below {cfg.eval.batch_size}"
    return f"; MORE than {place}; {way}"


def count_weight_bytes(cfg: Config, model: PreTrainedModel, width: int) -> float:
    """Bytes of the weights; in 4 bits embeddings and head keep their own type."""
    if not cfg.peft.quantization:
        return model.num_parameters() * width
    tied = model.config.get_text_config().tie_word_embeddings
    plain = model.get_input_embeddings().weight.numel() * (1 if tied else 2)  # type: ignore[operator]
    return (model.num_parameters() - plain) * BYTES_4_BIT + plain * width


def keeps_reference(cfg: Config, args: Any) -> bool:
    """Whether a second model stays in memory while training; `args` are TRL's."""
    row = cfg.algo.row
    if row.kl_price is None or not row.online:
        return row.kl_price is not None and not args.precompute_ref_log_probs
    if isinstance(cfg.algo, Ppo):
        return cfg.algo.init_kl_coef > 0 or cfg.algo.target_kl is not None
    return args.beta > 0


def _count_kept_bytes(args: TrainingArguments, model: PreTrainedModel, width: int) -> float:
    """What a forward pass keeps of a token for the backward pass."""
    shape = model.config.get_text_config()
    queries, keys, size = _read_heads(shape)
    inner = getattr(shape, "intermediate_size", None) or getattr(shape, "n_inner", None) or 4 * shape.hidden_size
    inner = max(inner) if isinstance(inner, list | tuple) else inner  # Gemma 3n has one for each layer
    # Keys and values count as one of the two (see KEPT_INNER).
    layer = KEPT_HIDDEN * shape.hidden_size * 4 + KEPT_INNER * (inner + (queries + keys) * size) * _mixed(args, width)
    if args.activation_checkpointing:  # the inputs of each layer, and one whole layer
        return shape.num_hidden_layers * shape.hidden_size * 4 + layer
    return shape.num_hidden_layers * layer


def _count_cached_bytes(args: TrainingArguments, model: PreTrainedModel, width: int) -> int:
    """The keys and values of a token that sampling keeps, of all layers."""
    shape = model.config.get_text_config()
    _, keys, size = _read_heads(shape)
    return 2 * shape.num_hidden_layers * keys * size * _mixed(args, width)


def _mixed(args: TrainingArguments, width: int) -> int:
    """Bytes of a value that autocast makes."""
    return 2 if args.bf16 or args.fp16 else width


def _read_heads(shape: Any) -> tuple[int, int, int]:
    """Heads of the queries, heads of the keys and values, and the values of each; one head for a model without
    attention, an upper bound."""
    queries = getattr(shape, "num_attention_heads", None) or 1
    keys = getattr(shape, "num_key_value_heads", None) or getattr(shape, "num_kv_heads", None) or queries
    return queries, keys, getattr(shape, "head_dim", None) or shape.hidden_size // queries
