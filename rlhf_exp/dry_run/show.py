"""Prints what a run will be: its model, rows, steps and cost, the defaults it takes, and a prompt as it is read.

print_dry_run(cfg)
"""

from dataclasses import asdict
from typing import Any

from transformers import TrainingArguments

from rlhf_exp.config.defaults import list_defaults, read_settings
from rlhf_exp.config.device import count_processes, targets_other_hardware
from rlhf_exp.config.rules.machine import find_missing
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.config.values import show
from rlhf_exp.dry_run.cost import estimate_disk, estimate_time, find_memory, say_bytes, warn_of_disk
from rlhf_exp.dry_run.memory import Phases, estimate_memory, warn_of_memory
from rlhf_exp.dry_run.model import build_on_meta, find_tokenizer, load_shape
from rlhf_exp.dry_run.rows import Lengths, Rows, load_rows, measure_lengths, render_prompt
from rlhf_exp.errors import printable
from rlhf_exp.runs.figures import duration
from rlhf_exp.runs.settings import flatten


def print_dry_run(cfg: Config) -> None:
    """Check as a run would, and print what it will be. No weights are loaded. What cannot be checked here is named:
    what only the network has, and packages that another machine needs.

    Raises:
        ConfigError: what a run would refuse before it loads weights.
    """
    args = build_args(cfg)
    unchecked = [problem.partition("; ")[0] for problem in find_missing(cfg)] if targets_other_hardware(cfg) else []
    shape, tokenizer = load_shape(cfg, unchecked), find_tokenizer(cfg, unchecked)
    rows = load_rows(cfg, tokenizer, unchecked)
    model, trained = build_on_meta(cfg, shape) if shape is not None else (None, 0)
    lines = [*_describe_model(cfg, model, trained), *_describe_run(cfg, args, rows, tokenizer, model, trained)]
    lines += ["chosen by default:", *(f"  {line}" for line in list_chosen(cfg))]
    if rows is not None and tokenizer is not None:
        lines += ["the first prompt, as the model reads it:"]
        lines += [*(f"  {line}" for line in render_prompt(tokenizer, rows.task)), *rows.task.notes]
    lines += [f"not checked here: {line}" for line in unchecked]
    lines.append("the whole config: the same command with --cfg job --resolve")
    lines.append("all other checks passed" if unchecked else "all checks passed")
    print("\n".join(map(printable, lines)))


def list_chosen(cfg: Config) -> list[str]:
    """The defaults that depend on other choices, as far as the run takes them, each with its reason."""
    values, lines, own_rate = flatten(asdict(cfg)), [], cfg.model.learning_rate.get(cfg.algo.name)
    for key, default in list_defaults(read_settings(cfg)).items():
        if key in values and values[key] == default.value:
            lines.append(f"{key}={show(values[key])}: {default.reason}")
        elif key == "algo.args.learning_rate" and values[key] == own_rate:
            lines.append(f"{key}={show(own_rate)}: the model's own, conf/model/{cfg.model.name}.yaml")
    return lines


def _describe_model(cfg: Config, model: Any, trained: int) -> list[str]:
    """Lines on algorithm, task, model and device."""
    loss = cfg.algo.args.get("loss_type")
    loss = f" ({', '.join(loss) if isinstance(loss, list) else loss})" if loss else ""
    here = "the CPU" if cfg.device.use_cpu else "the GPU"
    device = f"hardware={cfg.hardware.name}" if targets_other_hardware(cfg) else here
    lines = [f"{cfg.algo.name}{loss} on {cfg.task.name}, {cfg.model.path or cfg.model.name}, on {device}"]
    if model is not None:
        whole = model.num_parameters()
        part = "all trained" if trained >= whole else f"{trained:,} of them trained"
        lines.append(f"parameters: {whole:,}{f', {part}' if cfg.algo.row.trains else ''}")
    return lines


def _describe_run(
    cfg: Config, args: TrainingArguments, rows: Rows | None, tokenizer: Any, model: Any, trained: int
) -> list[str]:
    """Lines on rows, steps and tokens, and the estimated cost."""
    row, lengths = cfg.algo.row, measure_lengths(cfg, tokenizer, rows)
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * count_processes(cfg)
    steps = args.max_steps
    if steps < 1 and rows is not None and rows.train:
        steps = max(1, round(args.num_train_epochs * rows.train / batch))
    lines = [] if rows is None else [_describe_rows(cfg, rows)]
    if row.trains:
        lines.append(f"steps: {steps if steps > 0 else f'{args.num_train_epochs:g} times the rows'}")
        lines.append(_describe_tokens(lengths, batch))
    if model is None:
        return [*lines, "memory and disk: not estimated, since the model's shape is not known"]
    lines += _describe_memory(cfg, estimate_memory(cfg, args, model, trained, lengths.prompt or 0, lengths.longest))
    if row.trains and steps > 0:
        disk = estimate_disk(cfg, args, model, trained, steps)
        total = sum(disk.values())
        lines.append(f"disk, estimated: {say_bytes(total)} = {_list_parts(disk)}{warn_of_disk(cfg, total)}")
        if found := estimate_time(cfg, args, model, trained, batch * lengths.row, steps):
            least = "at least, with whole budgets" if row.online else "at least"
            how = least if targets_other_hardware(cfg) else "estimated"
            lines.append(f"time of training, {how}: {duration(found[0])} = {found[1]}")
        else:
            lines.append("time of training: not estimated, since no finished run below outputs/ is like this one")
    return lines


def _describe_memory(cfg: Config, phases: Phases) -> list[str]:
    """Lines on the memory of each phase, and on what takes that of the largest."""
    needed = {phase: sum(parts.values()) for phase, parts in phases.items()}
    left_out = "the libraries and vLLM" if cfg.algo.args.get("use_vllm") else "the libraries"
    each = ", ".join(f"{phase} {say_bytes(bytes_)}" for phase, bytes_ in needed.items())
    lines = [f"memory, estimated, without {left_out}: {each}{warn_of_memory(cfg, needed, *find_memory(cfg))}"]
    if needed:
        largest = max(needed, key=needed.__getitem__)
        lines.append(f"memory of {largest} = {_list_parts(phases[largest])}")
    return lines


def _list_parts(parts: dict[str, float]) -> str:
    return " + ".join(f"{what} {say_bytes(bytes_)}" for what, bytes_ in parts.items())


def _describe_rows(cfg: Config, rows: Rows) -> str:
    made: int | str = rows.train
    held_out = rows.held_out or "a share of them"
    if cfg.learns_from_samples and cfg.task.samples in (None, "self"):
        made = f"made of {cfg.task.sampling.rows} x {cfg.task.sampling.completions} completions"
        held_out = "a share of them" if cfg.algo.row.scores else held_out
    if not cfg.algo.row.trains:
        return f"rows: {held_out} held out ({cfg.eval.split}), nothing is trained"
    return f"rows: {made} to train on, {held_out} held out ({cfg.eval.split})"


def _describe_tokens(lengths: Lengths, batch: int) -> str:
    names = ("chosen", "rejected") if len(lengths.answers) == 2 else ("completion",)
    before = "prompt" if lengths.prompt is None else f"prompt {lengths.prompt:.0f}"
    answers = zip(names, lengths.answers, strict=True)
    parts = " + ".join(f"{before} + {name} {tokens:.0f}{lengths.bound}" for name, tokens in answers)
    and_prompts = " and prompts" if lengths.prompt is None else ""
    return f"tokens per step: {batch} x ({parts}) = {batch * lengths.row:,.0f}{and_prompts}"
