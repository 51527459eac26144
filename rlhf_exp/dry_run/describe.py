"""Says what a run will be: its model, rows, steps and cost, the defaults it takes, and a prompt as it is read.

found = describe_dry_run(cfg)      # found.fits: "fits"; found.checks: "all passed"
"""

import math
from dataclasses import asdict
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase, TrainingArguments

from rlhf_exp.config.defaults import explain_rows, list_defaults, read_settings
from rlhf_exp.config.device import count_processes, targets_other_hardware
from rlhf_exp.config.rules.machine import find_missing
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.config.values import show
from rlhf_exp.dry_run.cost import (
    TOO_LARGE,
    UNKNOWN,
    estimate_memory,
    judge_memory,
    write_bytes,
)
from rlhf_exp.dry_run.load import Lengths, build_on_meta, load_checked_task, load_shape_and_tokenizer, measure_lengths
from rlhf_exp.runs.figures import write_name
from rlhf_exp.runs.settings import flatten
from rlhf_exp.tasks import TaskRows
from rlhf_exp.tasks.tokens import render

PROMPT_LINES, LINE_WIDTH = 12, 110
UNUSUAL = ("; dropped: ", "; odd but kept: ", " come again", "task.system_prompt=")
"""In notes of the loader that are worth a look."""


class DryRun(NamedTuple):
    """What a run would be, in words.

    Attributes:
        what: algorithm, task, model, device, and how much is trained.
        fits, needs, place: of `judge_memory`, with what to change, or why the default batch is as small as it is.
        tokens: of a training step.
        unchecked: what cannot be checked here.
        notes: what the loader dropped or repeats.
        details: all further lines.
    """

    what: str
    fits: str
    needs: str
    place: str
    tokens: str
    unchecked: list[str]
    notes: list[str]
    details: list[str]

    @property
    def checks(self) -> str:
        """How the checks ended."""
        if self.fits == TOO_LARGE:
            return "FAILED: memory"
        return "all others passed" if self.unchecked else "all passed"

    @property
    def problems(self) -> list[str]:
        """What failed; everything else raises where it is found."""
        return [f"memory: {self.needs}{self.place}"] if self.fits == TOO_LARGE else []


def describe_dry_run(cfg: Config) -> DryRun:
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
    lengths, steps = measure_lengths(cfg, tokenizer, task), count_steps(cfg, args, task)
    what, details = _describe_setting(cfg), list[str]()
    if model is not None:
        part = ", all trained" if trained >= model.num_parameters() else f", {trained:,} of them trained"
        what += f"; parameters: {model.num_parameters():,}{part if cfg.algo.row.trains else ''}"
    if cfg.algo.row.trains:
        taken = _limit_steps(steps, cfg.train_tokens, count_rows(cfg, args) * lengths.row)
        what += f"; steps: {taken or f'{args.num_train_epochs:g} times the rows'}"
        if taken != steps:
            what += f"{' or more' if lengths.bound else ''}, until train_tokens are spent"
    details += [] if task is None else [_describe_rows(cfg, task)]
    tokens = _describe_tokens(lengths, count_rows(cfg, args)) if cfg.algo.row.trains else "none: nothing is trained"
    (fits, needs, place), formulas = _describe_memory(cfg, args, model, trained, lengths)
    if fits != TOO_LARGE and (line := explain_rows(cfg)):
        place += f"; {line}"
    details += [*formulas, "chosen by default:", *(f"  {line}" for line in list_chosen(cfg))]
    if task is not None and tokenizer is not None:
        details += ["the first prompt, as the model reads it:", *_render_prompt(tokenizer, task), *task.notes]
    details.append("the whole config: the same command with --cfg job --resolve")
    notes = [note for note in (task.notes if task else ()) if any(word in note for word in UNUSUAL)]
    return DryRun(what, fits, needs, place, tokens, unchecked, notes, details)


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
    loss = write_name(cfg.algo.args.get("loss_type"))
    loss = f" ({loss})" if loss not in ("", cfg.algo.name) else ""
    here = "the CPU" if cfg.device.use_cpu else "the GPU"
    device = f"hardware={cfg.hardware.name}" if targets_other_hardware(cfg) else here
    return f"{cfg.algo.name}{loss} on {cfg.task.name}, {cfg.model.path or cfg.model.name}, seed {cfg.seed}, on {device}"


def _describe_rows(cfg: Config, task: TaskRows) -> str:
    made, held_out = str(len(task.train)), len(task.pairs if cfg.algo.row.scores else task.eval)
    samples = cfg.learns_from_samples and cfg.task.samples in (None, "self")
    if samples:
        made = f"made of {cfg.task.sampling.rows} x {cfg.task.sampling.completions} completions"
    kept = "a share of them" if samples and cfg.algo.row.scores else held_out or "a share of them"
    return f"rows: {made if cfg.algo.row.trains else 'none'} to train on, {kept} held out ({cfg.eval.split})"


def count_rows(cfg: Config, args: TrainingArguments) -> int:
    """Rows of an optimizer step, of all processes."""
    return args.per_device_train_batch_size * args.gradient_accumulation_steps * count_processes(cfg)


def count_steps(cfg: Config, args: TrainingArguments, task: TaskRows | None) -> int:
    """Optimizer steps, if no budget of tokens ends them; 0 if the rows that they follow from are not known, or nothing
    is trained."""
    if args.max_steps < 1 and task is not None and task.train:
        return max(1, round(args.num_train_epochs * len(task.train) / count_rows(cfg, args)))
    return max(0, args.max_steps) if cfg.algo.row.trains else 0


def _describe_memory(
    cfg: Config, args: TrainingArguments, model: Any, trained: int, lengths: Lengths
) -> tuple[tuple[str, str, str], list[str]]:
    """What `judge_memory` says, and the lines with the figures of each phase."""
    if model is None:
        return (UNKNOWN, "the model's shape is not known", ""), []
    phases = estimate_memory(cfg, args, model, trained, lengths.longest_prompt, lengths.longest)
    needed = {phase: sum(parts.values()) for phase, parts in phases.items()}
    left_out = "the libraries and vLLM" if cfg.algo.args.get("use_vllm") else "the libraries"
    largest = max(needed, key=needed.__getitem__)
    return judge_memory(cfg, needed), [
        f"memory, estimated, without {left_out}: {_list_bytes(needed, ', ')}",
        f"memory of {largest} = {_list_bytes(phases[largest], ' + ')}",
    ]


def _limit_steps(steps: int, train_tokens: int | None, tokens: float) -> int:
    """Of `steps`, those until the budget is spent at so many `tokens` in a step. 0 steps are an unknown number; None is
    no budget, and 0 tokens are not known."""
    if train_tokens is None or not tokens:
        return steps
    spent = math.ceil(train_tokens / tokens)
    return min(steps, spent) if steps > 0 else spent


def _describe_tokens(lengths: Lengths, batch: int) -> str:
    names = ("chosen", "rejected") if len(lengths.answers) == 2 else ("completion",)
    before = f"prompt {lengths.prompt:.0f} + " if lengths.prompt else ""
    answers = zip(names, lengths.answers, strict=True)
    parts = " + ".join(f"{before}{name} {tokens:.0f}{lengths.bound}" for name, tokens in answers)
    return f"{batch} x ({parts}) = {batch * lengths.row:,.0f} of a step"


def _list_bytes(parts: dict[str, float], separator: str) -> str:
    return separator.join(f"{what} {write_bytes(bytes_)}" for what, bytes_ in parts.items())


def _render_prompt(tokenizer: PreTrainedTokenizerBase, task: TaskRows) -> list[str]:
    """The first lines of the first prompt, with the chat template applied, each of limited length."""
    prompt = (task.train or task.eval or task.pairs)[0]["prompt"]
    lines = render(tokenizer, [prompt], ask=True)[0].split("\n")[:PROMPT_LINES]
    return [f"  | {line if len(line) <= LINE_WIDTH else f'{line[:LINE_WIDTH]}...'}" for line in lines]
