"""Finds the smallest change of a run that fits into memory, as the estimate of its bytes says.

    find_change(cfg, args, shape, lengths, 8e9)     # ("algo.args.activation_checkpointing=true", 2.9e9)

First come changes that leave the results as they are, then smaller evaluation batches, shorter rows, and adapters.
"""

from collections.abc import Iterator
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

from transformers import PretrainedConfig

from rlhf_exp.config.defaults import DEFAULTS, read_settings
from rlhf_exp.config.rules import find_conflicts
from rlhf_exp.config.schema import Config, Lora, Peft
from rlhf_exp.config.values import show
from rlhf_exp.dry_run.cost import MARGIN, estimate_memory, write_bytes
from rlhf_exp.dry_run.load import Lengths, build_on_meta

ADAPTER = Lora(r=8, lora_alpha=16, lora_dropout=0.0, target_modules="all-linear")
"""Of conf/peft/lora.yaml and qlora.yaml."""
SHORTEST = 16
"""Tokens below which no shorter rows are tried."""
CHECKPOINTING, ROWS, PASSES = "activation_checkpointing", "per_device_train_batch_size", "gradient_accumulation_steps"
ROUNDS = "steps_per_generation"
ARGS = {CHECKPOINTING: "algo.args.", ROWS: "algo.args.", PASSES: "algo.args.", ROUNDS: "++algo.args."}
"""What is typed before each argument; the last may be there or not."""

Change = dict[str, Any]
"""Values by their keys, those of `algo.args` by their names there, in the order in which they are typed."""


def advise(cfg: Config, args: Any, shape: PretrainedConfig, lengths: Lengths, free: float) -> str:
    """What to change for a run that needs more than `free` bytes, in words."""
    text, needed = find_change(cfg, args, shape, lengths, free)
    return say_least(needed) if text is None else f"use {text}, which needs {write_bytes(needed)}"


def say_least(needed: float) -> str:
    """What is said if no change fits, and the one with the fewest bytes has so many."""
    return f"no smaller batch, shorter rows or adapter fits, the least is {write_bytes(needed)}; use a smaller model"


def find_change(
    cfg: Config, args: Any, shape: PretrainedConfig, lengths: Lengths, free: float, phase: str | None = None
) -> tuple[str | None, float]:
    """The overrides of the first change that fits with the estimate's margin, or else without it, and the bytes at its
    peak; without any that fits None, and the fewest bytes of all.

    Args:
        args: TRL's.
        free: bytes.
        phase: the one that must fit; None: all.
    """
    models: dict[str, Any] = {}
    close: tuple[str, float] | None = None
    known, least = {*find_conflicts(cfg)}, float("inf")
    for change in _list_changes(cfg):
        changed = _apply(cfg, args, change)
        if changed.peft.name not in models:
            models[changed.peft.name] = build_on_meta(changed, deepcopy(shape))
        of_args = copy(args)
        vars(of_args).update({name: value for name, value in changed.algo.args.items() if name in ARGS})
        model, trained = models[changed.peft.name]
        row = _shorten(cfg, lengths, change)
        phases = estimate_memory(changed, of_args, model, trained, lengths.longest_prompt, row)
        peak = max(sum(parts.values()) for name, parts in phases.items() if phase in (name, None))
        least = min(least, peak)
        if peak > free or close and peak * MARGIN > free or not {*find_conflicts(changed)} <= known:
            continue
        close = close or (_write(change), peak)
        if peak * MARGIN <= free:
            return _write(change), peak
    return close or (None, least)


def _list_changes(cfg: Config) -> Iterator[Change]:
    """From the smallest change to the largest: what leaves the results as they are, alone and together; with all of it,
    shorter rows; adapters. Behind each, smaller batches of the evaluation."""
    args, row = cfg.algo.args, cfg.algo.row
    alike: list[Change] = [{}]
    if row.trains:
        rows, rounds = args[ROWS], [name for name in (PASSES, ROUNDS) if args.get(name)]
        parts = [n for n in range(rows - 1, row.unpaired, -1) if rows % n == 0]  # KTO needs two rows
        splits = [{ROWS: n} | {name: args[name] * (rows // n) for name in rounds} for n in parts]
        recomputed = [] if args.get(CHECKPOINTING) else [{CHECKPOINTING: True}]
        same = {name: args[name] for name in (ROWS, *rounds)}
        alike += [*recomputed, *splits, *(change | split for change in recomputed for split in (same, *splits))]
    has_budget = row.online or cfg.learns_from_samples or not row.trains
    key = "max_tokens" if has_budget else "task.max_length"
    tokens = cfg.max_tokens if has_budget else getattr(cfg.task, "max_length", None)
    shorter = [alike[-1] | {key: n} for n in _halve(tokens or 0, SHORTEST)]
    adapters = ["lora", "qlora"] if cfg.peft.lora is None else ["qlora"] if cfg.peft.quantization is None else []
    adapted = [{"peft": name} | change for name in adapters if row.trains for change in alike]
    evaluated = [] if row.scores else [{"eval.batch_size": n} for n in _halve(cfg.eval.batch_size, 1)]
    for change in (*alike, *shorter, *adapted):
        yield from (change | smaller for smaller in ({}, *evaluated))


def _halve(number: int, least: int) -> list[int]:
    """Half of it, a quarter, ..."""
    return [number >> n for n in range(1, number.bit_length()) if number >> n >= least]


def _apply(cfg: Config, args: Any, change: Change) -> Config:
    """The config with the change, and with what follows from it."""
    before, of_args = cfg, cfg.algo.args | {name: value for name, value in change.items() if name in ARGS}
    if "max_tokens" in change:
        cfg = replace(cfg, max_tokens=change["max_tokens"])
    if "task.max_length" in change:
        keys: Any = cfg.task
        cfg = replace(cfg, task=replace(keys, max_length=change["task.max_length"]))
    if "eval.batch_size" in change:
        cfg = replace(cfg, eval=replace(cfg.eval, batch_size=change["eval.batch_size"]))
    if name := change.get("peft"):
        four: Any = {"load_in_4bit": True} if name == "qlora" else None
        dtype: Any = "bfloat16" if four or args.bf16 else "float32"
        peft = Peft(name, cfg.peft.lora or ADAPTER, four, dtype, own_reference=False)
        cfg = replace(cfg, peft=peft, model=replace(cfg.model, dtype=dtype))
    changed = replace(cfg, algo=replace(cfg.algo, args=of_args))
    if ROWS not in change and ROWS in of_args and _choose(before, ROWS) == of_args[ROWS]:  # a default, which follows
        for name in [name for name in (ROWS, PASSES, ROUNDS) if of_args.get(name)]:
            of_args[name] = _choose(changed, name)
    return changed


def _choose(cfg: Config, name: str) -> Any:
    """The default of an argument."""
    return DEFAULTS[f"algo.args.{name}"](read_settings(cfg)).value


def _shorten(cfg: Config, lengths: Lengths, change: Change) -> float:
    """Tokens of the longest row after the change."""
    answers = len(lengths.answers)
    cut = answers * (cfg.max_tokens - change.get("max_tokens", cfg.max_tokens))
    return min(lengths.longest - cut, answers * change.get("task.max_length", float("inf")))


def _write(change: Change) -> str:
    """The overrides as they are typed."""
    return " ".join(f"{ARGS.get(key, '')}{key}={show(value)}" for key, value in change.items())
