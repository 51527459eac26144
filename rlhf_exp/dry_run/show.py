"""Prints what a run will be: its model, rows, steps and cost, the defaults it takes, and a prompt as it is read.

print_dry_run(cfg)
"""

from dataclasses import asdict
from typing import Any

from transformers import PreTrainedTokenizerBase, TrainingArguments

from rlhf_exp.config.defaults import list_defaults, read_settings
from rlhf_exp.config.device import count_processes, targets_other_hardware
from rlhf_exp.config.rules.machine import find_missing
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.config.values import show
from rlhf_exp.dry_run.cost import estimate_memory, estimate_time, warn_of_memory
from rlhf_exp.dry_run.load import Lengths, build_on_meta, load_checked_task, load_shape_and_tokenizer, measure_lengths
from rlhf_exp.errors import printable
from rlhf_exp.runs.figures import duration, write_name
from rlhf_exp.runs.settings import flatten
from rlhf_exp.tasks import Task
from rlhf_exp.tasks.tokens import render

PROMPT_LINES, LINE_WIDTH = 12, 110


def print_dry_run(cfg: Config) -> None:
    """Print what `describe_dry_run` says."""
    print("\n".join(map(printable, describe_dry_run(cfg))))


def describe_dry_run(cfg: Config) -> list[str]:
    """Check as a run would, and say what it will be. No weights are loaded. What cannot be checked here is named:
    what only the network has, and packages that another machine needs.

    Raises:
        ConfigError: what a run would refuse before it loads weights.
    """
    args = build_args(cfg)
    unchecked = [problem.partition("; ")[0] for problem in find_missing(cfg)] if targets_other_hardware(cfg) else []
    shape, tokenizer = load_shape_and_tokenizer(cfg, unchecked)
    task = load_checked_task(cfg, tokenizer, unchecked)
    model, trained = build_on_meta(cfg, shape) if shape is not None else (None, 0)
    lines = [_describe_setting(cfg)]
    if model is not None:
        part = ", all trained" if trained >= model.num_parameters() else f", {trained:,} of them trained"
        lines.append(f"parameters: {model.num_parameters():,}{part if cfg.algo.row.trains else ''}")
    lines += [] if task is None else [_describe_rows(cfg, task)]
    lines += _describe_run(cfg, args, task, measure_lengths(cfg, tokenizer, task), model, trained)
    lines += ["chosen by default:", *(f"  {line}" for line in list_chosen(cfg))]
    if task is not None and tokenizer is not None:
        lines += ["the first prompt, as the model reads it:", *_render_prompt(tokenizer, task), *task.notes]
    lines += [f"not checked here: {line}" for line in unchecked]
    lines.append("the whole config: the same command with --cfg job --resolve")
    return [*lines, "all other checks passed" if unchecked else "all checks passed"]


def list_chosen(cfg: Config) -> list[str]:
    """The defaults that depend on other choices, as far as the run takes them, each with its reason."""
    values, lines, own_rate = flatten(asdict(cfg)), [], cfg.model.learning_rate.get(cfg.algo.name)
    for key, default in list_defaults(read_settings(cfg)).items():
        if key in values and values[key] == default.value:
            lines.append(f"{key}={show(values[key])}: {default.reason}")
        elif key == "algo.args.learning_rate" and values[key] == own_rate:
            lines.append(f"{key}={show(own_rate)}: the model's own, conf/model/{cfg.model.name}.yaml")
    return lines


def _describe_setting(cfg: Config) -> str:
    """Algorithm, task, model and device."""
    loss = f" ({write_name(found)})" if (found := cfg.algo.args.get("loss_type")) else ""
    here = "the CPU" if cfg.device.use_cpu else "the GPU"
    device = f"hardware={cfg.hardware.name}" if targets_other_hardware(cfg) else here
    return f"{cfg.algo.name}{loss} on {cfg.task.name}, {cfg.model.path or cfg.model.name}, on {device}"


def _describe_rows(cfg: Config, task: Task) -> str:
    made, held_out = str(len(task.train)), len(task.pairs if cfg.algo.row.scores else task.eval)
    samples = cfg.learns_from_samples and cfg.task.samples in (None, "self")
    if samples:
        made = f"made of {cfg.task.sampling.rows} x {cfg.task.sampling.completions} completions"
    kept = "a share of them" if samples and cfg.algo.row.scores else held_out or "a share of them"
    return f"rows: {made if cfg.algo.row.trains else 'none'} to train on, {kept} held out ({cfg.eval.split})"


def _describe_run(
    cfg: Config, args: TrainingArguments, task: Task | None, lengths: Lengths, model: Any, trained: int
) -> list[str]:
    """Lines on steps and tokens, and the estimated cost."""
    lines, row, steps = [], cfg.algo.row, args.max_steps
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * count_processes(cfg)
    if steps < 1 and task is not None and task.train:
        steps = max(1, round(args.num_train_epochs * len(task.train) / batch))
    if row.trains:
        lines += [f"steps: {steps if steps > 0 else f'{args.num_train_epochs:g} times the rows'}"]
        lines += [_describe_tokens(lengths, batch)]
    if model is None:
        return [*lines, "memory: not estimated, since the model's shape is not known"]
    phases = estimate_memory(cfg, args, model, trained, lengths.prompt, lengths.longest)
    needed = {phase: sum(parts.values()) for phase, parts in phases.items()}
    left_out = "the libraries and vLLM" if cfg.algo.args.get("use_vllm") else "the libraries"
    lines.append(f"memory, estimated, without {left_out}: {_list_bytes(needed, ', ')}{warn_of_memory(cfg, needed)}")
    if needed:
        largest = max(needed, key=needed.__getitem__)
        lines.append(f"memory of {largest} = {_list_bytes(phases[largest], ' + ')}")
    if row.trains and steps > 0:
        if found := estimate_time(cfg, args, model, trained, batch * lengths.row, steps):
            how = "at least" if targets_other_hardware(cfg) else "estimated"
            lines.append(f"time of training, {how}: {duration(found[0])} = {found[1]}")
        else:
            lines.append("time of training: not estimated, since no finished run below outputs/ is like this one")
    return lines


def _describe_tokens(lengths: Lengths, batch: int) -> str:
    names = ("chosen", "rejected") if len(lengths.answers) == 2 else ("completion",)
    before = f"prompt {lengths.prompt:.0f} + " if lengths.prompt else ""
    answers = zip(names, lengths.answers, strict=True)
    parts = " + ".join(f"{before}{name} {tokens:.0f}{lengths.bound}" for name, tokens in answers)
    return f"tokens per step: {batch} x ({parts}) = {batch * lengths.row:,.0f}"


def _list_bytes(parts: dict[str, float], separator: str) -> str:
    sizes = {what: f"{n / 1e9:,.2f} GB" if n >= 1e9 else f"{n / 1e6:,.1f} MB" for what, n in parts.items()}
    return separator.join(f"{what} {size}" for what, size in sizes.items())


def _render_prompt(tokenizer: PreTrainedTokenizerBase, task: Task) -> list[str]:
    """The first lines of the first prompt, with the chat template applied, each of limited length."""
    prompt = (task.train or task.eval or task.pairs)[0]["prompt"]
    lines = render(tokenizer, [prompt], ask=True)[0].split("\n")[:PROMPT_LINES]
    return [f"  | {line if len(line) <= LINE_WIDTH else f'{line[:LINE_WIDTH]}...'}" for line in lines]
