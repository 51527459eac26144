"""Estimates from the model's shape how many bytes of disk and seconds of training a run needs.

disk, formula = estimate_disk(cfg, args, model, trained, steps)
seconds, formula = estimate_time(cfg, args, model, trained, machine, tokens=12_544, steps=80)
"""

import shutil
from pathlib import Path

import torch
from transformers import PreTrainedModel, TrainingArguments

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.device import count_completions
from rlhf_exp.config.schema import Config
from rlhf_exp.dry_run.machine import Machine, measure_rate
from rlhf_exp.dry_run.memory import OPTIMIZER_STATES, count_weight_bytes, keeps_reference


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
    cfg: Config,
    args: TrainingArguments,
    model: PreTrainedModel,
    trained: int,
    machine: Machine,
    tokens: float,
    steps: int,
) -> tuple[float, str]:
    """Seconds of training at the least, and the formula: on this machine for the matrix products alone, at its present
    rate; on another one at its maker's rates, with the weights read once for each token that rows sample at once.

    A forward pass takes 2 operations per weight and token (Kaplan et al. 2020, arXiv:2001.08361, section 2.1), a
    backward pass twice as many, or as many if nearly all weights are frozen. Attention, padding, evaluation and all
    other operations add to it; completions that end before the budget take less.

    Args:
        tokens: of an optimizer step, prompts and completions.
    """
    passes = 1 + (2 if 2 * trained > model.num_parameters() else 1) + args.activation_checkpointing
    row = ALGORITHMS[cfg.algo.name]
    if row.online:  # a rollout is sampled and scored once, trained on num_iterations times
        scored = row.scores_rollouts or args.num_iterations > 1
        passes += (machine.is_here + scored + keeps_reference(cfg, args)) / args.num_iterations
    passes += row.unpaired and args.loss_type == "kto"  # its KL is of each prompt with another row's answer
    embedded = model.get_input_embeddings().weight.numel()
    tied = model.config.get_text_config().tie_word_embeddings
    weights = model.num_parameters() - (0 if tied else embedded)  # looking up an embedding multiplies nothing
    operations = f"{steps} steps x {tokens:,.0f} tokens x {passes:g} passes x 2 x {weights:,} weights"
    if machine.is_here:
        rate = measure_rate(cfg, args, model)
        seconds = steps * tokens * passes * 2 * weights / rate
        shown = float(f"{rate / 1e9:.2g}")
        return seconds, f"{operations} at {shown:,g} GFLOP/s, measured now: matrix products alone"
    gpus = machine.processes
    seconds = steps * tokens * passes * 2 * weights / (gpus * machine.flops)
    formula = f"{operations} at {f'{gpus} x ' * (gpus > 1)}{machine.flops / 1e12:,.0f} TFLOP/s"
    if row.online:
        of_rollout = count_completions(cfg) / args.per_device_train_batch_size
        rollouts = steps * args.gradient_accumulation_steps / (of_rollout * args.num_iterations)
        read = count_weight_bytes(cfg, model, torch.finfo(model.dtype).bits // 8)
        seconds += rollouts * cfg.max_tokens * read / machine.bandwidth
        formula += f" + {rollouts:g} rollouts x {cfg.max_tokens} tokens x {read / 1e9:.2f} GB of weights"
        formula += f" at {machine.bandwidth / 1e9:,.0f} GB/s"
    return seconds, f"{formula}, its maker's rates, of which runs reach a part"


def warn_of_disk(cfg: Config, needed: float) -> str:
    """The same for the disk of the output folder."""
    folder = Path(cfg.output_dir).absolute()
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return f"; MORE than the {say_bytes(free)} that are free in {folder}" if needed > free else ""


def say_bytes(n: float) -> str:
    return f"{n / 1e9:,.2f} GB" if n >= 1e9 else f"{n / 1e6:,.1f} MB"
