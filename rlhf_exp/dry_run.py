"""`dry_run=true`: every check, the resolved config, what the run will cost. It loads no weights.

print_dry_run(cfg)
"""

from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from omegaconf import OmegaConf
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from rlhf_exp.combinations import ALGO_NEEDS, GRADED, LOSS_TYPES, PAIRS, PROMPTS, TASK_GIVES, learns_from_samples
from rlhf_exp.config import Config
from rlhf_exp.models import load_tokenizer
from rlhf_exp.models.adapters import build_peft_config
from rlhf_exp.models.loading import load_config, locate_model
from rlhf_exp.models.untrained import build_config, build_tokenizer
from rlhf_exp.prompts import check_context, check_rows, check_vocabulary
from rlhf_exp.rewards.functions import load_function
from rlhf_exp.tasks import Task, load_task
from rlhf_exp.trl_args import build_args

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, TrainingArguments

# Values that a layer keeps for the backward pass, per token and hidden unit, where attention does not keep its scores:
# torch.autograd.graph.saved_tensors_hooks counts 27 for the tiny model's Qwen3 and 35 for GPT-2.
KEPT_PER_LAYER = 30
OPTIMIZER_STATES = 2  # AdamW's two moments
BYTES_4_BIT = 0.5 + 8 / 64 / 8 + 4 / 64 / 256  # a weight, its share of a block's 8-bit scale, and of that one's own
SAMPLE_ROWS = 256


def print_dry_run(cfg: Config) -> None:
    """Check as a run would, then print.

    Raises:
        ConfigError: what a run would refuse before it loads weights.
    """
    args = build_args(cfg)
    shape, tokenizer = _load_shape(cfg)
    task = load_task(cfg, tokenizer)
    check_vocabulary(tokenizer, task)
    check_context(cfg, tokenizer, task)
    check_rows(cfg, task)
    for name, where in cfg.reward.functions.items():
        load_function(name, where, task)
    print(OmegaConf.to_yaml(OmegaConf.create(asdict(cfg))))
    for line in (*_describe_cost(cfg, args, shape, tokenizer, task), *task.notes, *_list_incompatible(cfg)):
        print(line)
    print("all checks passed")


def estimate_memory(
    cfg: Config, args: "TrainingArguments", model: "PreTrainedModel", trained: int, length: float
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


def _keeps_reference(cfg: Config, args: "TrainingArguments") -> bool:
    """Whether a second model stays in memory while training."""
    if cfg.algo.name == "dpo":
        return not args.precompute_ref_log_probs
    if cfg.algo.name == "ppo":
        return cfg.algo.init_kl_coef > 0 or cfg.algo.target_kl is not None
    return ALGO_NEEDS[cfg.algo.name] == PROMPTS and args.beta > 0


def _load_shape(cfg: Config) -> "tuple[PretrainedConfig, PreTrainedTokenizerBase]":
    if cfg.model.init is not None:
        tokenizer = build_tokenizer(cfg.model.init)
        return build_config(cfg.model.init, tokenizer), tokenizer
    path = locate_model(cfg)
    return load_config(cfg, path), load_tokenizer(cfg, path)


def _build_on_meta(cfg: Config, shape: "PretrainedConfig") -> "tuple[PreTrainedModel, int]":
    """The model without storage, and how many of its parameters are trained."""
    dtype = (shape.dtype or torch.float32) if cfg.model.dtype == "auto" else getattr(torch, cfg.model.dtype)
    kind = AutoModelForCausalLM
    if cfg.algo.name == "reward_model":
        kind, shape.num_labels = AutoModelForSequenceClassification, 1
    with torch.device("meta"):
        model = kind.from_config(shape, dtype=dtype, trust_remote_code=cfg.model.trust_remote_code)
        if (peft_config := build_peft_config(cfg)) is None:
            return model, model.num_parameters()
        from peft import get_peft_model

        trained = get_peft_model(model, peft_config).get_nb_trainable_parameters()[0]
    return model, trained


def _describe_cost(
    cfg: Config, args: "TrainingArguments", shape: "PretrainedConfig", tokenizer: Any, task: Task
) -> list[str]:
    model, trained = _build_on_meta(cfg, shape)
    prompt, answers, bound = _measure_rows(cfg, tokenizer, task)
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    batch = getattr(args, "generation_batch_size", None) or batch
    sides = len(answers)
    memory, formula = estimate_memory(cfg, args, model, trained, sides * prompt + sum(answers))
    steps = args.max_steps if args.max_steps > 0 else round(args.num_train_epochs * len(task.train) / batch)
    sampled = learns_from_samples(cfg) and cfg.task.samples in (None, "self")
    made = f"made of {cfg.task.sampling.rows} x {cfg.task.sampling.completions} completions" if sampled else None
    names = ("chosen", "rejected") if sides == 2 else ("completion",)
    parts = " + ".join(f"prompt {prompt:.0f} + {name} {n:.0f}{bound}" for name, n in zip(names, answers, strict=True))
    shown = f"{trained:,} of them trained" if trained < model.num_parameters() else "all trained"
    held_out = len(task.eval) if cfg.algo.name != "reward_model" else len(task.pairs)
    return [
        f"rows: {made or len(task.train)} to train on, {held_out or 'a share of them'} held out ({cfg.eval.split})",
        f"steps: {steps}",
        f"tokens per step: {batch} x ({parts}) = {batch * (sides * prompt + sum(answers)):,.0f}",
        f"parameters: {model.num_parameters():,}, {shown}",
        f"memory, estimated: {memory / 1e9:.2f} GB, beside the libraries, = {formula}",
    ]


def _measure_rows(cfg: Config, tokenizer: Any, task: Task) -> tuple[float, list[float], str]:
    """Mean tokens of a prompt and of each answer in a training row; what is sampled counts as the whole budget."""
    rows = (task.train or task.eval)[:SAMPLE_ROWS]
    prompt = fmean(_count_tokens(tokenizer, row["prompt"]) for row in rows)
    columns = {PROMPTS: (), PAIRS: ("chosen", "rejected")}.get(ALGO_NEEDS[cfg.algo.name], ("completion",))
    if not columns or columns[0] not in rows[0]:
        return prompt, [float(cfg.max_tokens)] * max(1, len(columns)), " at most"
    return prompt, [fmean(_count_tokens(tokenizer, row[name]) for row in rows) for name in columns], ""


def _count_tokens(tokenizer: "PreTrainedTokenizerBase", text: Any) -> int:
    """Tokens of a text, or of the contents of messages; the marks of a chat template are left out."""
    texts = [text] if isinstance(text, str) else [message["content"] for message in text]
    return sum(len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"])


def _list_incompatible(cfg: Config) -> list[str]:
    """What cannot be combined with the chosen task and algorithm."""
    refused = [algo for algo, need in ALGO_NEEDS.items() if need not in TASK_GIVES[cfg.task.name]]
    losses = [loss for algo, known in LOSS_TYPES.items() if algo != cfg.algo.name for loss in known]
    lines = [f"not with task={cfg.task.name}: algo={', '.join(refused)}"] if refused else []
    lines += [] if cfg.task.name in GRADED else [f"not with task={cfg.task.name}: reward=outcome"]
    return [*lines, f"not with algo={cfg.algo.name}: loss_type={', '.join(losses)}"]
