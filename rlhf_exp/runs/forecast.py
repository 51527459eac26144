"""What a run will take, by the last like it; and afterwards, whether it took far more or less.

found = find_like(asdict(cfg))                   # the record of a finished run, or None
compare_with_like(load_run(folder))              # ["a step took 2.1 s, 3.0 times as long as in outputs/..."]
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.folder import read_record
from rlhf_exp.runs.listing import list_runs, read_settings
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.lock import OUTPUTS
from rlhf_exp.runs.settings import flatten

LIKE = (
    *("algo.name", "task.name", "model.name", "model.path", "peft.name", "scale.name", "generation.method"),
    *("max_tokens", "device.use_cpu", "device.threads", "algo.args.per_device_train_batch_size"),
    *("algo.args.gradient_accumulation_steps", "algo.args.num_generations", "algo.args.num_iterations"),
)
"""Keys in which two runs agree whose steps take about the same time and memory."""
FAR = 1.5
"""A time or a memory that differs from that of the like run by more than this factor is told. It accuses nobody: a
machine that was busy is the usual cause of a time."""


def list_outputs() -> list[dict[str, Any]]:
    """The runs below `outputs/`, the one that began last at the end."""
    try:
        return list_runs(OUTPUTS)
    except ConfigError:  # there is none
        return []


def find_like(
    config: Mapping[str, Any], before: str | None = None, runs: Sequence[dict[str, Any]] | None = None
) -> tuple[str, dict[str, Any]] | None:
    """Folder and record of the last finished run below `outputs/` that agrees in LIKE; None if there is none.

    Args:
        before: a time; runs that finished then or later are not looked at.
        runs: of `list_outputs`, for many calls: the settings that are read are kept in it.
    """
    wanted = flatten(config)
    for run in reversed(list_outputs() if runs is None else runs):
        is_done = run["task"] == wanted["task.name"] and run["status"] == "finished" and run["steps"]
        if is_done and (before is None or str(run["finished"]) < before):
            if "settings" not in run:
                run["settings"] = read_settings(run)
            if all(run["settings"].get(key) == wanted.get(key) for key in LIKE):
                return run["run"], read_record(Path(run["run"]))
    return None


def limit_steps(steps: int, train_tokens: int | None, tokens: float | None) -> int:
    """Of `steps`, those until the budget is spent at so many `tokens` in a step. 0 steps are an unknown number; None is
    no budget, or tokens that are not known."""
    if train_tokens is None or not tokens:
        return steps
    spent = math.ceil(train_tokens / tokens)
    return min(steps, spent) if steps > 0 else spent


def count_tokens(record: Mapping[str, Any]) -> float | None:
    """The tokens that a step of a finished run trained on; None in the record of an early version."""
    tokens = record.get("work", {}).get("trained_tokens")
    return tokens and tokens / record["steps"]


def compare_with_like(run: Run, runs: Sequence[dict[str, Any]] | None = None) -> list[str]:
    """A line for the time of a step and for the memory of training, where one is FAR from those of the last like run
    that had finished when this one did, so that a later diagnosis says the same."""
    if not run.info.get("steps") or (found := find_like(run.config, run.info.get("finished"), runs)) is None:
        return []
    place, before = found
    memory, memory_before = (info.get("phase_memory_mb", {}).get("train") for info in (run.info, before))
    figures = (
        ("a step took", "s", ".2g", _read_step(run.info), _read_step(before)),
        ("training took at most", "MB", ",.0f", memory, memory_before),
    )
    lines = []
    for what, unit, spec, now, then in figures:
        if now and then and not 1 / FAR <= now / then <= FAR:
            lines.append(f"{what} {now:{spec}} {unit}, {now / then:.1f} times the {then:{spec}} {unit} of {place}")
    return lines


def _read_step(record: Mapping[str, Any]) -> float | None:
    seconds = record.get("seconds", {}).get("train")
    return seconds / record["steps"] if seconds else None
