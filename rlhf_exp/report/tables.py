"""Figures as text, and the tables that every kind of run has.

percent({"value": 0.252, "low": 0.216, "high": 0.291})  ->  "25.2% [21.6, 29.1]"
"""

import math
from collections.abc import Iterator
from typing import Any

from rlhf_exp.runs.load import Run
from rlhf_exp.stats import Interval


def title(run: Run) -> str:
    """algo=grpo loss_type=grpo task=countdown model=tiny max_tokens=64 seed=0: finished"""
    names = (
        (key, write_name(run.info.get(key))) for key in ("algo", "loss_type", "task", "model", "max_tokens", "seed")
    )
    return f"{' '.join(f'{key}={name}' for key, name in names if name)}: {run.status}"


def write_name(value: Any) -> str:
    """A setting as the command line has it; none is empty, and several (dpo's losses) are joined."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def percent(interval: Interval | None) -> str:
    """25.2% [21.6, 29.1]"""
    return _write(interval, 100, ".1f", "%")


def points(interval: Interval | None) -> str:
    """+20.9 [+16.4, +25.4]"""
    return _write(interval, 100, "+.1f")


def number(interval: Interval | None, spec: str) -> str:
    """35.42 [34.10, 36.74]"""
    return _write(interval, 1, spec)


def duration(seconds: float | None) -> str:
    """4.1 s, 236 s, 12 min 5 s, 3 h 20 min"""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 300:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def cost_rows(run: Run) -> list[list[str]]:
    """Time by phase, memory and tokens, as far as run.json holds them."""
    info = run.info
    seconds = info.get("seconds", {})
    rows = [[phase, duration(spent)] for phase, spent in seconds.items()]
    if info.get("baseline_cached"):
        rows = [[f"{phase} (from the cache)" if phase == "baseline" else phase, spent] for phase, spent in rows]
    if seconds.get("train") and info.get("steps"):
        rows.append(["training, per step", f"{seconds['train'] / info['steps']:.3g} s"])
    if info.get("peak_memory_mb"):
        rows.append(["peak memory", f"{info['peak_memory_mb']:,.0f} MB"])
    for key in ("steps", "prompt_tokens", "completion_tokens"):
        if info.get(key):
            rows.append([key.replace("_", " "), f"{info[key]:,}"])
    return rows


def fact_tables(facts: dict) -> list[tuple[list[str], list[list[str]]]]:
    """data.json as (head, rows): counts by the parts that `read` names have a column each, the rest is a list.

    What was counted and never found is left out.
    """
    parts = list(facts.get("read", {}))
    by_part, plain = [], []
    for label, value in _flatten(facts, parts):
        if isinstance(value, dict):
            counts = [value.get(part, 0) for part in parts]
            by_part += [[label, *(f"{n:,}" for n in (*counts, sum(counts)))]] if any(counts) else []
        elif value not in (0, None, {}):
            plain.append([label, f"{value:,}" if isinstance(value, int) else str(value)])
    tables = [(["", *parts, "all"], by_part), (["", ""], plain)]
    return [(head, rows) for head, rows in tables if rows]


def _flatten(facts: dict, parts: list[str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(name, value), nested names joined by commas; a mapping from parts alone stays whole."""
    for name, value in facts.items():
        label = f"{prefix}{name.replace('_', ' ')}"
        if isinstance(value, dict) and not (parts and set(value) <= set(parts)):
            yield from _flatten(value, parts, f"{label}, ")
        else:
            yield label, value


def _write(interval: Interval | None, scale: float, spec: str, unit: str = "") -> str:
    """- for a value that is not finite (null in the files); no brackets around an interval without width."""
    if interval is None or interval["value"] is None or not math.isfinite(interval["value"]):
        return "-"
    value, low, high = interval["value"], interval["low"], interval["high"]
    spec = spec.replace(",.", "z,.") if "," in spec else spec.replace(".", "z.")  # no -0.0
    bounds = "" if low is None or low == high else f" [{scale * low:{spec}}, {scale * high:{spec}}]"
    return f"{scale * value:{spec}}{unit}{bounds}"
