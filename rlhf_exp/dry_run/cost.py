"""Estimates from the model's shape what a run will need: bytes of memory and of disk, and seconds; and compares that
with what is free on this machine.

memory, formula = estimate_memory(cfg, args, model, trained, length)
disk, formula = estimate_disk(cfg, args, model, trained, steps)
seconds, formula = estimate_time(cfg, args, model, trained, tokens=12_544, steps=80)
warn_of_memory(cfg, memory)     # "; MORE than the 4.00 GB that are free on this computer; add peft=lora or peft=qlora"
"""

import re
import shutil
import sys
import time
from pathlib import Path

import torch
from transformers import PreTrainedModel, TrainingArguments

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.schema import Config, Ppo

# Values that a layer keeps for the backward pass, per token and hidden unit, if attention does not keep its scores:
# torch.autograd.graph.saved_tensors_hooks counts 27 for the tiny model's Qwen3 and 35 for GPT-2.
KEPT_PER_LAYER = 30
OPTIMIZER_STATES = 2  # AdamW's two moments
MEASURED_S = 0.2  # how long matrices are multiplied to measure this machine's rate
MEASURED_ROWS = 1024  # of the left matrix; about the number of tokens in a batch
MEMORY = Path("/proc/meminfo")
BYTES_4_BIT = 0.5 + 8 / 64 / 8 + 4 / 64 / 256  # a weight, and its shares of the scales of two levels


def estimate_memory(
    cfg: Config, args: TrainingArguments, model: PreTrainedModel, trained: int, length: float
) -> tuple[float, str]:
    """Bytes at the peak of a training step, and the formula. `length`: tokens of a row, prompt and completions.

    An estimate: it leaves out generation's cache and fragmentation, and the logits, which TRL computes in chunks. The
    tiny model's default run on a CPU took 1.6 GB in addition to the 0.6 GB of the libraries; the estimate was 1.2.
    """
    shape, parameters = model.config, model.num_parameters()
    width = torch.finfo(model.dtype).bits // 8
    weights = BYTES_4_BIT if cfg.peft.quantization else width
    reference = cfg.peft.own_reference and _keeps_reference(cfg, args)
    rows, layers, hidden = args.per_device_train_batch_size, shape.num_hidden_layers, shape.hidden_size
    kept = layers + KEPT_PER_LAYER if args.activation_checkpointing else layers * KEPT_PER_LAYER
    activation_width = 2 if args.bf16 or args.fp16 else width
    total = parameters * weights * (2 if reference else 1) + trained * width * (1 + OPTIMIZER_STATES)
    total += rows * length * hidden * kept * activation_width
    separate = getattr(cfg.algo, "critic", None) == "separate"
    total += parameters * width * (2 + OPTIMIZER_STATES) if separate else 0
    formula = (
        f"{parameters:,} parameters x {weights:.3g} bytes{' x 2 (with the reference)' if reference else ''}"
        f" + {trained:,} trained x {width} bytes x {1 + OPTIMIZER_STATES} (gradients, AdamW's two moments)"
        f" + {rows} rows x {length:.0f} tokens x {hidden} hidden x {kept} values kept x {activation_width} bytes"
        f"{f' + {parameters:,} of the critic x {width} bytes x {2 + OPTIMIZER_STATES}' if separate else ''}"
    )
    return total, formula


def estimate_disk(
    cfg: Config, args: TrainingArguments, model: PreTrainedModel, trained: int, steps: int
) -> tuple[float, str]:
    """The most bytes that checkpoints and the final model take, and the formula.

    It counts one checkpoint more than are kept, since the next is written before the oldest is removed. Logs, samples
    and a separate critic are left out.
    """
    width = torch.finfo(model.dtype).bits // 8
    written = trained if cfg.peft.lora else model.num_parameters()
    every = args.save_steps if args.save_steps >= 1 else max(1, round(args.save_steps * steps))
    saved = 0 if str(getattr(args.save_strategy, "value", args.save_strategy)) == "no" else -(-steps // int(every))
    kept = min(saved, args.save_total_limit + 1) if args.save_total_limit else saved
    made = model.num_parameters() * width if cfg.model.init is not None else 0
    total = kept * (written + OPTIMIZER_STATES * trained) * width + written * width + made
    formula = (
        f"{kept} checkpoints of {written:,} weights and {OPTIMIZER_STATES} x {trained:,} moments of AdamW, and the"
        f" model, each x {width} bytes{' and the start model' if made else ''}"
    )
    return total, formula


def estimate_time(
    cfg: Config, args: TrainingArguments, model: PreTrainedModel, trained: int, tokens: float, steps: int
) -> tuple[float, str]:
    """Seconds of training for its matrix products alone, at this machine's present rate, and the formula.

    A forward pass takes 2 operations per weight and token (Kaplan et al. 2020, arXiv:2001.08361, section 2.1), a
    backward pass twice as many, or as many if nearly all weights are frozen. Attention, decoding token by token,
    padding and all other operations add to it; completions that end before the budget take less.

    Args:
        tokens: of an optimizer step, prompts and completions.
    """
    passes = 1 + (2 if 2 * trained > model.num_parameters() else 1) + args.activation_checkpointing
    row = ALGORITHMS[cfg.algo.name]
    if row.online:  # a rollout is sampled and scored once, trained on num_iterations times
        scored = row.scores_rollouts or args.num_iterations > 1
        passes += (1 + scored + _keeps_reference(cfg, args)) / args.num_iterations
    passes += row.unpaired and args.loss_type == "kto"  # its KL is of each prompt with another row's answer
    embedded = model.get_input_embeddings().weight.numel()
    tied = model.config.get_text_config().tie_word_embeddings
    weights = model.num_parameters() - (0 if tied else embedded)  # looking up an embedding multiplies nothing
    rate = _measure_rate(cfg, args, model)
    seconds = steps * tokens * passes * 2 * weights / rate
    formula = (
        f"{steps} steps x {tokens:,.0f} tokens x {passes:g} passes x 2 x {weights:,} weights at"
        f" {rate / 1e9:,.0f} GFLOP/s, measured now: matrix products alone"
    )
    return seconds, formula


def warn_of_memory(cfg: Config, needed: float) -> str:
    """A warning for the line about memory if `needed` bytes are not free: how many are, and a remedy; else empty."""
    free = _count_free_memory(cfg.device.use_cpu)
    if needed <= free:
        return ""
    ways = {"none": "peft=lora or peft=qlora", "lora": "peft=qlora"}.get(cfg.peft.name)
    way = f"add {ways}" if ways else "use a smaller model or algo.args.per_device_train_batch_size"
    where = "computer" if cfg.device.use_cpu else "GPU"
    return f"; MORE than the {free / 1e9:.2f} GB that are free on this {where}; {way}"


def warn_of_disk(cfg: Config, needed: float) -> str:
    """The same for the disk of the output folder."""
    folder = Path(cfg.output_dir).absolute()
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return f"; MORE than the {say_bytes(free)} that are free in {folder}" if needed > free else ""


def say_bytes(n: float) -> str:
    return f"{n / 1e9:,.2f} GB" if n >= 1e9 else f"{n / 1e6:,.1f} MB"


def _keeps_reference(cfg: Config, args: TrainingArguments) -> bool:
    """Whether a second model stays in memory while training."""
    row = ALGORITHMS[cfg.algo.name]
    if row.kl_price is None or not row.online:
        return row.kl_price is not None and not args.precompute_ref_log_probs
    if isinstance(cfg.algo, Ppo):
        return cfg.algo.init_kl_coef > 0 or cfg.algo.target_kl is not None
    return args.beta > 0


def _measure_rate(cfg: Config, args: TrainingArguments, model: PreTrainedModel) -> float:
    """Operations per second in a matrix product of the model's width."""
    device = "cpu" if cfg.device.use_cpu else "cuda"
    half = args.bf16 or model.dtype == torch.bfloat16
    width = model.config.get_text_config().hidden_size
    left = torch.ones(MEASURED_ROWS, width, device=device, dtype=torch.bfloat16 if half else torch.float32)
    right = torch.ones(width, 4 * width, device=device, dtype=left.dtype)
    left @ right  # the first product also loads kernels
    products, start = 0, time.perf_counter()
    while time.perf_counter() - start < MEASURED_S:
        left @ right
        products += 1
        if device == "cuda":
            torch.cuda.synchronize()
    return products * 2 * MEASURED_ROWS * 4 * width**2 / (time.perf_counter() - start)


def _count_free_memory(use_cpu: bool) -> int:
    """Bytes that are free on the first visible GPU, or available on this machine, if it tells them (Linux)."""
    if not use_cpu:
        return torch.cuda.mem_get_info()[0]
    found = re.search(r"MemAvailable: +(\d+) kB", MEMORY.read_text()) if MEMORY.is_file() else None
    return int(found[1]) * 1024 if found else sys.maxsize
