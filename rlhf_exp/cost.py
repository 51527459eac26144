"""What a run will take, worked out beforehand: bytes of memory and of disk, by the model's shape.

memory, formula = estimate_memory(cfg, args, model, trained, length)
disk, formula = estimate_disk(cfg, args, model, trained, steps)
"""

from typing import TYPE_CHECKING

import torch

from rlhf_exp.combinations import ALGO_NEEDS, PROMPTS

if TYPE_CHECKING:
    from transformers import PreTrainedModel, TrainingArguments

    from rlhf_exp.config import Config

# Values that a layer keeps for the backward pass, per token and hidden unit, where attention does not keep its scores:
# torch.autograd.graph.saved_tensors_hooks counts 27 for the tiny model's Qwen3 and 35 for GPT-2.
KEPT_PER_LAYER = 30
OPTIMIZER_STATES = 2  # AdamW's two moments
BYTES_4_BIT = 0.5 + 8 / 64 / 8 + 4 / 64 / 256  # a weight, its share of a block's 8-bit scale, and of that one's own


def estimate_memory(
    cfg: "Config", args: "TrainingArguments", model: "PreTrainedModel", trained: int, length: float
) -> tuple[float, str]:
    """Bytes at the peak of a training step, and the formula. `length`: tokens of a row, prompt and completions.

    An estimate: it leaves out generation's cache and fragmentation, and the logits, which TRL computes in chunks. The
    tiny model's default run on a CPU took 1.6 GB beside the 0.6 GB of the libraries, for an estimate of 1.2.
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
    separate = cfg.algo.name == "ppo" and cfg.algo.critic == "separate"
    total += parameters * width * (2 + OPTIMIZER_STATES) if separate else 0
    formula = (
        f"{parameters:,} parameters x {weights:.3g} bytes{' x 2 (with the reference)' if reference else ''}"
        f" + {trained:,} trained x {width} bytes x {1 + OPTIMIZER_STATES} (gradients, AdamW's two moments)"
        f" + {rows} rows x {length:.0f} tokens x {hidden} hidden x {kept} values kept x {activation_width} bytes"
        f"{f' + {parameters:,} of the critic x {width} bytes x {2 + OPTIMIZER_STATES}' if separate else ''}"
    )
    return total, formula


def _keeps_reference(cfg: "Config", args: "TrainingArguments") -> bool:
    """Whether a second model stays in memory while training."""
    if cfg.algo.name == "dpo":
        return not args.precompute_ref_log_probs
    if cfg.algo.name == "ppo":
        return cfg.algo.init_kl_coef > 0 or cfg.algo.target_kl is not None
    return ALGO_NEEDS[cfg.algo.name] == PROMPTS and args.beta > 0


def estimate_disk(
    cfg: "Config", args: "TrainingArguments", model: "PreTrainedModel", trained: int, steps: int
) -> tuple[float, str]:
    """Bytes that checkpoints and the final model take at most, and the formula.

    One checkpoint more than are kept: the next is written before the oldest goes. Logs, samples and a critic of its own
    are left out.
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
