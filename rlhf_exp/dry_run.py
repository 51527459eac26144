"""`dry_run=true`: every check, the resolved config, what the run will cost. It loads no weights.

print_dry_run(cfg)
"""

from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from omegaconf import OmegaConf
from transformers import AutoConfig, AutoModelForCausalLM, Qwen3Config

from rlhf_exp.combinations import ALGO_NEEDS, LOSS_TYPES, TASK_GIVES
from rlhf_exp.config import Config, ConfigError
from rlhf_exp.models import build_trace_tokenizer, load_tokenizer, resolve_model
from rlhf_exp.tasks import Task, load_task
from rlhf_exp.trl_args import build_args

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase, TrainingArguments

# Values that a layer keeps for the backward pass, per token and hidden unit, where attention does not keep its scores:
# torch.autograd.graph.saved_tensors_hooks counts 27 for the tiny model's Qwen3 and 35 for GPT-2.
KEPT_PER_LAYER = 30
OPTIMIZER_STATES = 2  # AdamW's two moments
SAMPLE_ROWS = 256


def print_dry_run(cfg: Config) -> None:
    """Check as a run would, then print.

    Raises:
        ConfigError: what a run would refuse before it loads weights.
    """
    args = build_args(cfg)
    shape, tokenizer = _load_shape(cfg)
    task = load_task(cfg, tokenizer)
    print(OmegaConf.to_yaml(OmegaConf.create(asdict(cfg))))
    for line in (*_describe_cost(cfg, args, shape, tokenizer, task), *task.notes, *_list_incompatible(cfg)):
        print(line)
    print("all checks passed")


def estimate_memory(
    cfg: Config, args: "TrainingArguments", shape: "PretrainedConfig", parameters: int, length: float
) -> tuple[float, str]:
    """Bytes at the peak of a training step, and the formula. `length`: tokens of prompt and completion.

    An estimate: it leaves out generation's cache and fragmentation, and the logits, which TRL computes in chunks. The
    tiny model's default run on a CPU took 1.6 GB beside the 0.6 GB of the libraries, for an estimate of 1.2.
    """
    width = torch.finfo(_find_dtype(cfg, shape)).bits // 8
    copies = 2 + OPTIMIZER_STATES + bool(getattr(args, "beta", 0.0) and cfg.algo.name != "sft")
    rows, layers, hidden = args.per_device_train_batch_size, shape.num_hidden_layers, shape.hidden_size
    kept = layers + KEPT_PER_LAYER if args.activation_checkpointing else layers * KEPT_PER_LAYER
    activation_width = 2 if args.bf16 or args.fp16 else width
    total = parameters * width * copies + rows * length * hidden * kept * activation_width
    formula = (
        f"{parameters:,} parameters x {width} bytes x {copies} (weights, gradients, AdamW's two moments"
        f"{', reference' if copies > 2 + OPTIMIZER_STATES else ''}) + {rows} rows x {length:.0f} tokens"
        f" x {hidden} hidden x {kept} values kept x {activation_width} bytes"
    )
    return total, formula


def _load_shape(cfg: Config) -> "tuple[PretrainedConfig, PreTrainedTokenizerBase]":
    if cfg.model.init is not None:
        tokenizer = build_trace_tokenizer()
        return Qwen3Config(**cfg.model.init, vocab_size=len(tokenizer)), tokenizer
    path = resolve_model(cfg, Path(cfg.output_dir))
    tokenizer = load_tokenizer(cfg, path)
    try:
        return AutoConfig.from_pretrained(path, trust_remote_code=cfg.model.trust_remote_code), tokenizer
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError([f"model.path={path}: its config cannot be loaded ({reason})"]) from None


def _describe_cost(
    cfg: Config, args: "TrainingArguments", shape: "PretrainedConfig", tokenizer: Any, task: Task
) -> list[str]:
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(shape, trust_remote_code=cfg.model.trust_remote_code)
    parameters = model.num_parameters()
    prompt = fmean(_count_tokens(tokenizer, row["prompt"]) for row in task.train[:SAMPLE_ROWS])
    if cfg.algo.name == "sft":
        budget = fmean(_count_tokens(tokenizer, row["completion"]) for row in task.train[:SAMPLE_ROWS])
        batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
        at_most = ""
    else:
        budget, batch, at_most = cfg.max_tokens, args.generation_batch_size, " at most"
    memory, formula = estimate_memory(cfg, args, shape, parameters, prompt + budget)
    steps = args.max_steps if args.max_steps > 0 else round(args.num_train_epochs * len(task.train) / batch)
    return [
        f"rows: {len(task.train)} to train on, {len(task.eval)} held out ({cfg.eval.split})",
        f"steps: {steps}",
        f"tokens per step: {batch} x (prompt {prompt:.0f} + completion {budget:.0f}{at_most})"
        f" = {batch * (prompt + budget):,.0f}",
        f"parameters: {parameters:,}",
        f"memory, estimated: {memory / 1e9:.2f} GB, beside the libraries, = {formula}",
    ]


def _count_tokens(tokenizer: "PreTrainedTokenizerBase", text: Any) -> int:
    if isinstance(text, str):
        return len(tokenizer(text).input_ids)
    return len(tokenizer.apply_chat_template(text, add_generation_prompt=True, return_dict=True)["input_ids"])


def _find_dtype(cfg: Config, shape: "PretrainedConfig") -> torch.dtype:
    return (shape.dtype or torch.float32) if cfg.model.dtype == "auto" else getattr(torch, cfg.model.dtype)


def _list_incompatible(cfg: Config) -> list[str]:
    """What cannot be combined with the chosen task and algorithm."""
    refused = [algo for algo, need in ALGO_NEEDS.items() if need not in TASK_GIVES[cfg.task.name]]
    losses = [loss for algo, known in LOSS_TYPES.items() if algo != cfg.algo.name for loss in known]
    return [
        f"not with task={cfg.task.name}: algo={', '.join(refused) or 'none'}",
        f"not with algo={cfg.algo.name}: loss_type={', '.join(losses)}",
    ]
