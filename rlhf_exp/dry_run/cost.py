"""Estimates how many bytes of disk and seconds of training a run needs, and finds the machine that it is for.

disk, formula = estimate_disk(cfg, args, model, trained, steps)
found = estimate_time(cfg, args, model, trained, tokens=12_544, steps=80)       # (seconds, formula), or None
"""

import re
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, TrainingArguments

from rlhf_exp.config.device import count_completions, count_processes, targets_other_hardware
from rlhf_exp.config.schema import Config
from rlhf_exp.dry_run.memory import OPTIMIZER_STATES, count_weight_bytes, keeps_reference
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.folder import read_record
from rlhf_exp.runs.listing import list_runs, read_key
from rlhf_exp.runs.settings import flatten

MEMORY, OUTPUTS = Path("/proc/meminfo"), Path("outputs")
LIKE = (
    *("algo.name", "task.name", "model.name", "model.path", "peft.name", "scale.name", "generation.method"),
    *("max_tokens", "device.use_cpu", "device.threads", "algo.args.per_device_train_batch_size"),
    *("algo.args.gradient_accumulation_steps", "algo.args.num_generations", "algo.args.num_iterations"),
)
"""Keys in which two runs agree whose steps take about the same time."""


def find_memory(cfg: Config) -> tuple[float, str]:
    """Bytes of memory, and where: of each GPU of `hardware=`, or what is free here, if the system tells it (Linux)."""
    if targets_other_hardware(cfg):
        of_each = "each GPU of " if count_processes(cfg) > 1 else ""
        return (cfg.hardware.memory_gb or 0) * 1e9, f"{of_each}hardware={cfg.hardware.name}"
    if not cfg.device.use_cpu:
        return torch.cuda.mem_get_info()[0], "this GPU"
    found = re.search(r"MemAvailable: +(\d+) kB", MEMORY.read_text()) if MEMORY.is_file() else None
    return int(found[1]) * 1024 if found else sys.maxsize, "this computer"


def estimate_disk(
    cfg: Config, args: TrainingArguments, model: PreTrainedModel, trained: int, steps: int
) -> dict[str, float]:
    """The most bytes that a run writes, by what takes them.

    It counts one checkpoint more than are kept, since the next is written before the oldest is removed. Logs, samples
    and a separate critic are left out.
    """
    width = torch.finfo(model.dtype).bits // 8
    written = trained if cfg.peft.lora else model.num_parameters()
    every = args.save_steps if args.save_steps >= 1 else max(1, round(args.save_steps * steps))
    saved = 0 if str(getattr(args.save_strategy, "value", args.save_strategy)) == "no" else -(-steps // int(every))
    kept = min(saved, args.save_total_limit + 1) if args.save_total_limit else saved
    made = {} if cfg.model.init is None else {"the start model": model.num_parameters() * width}
    checkpoints = kept * (written + OPTIMIZER_STATES * trained) * width
    return {f"{kept} checkpoints with AdamW's moments": checkpoints, "the model": written * width, **made}


def warn_of_disk(cfg: Config, needed: float) -> str:
    """A warning for the line about disk if the output folder's disk has less; nothing about another machine."""
    folder = Path(cfg.output_dir).absolute()
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if targets_other_hardware(cfg) or needed <= free:
        return ""
    return f"; MORE than the {say_bytes(free)} that are free in {folder}"


def estimate_time(
    cfg: Config, args: Any, model: PreTrainedModel, trained: int, tokens: float, steps: int
) -> tuple[float, str] | None:
    """Seconds of training, and how they come about: here by the last like run; on another machine at the least, at its
    maker's rates, with the weights read once for each token that rows sample at once. None if there is neither.

    A forward pass takes 2 operations per weight and token (Kaplan et al. 2020, arXiv:2001.08361, section 2.1), a
    backward pass twice as many, or as many if nearly all weights are frozen. Attention, padding, evaluation and all
    other operations add to it; completions that end before the budget take less.

    Args:
        args: TRL's.
        tokens: of an optimizer step, prompts and completions.
    """
    hardware, gpus = cfg.hardware, count_processes(cfg)
    if not targets_other_hardware(cfg) or hardware.tflops is None or hardware.bandwidth_gbs is None:
        return _estimate_by_run(cfg, steps)
    passes = 1 + (2 if 2 * trained > model.num_parameters() else 1) + args.activation_checkpointing
    row = cfg.algo.row
    if row.online:  # a rollout is scored once, trained on num_iterations times
        scored = row.scores_rollouts or args.num_iterations > 1
        passes += (scored + keeps_reference(cfg, args)) / args.num_iterations
    passes += row.unpaired and args.loss_type == "kto"  # its KL is of each prompt with another row's answer
    tied = model.config.get_text_config().tie_word_embeddings
    # Looking an embedding up multiplies nothing.
    embedded = 0 if tied else model.get_input_embeddings().weight.numel()  # type: ignore[operator]
    weights = model.num_parameters() - embedded
    seconds = steps * tokens * passes * 2 * weights / (gpus * hardware.tflops * 1e12)
    formula = f"{steps} steps x {tokens:,.0f} tokens x {passes:g} passes x 2 x {weights:,} weights"
    formula += f" at {f'{gpus} x ' * (gpus > 1)}{hardware.tflops:,.0f} TFLOP/s"
    if row.online:
        of_rollout = count_completions(cfg) / args.per_device_train_batch_size
        rollouts = steps * args.gradient_accumulation_steps / (of_rollout * args.num_iterations)
        read = count_weight_bytes(cfg, model, torch.finfo(model.dtype).bits // 8)
        seconds += rollouts * cfg.max_tokens * read / (hardware.bandwidth_gbs * 1e9)
        formula += f" + {rollouts:g} rollouts x {cfg.max_tokens} tokens x {read / 1e9:.2f} GB of weights"
        formula += f" at {hardware.bandwidth_gbs:,.0f} GB/s"
    return seconds, f"{formula}, its maker's rates, of which runs reach a part"


def _estimate_by_run(cfg: Config, steps: int) -> tuple[float, str] | None:
    """By the steps of the last finished run below `outputs/` that agrees in LIKE."""
    try:
        runs = list_runs(OUTPUTS)
    except ConfigError:  # there is none
        return None
    wanted = flatten(asdict(cfg))
    for run in reversed(runs):
        is_done = run["task"] == cfg.task.name and run["status"] == "finished" and run["steps"]
        if is_done and all(read_key(run, key) == wanted.get(key) for key in LIKE):
            each = read_record(Path(run["run"]))["seconds"]["train"] / run["steps"]
            return steps * each, f"{steps} steps x {each:.2g} s, as in {run['run']}"
    return None


def say_bytes(n: float) -> str:
    return f"{n / 1e9:,.2f} GB" if n >= 1e9 else f"{n / 1e6:,.1f} MB"
