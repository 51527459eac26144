"""Estimates from the model's shape how many bytes of memory a run needs at its peak, on each GPU or on this computer.

    memory = estimate_memory(cfg, args, model, trained, prompt=90, row=602)
    memory.peak, memory.formula         # 14.2e9, "of training: 596,049,920 parameters x 4 bytes + ..."
    warn_of_memory(cfg, memory, machine)        # "; MORE than the 4.00 GB ...; add peft=lora or peft=qlora"

bench/memory.py compares it with runs.
"""

from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel, TrainingArguments

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.device import count_completions, count_processes
from rlhf_exp.config.rules.machine import DEEPSPEED, SHARDED
from rlhf_exp.config.schema import Config, Ppo
from rlhf_exp.dry_run.machine import Machine

# What a layer keeps of each token for the backward pass, in values, if attention keeps no scores. By
# torch.autograd.graph.saved_tensors_hooks on Qwen2 and Qwen3 of six shapes each, to 3%; GPT-2 keeps a fifth less.
KEPT_HIDDEN = 8  # times the hidden size, in float32 also where the rest is in bfloat16
KEPT_INNER = 4.5  # times the sizes of the MLP, the queries, the keys and the values
OPTIMIZER_STATES = 2  # AdamW's two moments
MARGIN = 1.25
"""Nine runs on a CPU took 0.85 to 1.24 times the estimate: docs/gpu.md."""
BYTES_4_BIT = 0.5 + 8 / 64 / 8 + 4 / 64 / 256  # a weight, and its shares of the scales of two levels


class Memory(NamedTuple):
    """Bytes by phase, and how those of the largest phase come about."""

    phases: dict[str, float]
    formula: str

    @property
    def peak(self) -> float:
        return max(self.phases.values())


def estimate_memory(
    cfg: Config, args: TrainingArguments, model: PreTrainedModel, trained: int, prompt: float, row: float
) -> Memory:
    """The bytes of the training step, of sampling for it, and of evaluation.

    It leaves out the libraries, fragmentation, and the logits, which TRL computes in parts.

    Args:
        prompt, row: tokens of a prompt, and of the longest training row: its prompts and its answers, padded.
    """
    width = torch.finfo(model.dtype).bits // 8
    of_algo, weights = ALGORITHMS[cfg.algo.name], count_weight_bytes(cfg, model, width)
    phases, formulas = {}, {}
    held, held_formula = _hold(cfg, args, model, trained, width)
    if of_algo.trains:
        kept, kept_formula = _keep(args, model, row, width)
        copies = (1 + (cfg.scale.name == "ddp")) / _count_parts(cfg)  # DDP has a second copy, to be summed
        phases["training"] = held + copies * trained * width + kept
        times = f" x {copies:g}" if copies != 1 else ""
        formulas["training"] = f"{held_formula} + {trained:,} gradients x {width} bytes{times} + {kept_formula}"
    if of_algo.online:
        cache, formula = _cache(args, model, count_completions(cfg), row, width)
        phases["sampling"], formulas["sampling"] = held + cache, f"{held_formula} + {formula}"
    if not of_algo.scores:
        cache, formula = _cache(args, model, cfg.eval.batch_size, prompt + cfg.max_tokens, width)
        models = 1 + of_algo.trains
        phases["evaluation"] = models * weights + cache
        formulas["evaluation"] = f"{models} models of {weights / 1e9:.2f} GB + {formula}"
        if cfg.eval.every:
            other = 0 if cfg.peft.lora else weights
            phases["validation"] = held + other + cache
            formulas["validation"] = f"{held_formula} + {other / 1e9:.2f} GB of the start model + {formula}"
    largest = max(phases, key=phases.__getitem__) if phases else "nothing"
    return Memory(phases, f"of {largest} = {formulas.get(largest, 0)}")


def warn_of_memory(cfg: Config, memory: Memory, machine: Machine) -> str:
    """A warning for the line about memory if more is needed than there is: how much that is, and a remedy. Of another
    machine, also that the run fits it, or may not."""
    needed, of_machine = memory.peak, f"the {machine.memory / 1e9:.0f} GB of {machine.where}"
    if needed <= machine.memory:
        fits = "may not fit" if MARGIN * needed > machine.memory else "fits"
        return "" if machine.is_here else f"; {fits} in {of_machine}"
    ways = {"none": "peft=lora or peft=qlora", "lora": "peft=qlora"}.get(cfg.peft.name)
    way = f"add {ways}" if ways else "use a smaller model or algo.args.per_device_train_batch_size"
    others = [bytes_ for name, bytes_ in memory.phases.items() if name not in ("evaluation", "validation")]
    if max(others, default=0) <= machine.memory:
        way = f"use an eval.batch_size below {cfg.eval.batch_size}"
    free = f"the {machine.memory / 1e9:.2f} GB that are free on {machine.where}"
    return f"; MORE than {free if machine.is_here else of_machine}; {way}"


def _count_parts(cfg: Config) -> int:
    """Among how many processes gradients and moments are divided."""
    return count_processes(cfg) if cfg.scale.name in (*SHARDED, *DEEPSPEED) else 1


def _hold(cfg: Config, args: TrainingArguments, model: PreTrainedModel, trained: int, width: int) -> tuple[float, str]:
    """Weights and moments, which are there in every step. Weights count whole on each process, since sampling and
    measuring gather them (models/whole.py)."""
    parameters, parts = model.num_parameters(), _count_parts(cfg)
    weights = count_weight_bytes(cfg, model, width)
    reference = cfg.peft.own_reference and keeps_reference(cfg, args)
    total = weights * (2 if reference else 1) + trained * width * OPTIMIZER_STATES / parts
    twice = " x 2 (with the reference)" if reference else ""
    formula = (
        f"{parameters:,} parameters x {weights / parameters:.3g} bytes{twice}"
        f" + {trained:,} trained x {width} bytes x {OPTIMIZER_STATES} (AdamW's moments){f' / {parts}' * (parts > 1)}"
    )
    if getattr(cfg.algo, "critic", None) == "separate":
        total += parameters * width * (2 + OPTIMIZER_STATES)
        formula += f" + {parameters:,} of the critic x {width} bytes x {2 + OPTIMIZER_STATES}"
    return total, formula


def _keep(args: TrainingArguments, model: PreTrainedModel, length: float, width: int) -> tuple[float, str]:
    """What a forward pass keeps for the backward pass."""
    shape = model.config.get_text_config()
    half = _mixed_width(args, width)
    inner = getattr(shape, "intermediate_size", None) or getattr(shape, "n_inner", None) or 4 * shape.hidden_size
    inner = max(inner) if isinstance(inner, list | tuple) else inner  # Gemma 3n has one for each layer
    layer = KEPT_HIDDEN * shape.hidden_size * 4 + KEPT_INNER * (inner + _size_attention(shape)) * half
    token, layers = shape.num_hidden_layers * layer, f"{shape.num_hidden_layers} layers"
    if args.activation_checkpointing:
        token = shape.num_hidden_layers * shape.hidden_size * 4 + layer
        layers = f"inputs of {layers} and one layer"
    rows = args.per_device_train_batch_size
    return rows * length * token, f"{rows} rows x {length:.0f} tokens x {token:,.0f} bytes kept ({layers})"


def _size_attention(shape: Any) -> int:
    """Values of queries, keys and values of a token; keys and values count as one of the two (see KEPT_INNER)."""
    queries, keys = _count_heads(shape)
    return (queries + keys) * _size_head(shape)


def count_weight_bytes(cfg: Config, model: PreTrainedModel, width: int) -> float:
    """Bytes of the weights; in 4 bits embeddings and head keep their own type."""
    if not cfg.peft.quantization:
        return model.num_parameters() * width
    tied = model.config.get_text_config().tie_word_embeddings
    plain = model.get_input_embeddings().weight.numel() * (1 if tied else 2)
    return (model.num_parameters() - plain) * BYTES_4_BIT + plain * width


def _cache(args: TrainingArguments, model: PreTrainedModel, rows: int, length: float, width: int) -> tuple[float, str]:
    """The keys and values that sampling keeps of all layers."""
    shape = model.config.get_text_config()
    half = _mixed_width(args, width)
    token = 2 * shape.num_hidden_layers * _count_heads(shape)[1] * _size_head(shape) * half
    return rows * length * token, f"{rows} rows x {length:.0f} tokens x {token:,} bytes of keys and values"


def _mixed_width(args: TrainingArguments, width: int) -> int:
    """Bytes of a value that autocast makes."""
    return 2 if args.bf16 or args.fp16 else width


def _count_heads(shape: Any) -> tuple[int, int]:
    """Heads of the queries, and of the keys and values; 1 each for a model without attention, an upper bound."""
    queries = getattr(shape, "num_attention_heads", None) or 1
    return queries, getattr(shape, "num_key_value_heads", None) or getattr(shape, "num_kv_heads", None) or queries


def _size_head(shape: Any) -> int:
    return getattr(shape, "head_dim", None) or shape.hidden_size // _count_heads(shape)[0]


def keeps_reference(cfg: Config, args: TrainingArguments) -> bool:
    """Whether a second model stays in memory while training."""
    row = ALGORITHMS[cfg.algo.name]
    if row.kl_price is None or not row.online:
        return row.kl_price is not None and not args.precompute_ref_log_probs
    if isinstance(cfg.algo, Ppo):
        return cfg.algo.init_kl_coef > 0 or cfg.algo.target_kl is not None
    return args.beta > 0
