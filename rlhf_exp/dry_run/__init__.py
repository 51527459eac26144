"""`dry_run=true`: every check, and what the run will be: its size, cost, chosen defaults, and a prompt as it is read.

    print_dry_run(cfg)

It loads no weights. What is on the hub and cannot be had without the network is named, and the rest is checked.
"""

import re
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForSequenceClassification

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.hub import is_hub_id, is_offline
from rlhf_exp.config.model_shape import find_shape
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.config.values import show
from rlhf_exp.dry_run.cost import estimate_disk, estimate_memory, estimate_time
from rlhf_exp.dry_run.differences import compare_with_defaults
from rlhf_exp.errors import ConfigError
from rlhf_exp.models import load_tokenizer
from rlhf_exp.models.adapters import build_peft_config
from rlhf_exp.models.loading import load_config, locate_model
from rlhf_exp.models.untrained import build_config, build_tokenizer
from rlhf_exp.report.tables import duration
from rlhf_exp.rewards.functions import load_function
from rlhf_exp.tasks import Task, find_rows, load_task, prompts_per_rollout
from rlhf_exp.tasks.hub_rows import Unavailable
from rlhf_exp.tasks.prompts import check_context, check_rows, check_vocabulary
from rlhf_exp.tasks.sampled import learns_from_samples

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, TrainingArguments

MEMORY = Path("/proc/meminfo")
SAMPLE_ROWS = 256
PROMPT_LINES, LINE_WIDTH = 12, 110


class Rows(NamedTuple):
    """The task with at most a sample of its drawn rows, and how many there are of each side."""

    task: Task
    train: int
    held_out: int


def print_dry_run(cfg: Config) -> None:
    """Check as a run would, and print what it will be; what the network alone has is said and left unchecked.

    Raises:
        ConfigError: what a run would refuse before it loads weights.
    """
    args, unchecked = build_args(cfg), []
    shape, tokenizer = _load_shape(cfg, unchecked), _load_tokenizer(cfg, unchecked)
    rows = _load_rows(cfg, tokenizer, unchecked)
    model, trained = _build_on_meta(cfg, shape) if shape is not None else (None, 0)
    changed, chosen = compare_with_defaults(cfg)
    for line in _describe_run(cfg, args, rows, tokenizer, model, trained):
        print(line)
    _print_list("chosen by default", chosen)
    _print_list("set otherwise than the chosen groups say", changed)
    if rows is not None:
        _print_list("the first prompt, as the model reads it", _render_prompt(tokenizer, rows.task))
    for line in (*(rows.task.notes if rows is not None else ()), *_list_incompatible(cfg)):
        print(line)
    for line in unchecked:
        print(f"not checked without the network: {line}")
    print("the whole config: the same command with --cfg job --resolve")
    print("all other checks passed" if unchecked else "all checks passed")


def _print_list(title: str, lines: list[str]) -> None:
    if lines:
        print("\n  ".join([f"{title}:", *lines]))


def _load_shape(cfg: Config, unchecked: list[str]) -> "PretrainedConfig | None":
    if cfg.model.init is not None:
        return build_config(cfg.model.init, build_tokenizer(cfg.model.init))
    path = locate_model(cfg)
    config = _unless_offline(lambda: load_config(cfg, path), path, f"model.path={path}: its config.json", unchecked)
    known = find_shape(cfg.model.path, cfg.model.base, None, cfg.model.name).values
    if config is not None or known is None or known.get("model_type") not in CONFIG_MAPPING:
        return config
    return CONFIG_MAPPING[known["model_type"]](**{key: value for key, value in known.items() if key != "model_type"})


def _load_tokenizer(cfg: Config, unchecked: list[str]) -> "PreTrainedTokenizerBase | None":
    if cfg.model.init is not None:
        return build_tokenizer(cfg.model.init)
    path = locate_model(cfg)
    return _unless_offline(lambda: load_tokenizer(cfg, path), path, f"model.path={path}: its tokenizer", unchecked)


def _unless_offline(load: Callable[[], Any], path: str, what: str, unchecked: list[str]) -> Any:
    """What `load` gives; None, and a line in `unchecked`, where it is on a hub that nothing is asked of."""
    try:
        return load()
    except ConfigError:
        if not is_hub_id(path) or not is_offline():
            raise
        unchecked.append(f"{what} is not in the hub's cache")
        return None


def _load_rows(cfg: Config, tokenizer: Any, unchecked: list[str]) -> Rows | None:
    """The rows, checked as a run does. Of those that are drawn only a sample is, for they are all alike."""
    if tokenizer is None:
        unchecked.append(f"task={cfg.task.name}: its rows, which are counted in tokens")
        return None
    _, task_cfg = cfg.task.list_sources()[-1]
    sampled, counts = cfg, None
    if task_cfg.draws_rows and task_cfg.source == "generated":
        whole = replace(cfg, task=task_cfg)
        drawn, used = find_rows(task_cfg).count_rows(whole)
        counts = drawn, cfg.eval.rows
        enough = max(SAMPLE_ROWS, prompts_per_rollout(cfg) if ALGORITHMS[cfg.algo.name].online else 0)
        part = replace(task_cfg, train_rows=min(drawn, enough) or None)
        own = part if task_cfg is cfg.task else replace(cfg.task, of=part, train_rows=part.train_rows)
        sampled = replace(cfg, task=own, eval=replace(cfg.eval, rows=min(cfg.eval.rows, SAMPLE_ROWS)))
    try:
        task = load_task(sampled, tokenizer)
    except Unavailable as error:
        if not is_offline():
            raise
        unchecked.append(error.problems[0].split(" (")[0] + "; its rows and prompts")
        return None
    check_vocabulary(tokenizer, task)
    check_context(cfg, tokenizer, task)
    check_rows(cfg, task)
    for name, where in cfg.reward.functions.items():
        load_function(name, where, task)
    held_out = len(task.pairs) if ALGORITHMS[cfg.algo.name].scores else len(task.eval)
    if counts is None:
        return Rows(task, len(task.train), held_out)
    again = (f"training uses {used:,} rows: {drawn:,} are drawn, and then come again",) if drawn < used else ()
    return Rows(replace(task, notes=(*task.notes, *again)), *counts)


def _build_on_meta(cfg: Config, shape: "PretrainedConfig") -> "tuple[PreTrainedModel, int]":
    """The model without storage, and how many of its parameters are trained."""
    dtype = (shape.dtype or torch.float32) if cfg.model.dtype == "auto" else getattr(torch, cfg.model.dtype)
    kind = AutoModelForCausalLM
    if ALGORITHMS[cfg.algo.name].scores:
        kind, shape.num_labels = AutoModelForSequenceClassification, 1
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft's of GPT-2, and TRL's own use of old names
        model = kind.from_config(shape, dtype=dtype, trust_remote_code=cfg.model.trust_remote_code)
        if (peft_config := build_peft_config(cfg)) is None:
            return model, model.num_parameters()
        from peft import get_peft_model

        trained = get_peft_model(model, peft_config).get_nb_trainable_parameters()[0]
    return model, trained


def _describe_run(
    cfg: Config, args: "TrainingArguments", rows: Rows | None, tokenizer: Any, model: Any, trained: int
) -> list[str]:
    """What runs, on which rows, for how long, and what it takes."""
    loss = cfg.algo.args.get("loss_type")
    loss = f" ({', '.join(loss) if isinstance(loss, list) else loss})" if loss else ""
    device = "the CPU" if cfg.device.use_cpu else "the GPU"
    lines = [f"{cfg.algo.name}{loss} on {cfg.task.name}, {cfg.model.path or cfg.model.name}, on {device}"]
    if model is not None:
        whole = model.num_parameters()
        lines.append(f"parameters: {whole:,}, {'all trained' if trained >= whole else f'{trained:,} of them trained'}")
    if cfg.model.enable_thinking is not None:
        thinking = "thinks" if cfg.model.enable_thinking else "does not think"
        lines.append(f"the model {thinking} before it answers: model.enable_thinking={show(cfg.model.enable_thinking)}")
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    prompt, answers, bound = _measure_rows(cfg, tokenizer, rows)
    steps = args.max_steps
    if steps < 1 and rows is not None and rows.train:
        steps = max(1, round(args.num_train_epochs * rows.train / batch))
    if rows is not None:
        sampled = learns_from_samples(cfg) and cfg.task.samples in (None, "self")
        made = f"made of {cfg.task.sampling.rows} x {cfg.task.sampling.completions} completions" if sampled else None
        held_out = rows.held_out or "a share of them"
        held_out = "a share of them" if made and ALGORITHMS[cfg.algo.name].scores else held_out
        lines.append(f"rows: {made or rows.train} to train on, {held_out} held out ({cfg.eval.split})")
    epochs = f"{args.num_train_epochs:g} times the rows"
    lines.append(f"steps: {steps if steps > 0 else epochs}")
    rollout = getattr(args, "generation_batch_size", None) or batch
    names = ("chosen", "rejected") if len(answers) == 2 else ("completion",)
    before = "prompt" if prompt is None else f"prompt {prompt:.0f}"
    parts = " + ".join(f"{before} + {name} {n:.0f}{bound}" for name, n in zip(names, answers, strict=True))
    length = len(answers) * (prompt or 0) + sum(answers)
    of = "step" if rollout == batch else f"rollout, of {rollout // batch} steps"
    lines.append(f"tokens per {of}: {rollout} x ({parts}) = {rollout * length:,.0f}{' and prompts' * (prompt is None)}")
    if model is None:
        return [*lines, "memory and disk: not estimated, for the model's shape is not known"]
    memory, formula = estimate_memory(cfg, args, model, trained, length)
    lines.append(
        f"memory, estimated: {memory / 1e9:.2f} GB, beside the libraries, = {formula}{_warn_of_memory(cfg, memory)}"
    )
    if steps > 0:
        disk, formula = estimate_disk(cfg, args, model, trained, steps)
        lines.append(f"disk, estimated: {_say_bytes(disk)} = {formula}{_warn_of_disk(cfg, disk)}")
        seconds, formula = estimate_time(cfg, args, model, trained, batch * length, steps)
        lines.append(f"time of training, estimated: {duration(seconds)} = {formula}")
    return lines


def _say_bytes(n: float) -> str:
    return f"{n / 1e9:,.2f} GB" if n >= 1e9 else f"{n / 1e6:,.1f} MB"


def _warn_of_memory(cfg: Config, needed: float) -> str:
    free = _count_free_memory(cfg.device.use_cpu)
    if needed <= free:
        return ""
    ways = {"none": "peft=lora or peft=qlora", "lora": "peft=qlora"}.get(cfg.peft.name)
    way = f"add {ways}" if ways else "use a smaller model or algo.args.per_device_train_batch_size"
    where = "computer" if cfg.device.use_cpu else "GPU"
    return f"; MORE than the {free / 1e9:.2f} GB that are free on this {where}; {way}"


def _count_free_memory(use_cpu: bool) -> int:
    """Bytes that are free on the first visible GPU, or available on this machine, where it says so (Linux)."""
    if not use_cpu:
        return torch.cuda.mem_get_info()[0]
    found = re.search(r"MemAvailable: +(\d+) kB", MEMORY.read_text()) if MEMORY.is_file() else None
    return int(found[1]) * 1024 if found else sys.maxsize


def _warn_of_disk(cfg: Config, needed: float) -> str:
    folder = Path(cfg.output_dir).absolute()
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return f"; MORE than the {_say_bytes(free)} that are free in {folder}" if needed > free else ""


def _measure_rows(cfg: Config, tokenizer: Any, rows: Rows | None) -> tuple[float | None, list[float], str]:
    """Mean tokens of a prompt and of each answer in a training row; what is sampled counts as the whole budget."""
    columns = [name for name in ALGORITHMS[cfg.algo.name].columns if name != "prompt"]
    at_most = [float(cfg.max_tokens)] * max(1, len(columns))
    if rows is None:
        return None, at_most, " at most"
    sample = (rows.task.train or rows.task.eval)[:SAMPLE_ROWS]
    prompt = fmean(_count_tokens(tokenizer, row["prompt"]) for row in sample)
    if not columns or columns[0] not in sample[0]:
        return prompt, at_most, " at most"
    return prompt, [fmean(_count_tokens(tokenizer, row[name]) for row in sample) for name in columns], ""


def _count_tokens(tokenizer: "PreTrainedTokenizerBase", text: Any) -> int:
    """Tokens of a text, or of the contents of messages; the marks of a chat template are left out."""
    texts = [text] if isinstance(text, str) else [message["content"] for message in text]
    return sum(len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"])


def _render_prompt(tokenizer: "PreTrainedTokenizerBase", task: Task) -> list[str]:
    """The first prompt with the chat template applied, its first lines, each cut."""
    prompt = (task.train or task.eval or task.pairs)[0]["prompt"]
    if not isinstance(prompt, str):
        prompt = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    lines = prompt.split("\n")
    shown = [line if len(line) <= LINE_WIDTH else f"{line[: LINE_WIDTH - 3]}..." for line in lines[:PROMPT_LINES]]
    more = [f"... {len(lines) - PROMPT_LINES} lines more"] if len(lines) > PROMPT_LINES else []
    return [f"| {line}" for line in (*shown, *more)]


def _list_incompatible(cfg: Config) -> list[str]:
    """What cannot be combined with the chosen task and algorithm."""
    refused = [name for name, row in ALGORITHMS.items() if row.learns_from not in cfg.task.provides]
    losses = [loss for name, row in ALGORITHMS.items() if name != cfg.algo.name for loss in row.losses]
    lines = [f"not with task={cfg.task.name}: algo={', '.join(refused)}"] if refused else []
    lines += [] if cfg.task.graded else [f"not with task={cfg.task.name}: reward=outcome"]
    return [*lines, f"not with algo={cfg.algo.name}: loss_type={', '.join(losses)}"]
