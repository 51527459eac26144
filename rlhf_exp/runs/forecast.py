"""What a run will take, by the last like it; and afterwards, whether it took far more or less.

found = find_like(flatten(asdict(cfg)))          # the record of a finished run, or None
compare_with_like(load_run(folder))              # ["a step took 2.1 s, 3.0 times as long as in outputs/..."]
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.folder import read_record
from rlhf_exp.runs.listing import list_runs, read_settings
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.settings import flatten

OUTPUTS = Path("outputs")
LIKE = (
    *("algo.name", "task.name", "model.name", "model.path", "peft.name", "scale.name", "generation.method"),
    *("max_tokens", "device.use_cpu", "device.threads", "algo.args.per_device_train_batch_size"),
    *("algo.args.gradient_accumulation_steps", "algo.args.num_generations", "algo.args.num_iterations"),
)
"""Keys in which two runs agree whose steps take about the same time and memory."""
FAR = 1.5
"""A time or a memory that differs from that of the like run by more than this factor is told. It accuses nobody: a
machine that was busy is the usual cause of a time."""


def find_like(config: Mapping[str, Any], besides: Path | None = None) -> tuple[str, dict[str, Any]] | None:
    """Folder and record of the last finished run below `outputs/` that agrees in LIKE; None if there is none.

    Args:
        config: by dotted keys.
        besides: the folder of a run that is not looked at.
    """
    try:
        runs = list_runs(OUTPUTS)
    except ConfigError:  # there is none
        return None
    for run in reversed(runs):
        place = Path(run["run"])
        is_done = run["task"] == config["task.name"] and run["status"] == "finished" and run["steps"]
        if is_done and (besides is None or place.resolve() != besides.resolve()):
            settings = read_settings(run)  # once: a run ends with this, and outputs/ may hold hundreds
            if all(settings.get(key) == config.get(key) for key in LIKE):
                return run["run"], read_record(place)
    return None


def compare_with_like(run: Run) -> list[str]:
    """A line for the time of a step and for the memory of training, where one is FAR from the like run's."""
    if not run.info.get("steps") or (found := find_like(flatten(run.config), run.path)) is None:
        return []
    place, before = found
    lines = []
    for what, unit, spec, now, then in (
        ("a step took", "s", ".2g", _read_step(run.info), _read_step(before)),
        (
            "training took at most",
            "MB",
            ",.0f",
            *(info.get("phase_memory_mb", {}).get("train") for info in (run.info, before)),
        ),
    ):
        if now and then and not 1 / FAR <= now / then <= FAR:
            lines.append(f"{what} {now:{spec}} {unit}, {now / then:.1f} times the {then:{spec}} {unit} of {place}")
    return lines


def _read_step(record: Mapping[str, Any]) -> float | None:
    seconds = record.get("seconds", {}).get("train")
    return seconds / record["steps"] if seconds else None
