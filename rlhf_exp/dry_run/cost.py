"""Estimates from the model's shape how many bytes of memory a run needs at its peak, on each GPU or on this computer.

    phases = estimate_memory(cfg, args, model, trained, prompt=90, row=602)
    phases["training"]          # {"weights": 2.4e9, "AdamW's moments": 4.8e9, "gradients": 2.4e9, "activations": 4.6e9}

bench/memory.py compares the memory with that of runs.
"""

from typing import Any

import psutil
import torch
from transformers import PreTrainedModel, TrainingArguments

from rlhf_exp import processes
from rlhf_exp.config.device import count_completions, count_processes, targets_other_hardware
from rlhf_exp.config.model_shape import count_token_bytes, find_shape
from rlhf_exp.config.rules.machine import SHARDED
from rlhf_exp.config.schema import Config
from rlhf_exp.models.source import locate_teacher

OPTIMIZER_STATES = 2  # AdamW's two moments
MARGIN = 1.25
"""A run is refused if its estimate is above so many times what is free."""
MOST = 1.4
"""Nine runs on a CPU took 0.90 to 1.39 times the estimate: docs/gpu.md."""
TILE_TOKENS, TILE_VOCABULARY = 4096, 32768
"""TRL computes logits in tiles of so many tokens and entries of the vocabulary."""
CHUNK_TOKENS, CHUNK_VOCABULARY = 1024, 4096
"""Rollouts are scored on a CPU in chunks of so many tokens of completions, in such tiles (trainers/trimmed.py)."""
TILE_COPIES = 7
"""Times a tile is in memory on a CPU, in float32; on a GPU it is changed in place."""
ROUNDS = "steps_per_generation"
BYTES_4_BIT = 0.5 + 8 / 64 / 8 + 4 / 64 / 256  # a weight, and its shares of the scales of two levels

FITS, MAY_NOT, TOO_LARGE, UNKNOWN = "fits", "may not fit", "DOES NOT FIT", "unknown"
"""Whether a run fits into memory."""

Phases = dict[str, dict[str, float]]
"""Bytes by phase, and in it by what takes them."""


def estimate_memory(
    cfg: Config, args: TrainingArguments, model: PreTrainedModel, trained: int, prompt: float, row: float
) -> Phases:
    """The bytes of the training step, of sampling for it, and of evaluation.

    It leaves out the libraries and fragmentation. Weights count whole on each process, since sampling and measuring
    gather them (models/scoring.py). A teacher whose size is not known, such as one of the hub, is left out.

    Args:
        prompt, row: tokens of the longest prompt and training row: its prompts and its answers, padded.
    """
    width, of_algo = torch.finfo(model.dtype).bits // 8, cfg.algo.row
    weights = count_weight_bytes(cfg, model, width)
    # Among how many processes gradients and moments are divided.
    parts = count_processes(cfg) if cfg.scale.name in SHARDED else 1
    held = {"weights": weights, "AdamW's moments": trained * width * OPTIMIZER_STATES / parts}
    if cfg.peft.own_reference and keeps_reference(cfg, args):
        held["the reference"] = weights
    teacher = find_shape(locate_teacher(cfg).path, None, None, None).parameters if cfg.teacher.path else None
    held |= (taught := {"the teacher": teacher * width} if teacher else {})
    if getattr(args, "critic", None) == "separate":
        held["the critic"] = model.num_parameters() * width * (2 + OPTIMIZER_STATES)
    phases, recomputes = {}, bool(args.activation_checkpointing)
    kept, cached = _count_token_bytes(model, _mixed(args, width), recomputes)
    measured = _count_token_bytes(model, width, recomputes)[1]
    if of_algo.trains:
        copies = (1 + (cfg.scale.name == "ddp")) / parts  # DDP has a second copy, to be summed
        activations = args.per_device_train_batch_size * row * kept
        phases["training"] = held | {"gradients": copies * trained * width, "activations": activations}
        if not of_algo.scores:
            phases["training"]["logits"] = _count_logit_bytes(cfg, args, model, width, row)
    if of_algo.online:
        phases["sampling"] = held | {"keys and values": count_completions(cfg) * row * cached}
    if not of_algo.scores:
        sampled = {"keys and values": cfg.eval.batch_size * (prompt + cfg.max_tokens) * measured}
        phases["evaluation"] = {"weights": (1 + of_algo.trains) * weights, **taught, **sampled}
        if cfg.eval.every:
            phases["validation"] = held | {"the start model": 0 if cfg.peft.lora else weights} | sampled
    return phases


def judge_memory(cfg: Config, needed: dict[str, float]) -> tuple[str, str, str]:
    """Whether the run fits the machine that `hardware=` names, or into what is free here; what it needs; and of what.
    TOO_LARGE: above all the memory of another machine, and here above MARGIN times what is free, as in the preflight.

    Args:
        needed: bytes of each phase.
    """
    phase, (free, place) = max(needed, key=needed.__getitem__), find_memory(cfg)
    peak, most = needed[phase], free * (1 if targets_other_hardware(cfg) else MARGIN)
    said = f"{phase} needs {write_bytes(peak)}"
    if peak <= most:
        return (MAY_NOT if MOST * peak > free else FITS), said, f" of {place}"
    return TOO_LARGE, said, f", MORE than {place}; less is needed with {', or with '.join(list_smaller(cfg, phase))}"


def list_smaller(cfg: Config, phase: str = "training") -> list[str]:
    """Overrides with which a phase takes less memory, first those that leave the results as they are."""
    args, row = cfg.algo.args, cfg.algo.row
    has_budget = row.online or cfg.learns_from_samples or not row.trains
    key = "max_tokens" if has_budget else "task.max_length"
    tokens = cfg.max_tokens if has_budget else getattr(cfg.task, "max_length", None)
    shorter = [f"{key}={tokens // 2}"] if tokens else []
    if phase in ("evaluation", "validation"):
        return [f"eval.batch_size={max(1, cfg.eval.batch_size // 2)}", *shorter]
    changes = [] if args.get("activation_checkpointing") else ["algo.args.activation_checkpointing=true"]
    rows = args["per_device_train_batch_size"]
    if rows % 2 == 0 and rows // 2 > row.unpaired:  # KTO needs two rows
        doubled = {name: 2 * args[name] for name in ("gradient_accumulation_steps", ROUNDS) if args.get(name)}
        parts = [f"{'++' * (name == ROUNDS)}algo.args.{name}={number}" for name, number in doubled.items()]
        changes.append(" ".join([f"algo.args.per_device_train_batch_size={rows // 2}", *parts]))
    return [*changes, *([] if cfg.peft.lora else ["peft=lora"]), *shorter]


def write_bytes(bytes_: float) -> str:
    """841.7 MB, or 27.53 GB."""
    return f"{bytes_ / 1e9:,.2f} GB" if bytes_ >= 1e9 else f"{bytes_ / 1e6:,.1f} MB"


def find_memory(cfg: Config) -> tuple[float, str]:
    """Bytes of memory for a process, and where: of each GPU of `hardware=`, or what is free here."""
    if targets_other_hardware(cfg):
        of_each = "each GPU of " if count_processes(cfg) > 1 else ""
        free, where = (cfg.hardware.memory_gb or 0) * 1e9, f"{of_each}hardware={cfg.hardware.name}"
        return free, f"the {free / 1e9:.0f} GB of {where}"
    if not cfg.device.use_cpu:
        free = torch.cuda.mem_get_info()[0]
        return free, f"the {free / 1e9:.2f} GB that are free on this GPU"
    n = processes.count()
    free = psutil.virtual_memory().available / n
    shared = f" for each of {n} processes" if n > 1 else ""
    return free, f"the {free / 1e9:.2f} GB that are free on this computer{shared}"


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
    if hasattr(args, "init_kl_coef"):
        return args.init_kl_coef > 0 or args.target_kl is not None
    return args.beta > 0


def _count_logit_bytes(cfg: Config, args: TrainingArguments, model: PreTrainedModel, width: int, row: float) -> float:
    """A tile of logits, and the head's gradient in float32 while tiles are added to it."""
    shape, rows, width_of_tile = model.config.get_text_config(), args.per_device_train_batch_size, TILE_VOCABULARY
    if (on_cpu := cfg.device.use_cpu and not targets_other_hardware(cfg)) and cfg.algo.row.by_rewards:
        rows, width_of_tile = min(rows, max(1, CHUNK_TOKENS // cfg.max_tokens)), CHUNK_VOCABULARY
    tile = min(rows * row, TILE_TOKENS) * min(shape.vocab_size, width_of_tile)
    head = shape.vocab_size * shape.hidden_size * 4 if cfg.peft.lora is None else 0
    return tile * (4 * TILE_COPIES if on_cpu else _mixed(args, width)) + head


def _mixed(args: TrainingArguments, width: int) -> int:
    """Bytes of a value that autocast makes, which measuring does without."""
    return 2 if args.bf16 or args.fp16 else width


def _count_token_bytes(model: PreTrainedModel, width: int, recomputes: bool) -> tuple[float, int]:
    """What a forward pass keeps of a token for the backward pass, and its keys and values while sampling, of all
    layers."""
    shape = model.config.get_text_config()
    named = {name: getattr(shape, name) for name in shape.attribute_map}  # hidden_size, where it is called n_embd
    return count_token_bytes(shape.to_dict() | named, width, recomputes)
