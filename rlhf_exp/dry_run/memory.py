"""Estimates from the model's shape how many bytes of memory a run needs at its peak, on each GPU or on this computer.

    memory = estimate_memory(cfg, args, model, trained, prompt=90, row=602)
    memory.peak, memory.formula         # 14.2e9, "of training: 596,049,920 parameters x 4 bytes + ..."
    warn_of_memory(cfg, memory.peak, machine)   # "; MORE than the 4.00 GB ...; add peft=lora or peft=qlora"

bench/memory.py holds it against runs.
"""

from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel, TrainingArguments

from rlhf_exp.algorithms import ALGORITHMS
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
    held, held_formula = _hold(cfg, args, model, trained, width)
    kept, kept_formula = _keep(args, model, row, width)
    phases = {"training": held + trained * width + kept}
    formulas = {"training": f"{held_formula} + {trained:,} gradients x {width} bytes + {kept_formula}"}
    of_algo = ALGORITHMS[cfg.algo.name]
    if of_algo.online:
        rows = args.per_device_train_batch_size * (args.steps_per_generation or args.gradient_accumulation_steps)
        cache, formula = _cache(args, model, rows, row, width)
        phases["sampling"], formulas["sampling"] = held + cache, f"{held_formula} + {formula}"
    if not of_algo.scores:
        cache, formula = _cache(args, model, cfg.eval.batch_size, prompt + cfg.max_tokens, width)
        weights = model.num_parameters() * bytes_per_weight(cfg, width)
        phases["evaluation"] = weights + cache
        formulas["evaluation"] = f"{weights / 1e9:.2f} GB of weights + {formula}"
    largest = max(phases, key=phases.__getitem__)
    return Memory(phases, f"of {largest} = {formulas[largest]}")


def warn_of_memory(cfg: Config, needed: float, machine: Machine) -> str:
    """A warning for the line about memory if `needed` bytes are more than there are: how many are, and a remedy. Of
    another machine, also that the run fits it, or may not."""
    of_machine = f"the {machine.memory / 1e9:.0f} GB of {machine.where}"
    if needed <= machine.memory:
        fits = "may not fit" if MARGIN * needed > machine.memory else "fits"
        return "" if machine.is_here else f"; {fits} in {of_machine}"
    ways = {"none": "peft=lora or peft=qlora", "lora": "peft=qlora"}.get(cfg.peft.name)
    way = f"add {ways}" if ways else "use a smaller model or algo.args.per_device_train_batch_size"
    free = f"the {machine.memory / 1e9:.2f} GB that are free on {machine.where}"
    return f"; MORE than {free if machine.is_here else of_machine}; {way}"


def _hold(cfg: Config, args: TrainingArguments, model: PreTrainedModel, trained: int, width: int) -> tuple[float, str]:
    """Weights and moments, which are there in every step."""
    parameters = model.num_parameters()
    weights = bytes_per_weight(cfg, width)
    reference = cfg.peft.own_reference and keeps_reference(cfg, args)
    total = parameters * weights * (2 if reference else 1) + trained * width * OPTIMIZER_STATES
    formula = (
        f"{parameters:,} parameters x {weights:.3g} bytes{' x 2 (with the reference)' if reference else ''}"
        f" + {trained:,} trained x {width} bytes x {OPTIMIZER_STATES} (AdamW's moments)"
    )
    if getattr(cfg.algo, "critic", None) == "separate":
        total += parameters * width * (2 + OPTIMIZER_STATES)
        formula += f" + {parameters:,} of the critic x {width} bytes x {2 + OPTIMIZER_STATES}"
    return total, formula


def _keep(args: TrainingArguments, model: PreTrainedModel, length: float, width: int) -> tuple[float, str]:
    """What a forward pass keeps for the backward pass."""
    shape = model.config.get_text_config()
    half = 2 if args.bf16 or args.fp16 else width
    inner = getattr(shape, "intermediate_size", None) or getattr(shape, "n_inner", None) or 4 * shape.hidden_size
    layer = KEPT_HIDDEN * shape.hidden_size * 4 + KEPT_INNER * (inner + _size_attention(shape)) * half
    token, layers = shape.num_hidden_layers * layer, f"{shape.num_hidden_layers} layers"
    if args.activation_checkpointing:
        token = shape.num_hidden_layers * shape.hidden_size * 4 + layer
        layers = f"inputs of {layers} and one layer"
    rows = args.per_device_train_batch_size
    return rows * length * token, f"{rows} rows x {length:.0f} tokens x {token:,.0f} bytes kept ({layers})"


def _size_attention(shape: Any) -> int:
    """Values of queries, keys and values of a token; keys and values count as one of the two (see KEPT_INNER)."""
    head = getattr(shape, "head_dim", None) or shape.hidden_size // shape.num_attention_heads
    return (shape.num_attention_heads + _count_key_heads(shape)) * head


def bytes_per_weight(cfg: Config, width: int) -> float:
    return BYTES_4_BIT if cfg.peft.quantization else width


def _cache(args: TrainingArguments, model: PreTrainedModel, rows: int, length: float, width: int) -> tuple[float, str]:
    """The keys and values that sampling keeps of all layers."""
    shape = model.config.get_text_config()
    head = getattr(shape, "head_dim", None) or shape.hidden_size // shape.num_attention_heads
    half = 2 if args.bf16 or args.fp16 else width
    token = 2 * shape.num_hidden_layers * _count_key_heads(shape) * head * half
    return rows * length * token, f"{rows} rows x {length:.0f} tokens x {token:,} bytes of keys and values"


def _count_key_heads(shape: Any) -> int:
    return getattr(shape, "num_key_value_heads", None) or shape.num_attention_heads


def keeps_reference(cfg: Config, args: TrainingArguments) -> bool:
    """Whether a second model stays in memory while training."""
    row = ALGORITHMS[cfg.algo.name]
    if row.kl_price is None or not row.online:
        return row.kl_price is not None and not args.precompute_ref_log_probs
    if isinstance(cfg.algo, Ppo):
        return cfg.algo.init_kl_coef > 0 or cfg.algo.target_kl is not None
    return args.beta > 0
