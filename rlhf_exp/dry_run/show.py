"""Prints what a run will be: its model, rows, steps and cost, the defaults it takes, and a prompt as it is read.

print_dry_run(cfg)
"""

from typing import Any

from transformers import TrainingArguments

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.device import count_completions, count_processes, targets_other_hardware
from rlhf_exp.config.rules.machine import find_missing
from rlhf_exp.config.schema import Config, learns_from_samples
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.config.values import show
from rlhf_exp.dry_run.cost import estimate_disk, estimate_time, say_bytes, warn_of_disk
from rlhf_exp.dry_run.differences import compare_with_defaults
from rlhf_exp.dry_run.machine import Machine, find_machine
from rlhf_exp.dry_run.memory import estimate_memory, warn_of_memory
from rlhf_exp.dry_run.model import build_on_meta, find_tokenizer, load_shape
from rlhf_exp.dry_run.rows import Lengths, Rows, load_rows, measure_lengths, render_prompt
from rlhf_exp.errors import printable
from rlhf_exp.report.tables import duration


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
    changed, chosen = compare_with_defaults(cfg)
    lines = _describe_model(cfg, model, trained)
    lines += _describe_training(cfg, args, rows, tokenizer, model, trained)
    print("\n".join(lines))
    _print_list("chosen by default", chosen)
    _print_list("different from the chosen groups", changed)
    if rows is not None:
        _print_list("the first prompt, as the model reads it", render_prompt(tokenizer, rows.task))
    for line in (*(rows.task.notes if rows is not None else ()), *_list_incompatible(cfg)):
        print(printable(line))
    for line in unchecked:
        print(f"not checked here: {line}")
    print("the whole config: the same command with --cfg job --resolve")
    print("all other checks passed" if unchecked else "all checks passed")


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
        lines.append(f"parameters: {whole:,}{f', {part}' if ALGORITHMS[cfg.algo.name].trains else ''}")
    if cfg.model.enable_thinking is not None:
        thinking = "thinks" if cfg.model.enable_thinking else "does not think"
        lines.append(f"the model {thinking} before it answers: model.enable_thinking={show(cfg.model.enable_thinking)}")
    return lines


def _describe_training(
    cfg: Config, args: TrainingArguments, rows: Rows | None, tokenizer: Any, model: Any, trained: int
) -> list[str]:
    """Lines on rows, steps and tokens, and the estimated cost."""
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * count_processes(cfg)
    steps = args.max_steps
    if steps < 1 and rows is not None and rows.train:
        steps = max(1, round(args.num_train_epochs * rows.train / batch))
    lines = [] if rows is None else [_describe_rows(cfg, rows)]
    lengths, machine = measure_lengths(cfg, tokenizer, rows), find_machine(cfg)
    if not ALGORITHMS[cfg.algo.name].trains:
        return lines if model is None else lines + _describe_memory(cfg, args, lengths, model, trained, machine)
    epochs = f"{args.num_train_epochs:g} times the rows"
    lines.append(f"steps: {steps if steps > 0 else epochs}")
    lines.append(_describe_tokens(cfg, lengths, batch))
    if model is None:
        return [*lines, "memory and disk: not estimated, since the model's shape is not known"]
    lines += _describe_memory(cfg, args, lengths, model, trained, machine)
    if steps > 0:
        disk, formula = estimate_disk(cfg, args, model, trained, steps)
        warning = warn_of_disk(cfg, disk) if machine.is_here else ""
        lines.append(f"disk, estimated: {say_bytes(disk)} = {formula}{warning}")
        seconds, formula = estimate_time(cfg, args, model, trained, machine, batch * lengths.row, steps)
        whole = ", with whole budgets" if ALGORITHMS[cfg.algo.name].online else ""
        least = "estimated" if machine.is_here else f"at least{whole}"
        lines.append(f"time of training, {least}: {duration(seconds)} = {formula}")
    return lines


def _describe_memory(
    cfg: Config, args: TrainingArguments, lengths: Lengths, model: Any, trained: int, machine: Machine
) -> list[str]:
    memory = estimate_memory(cfg, args, model, trained, lengths.prompt or 0, lengths.longest)
    phases = ", ".join(f"{name} {say_bytes(needed)}" for name, needed in memory.phases.items())
    warning = warn_of_memory(cfg, memory, machine)
    left_out = "the libraries and vLLM" if cfg.algo.args.get("use_vllm") else "the libraries"
    return [f"memory, estimated, without {left_out}: {phases}{warning}", f"memory {memory.formula}"]


def _describe_rows(cfg: Config, rows: Rows) -> str:
    made, held_out = rows.train, rows.held_out or "a share of them"
    if learns_from_samples(cfg) and cfg.task.samples in (None, "self"):
        made = f"made of {cfg.task.sampling.rows} x {cfg.task.sampling.completions} completions"
        held_out = "a share of them" if ALGORITHMS[cfg.algo.name].scores else held_out
    if not ALGORITHMS[cfg.algo.name].trains:
        return f"rows: {held_out} held out ({cfg.eval.split}), nothing is trained"
    return f"rows: {made} to train on, {held_out} held out ({cfg.eval.split})"


def _describe_tokens(cfg: Config, lengths: Lengths, batch: int) -> str:
    """The line on the tokens of a step or rollout."""
    rollout = count_completions(cfg) * count_processes(cfg) if ALGORITHMS[cfg.algo.name].online else batch
    names = ("chosen", "rejected") if len(lengths.answers) == 2 else ("completion",)
    before = "prompt" if lengths.prompt is None else f"prompt {lengths.prompt:.0f}"
    answers = zip(names, lengths.answers, strict=True)
    parts = " + ".join(f"{before} + {name} {tokens:.0f}{lengths.bound}" for name, tokens in answers)
    of = "step" if rollout == batch else f"rollout, of {rollout // batch} steps"
    and_prompts = " and prompts" if lengths.prompt is None else ""
    return f"tokens per {of}: {rollout} x ({parts}) = {rollout * lengths.row:,.0f}{and_prompts}"


def _print_list(title: str, lines: list[str]) -> None:
    if lines:
        print(printable("\n  ".join([f"{title}:", *lines])))


def _list_incompatible(cfg: Config) -> list[str]:
    """What cannot be combined with the chosen task and algorithm."""
    refused = [name for name, row in ALGORITHMS.items() if row.trains and row.learns_from not in cfg.task.provides]
    losses = [loss for name, row in ALGORITHMS.items() if name != cfg.algo.name for loss in row.losses]
    lines = [f"not with task={cfg.task.name}: algo={', '.join(refused)}"] if refused else []
    lines += [] if cfg.task.graded else [f"not with task={cfg.task.name}: reward=outcome"]
    return [*lines, f"not with algo={cfg.algo.name}: loss_type={', '.join(losses)}"]
