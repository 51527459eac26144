"""Figures as text: the rows of the tables that the terminal and the pages share.

summary_rows(run)  ->  [["accuracy", "25.2% [21.6, 29.1]", "46.1% [41.8, 50.4]", "+20.9 [+16.4, +25.4]"], ...]
"""

import math

from rlhf_exp.report.load import Run
from rlhf_exp.stats import Interval, paired_bootstrap

SUMMARY_HEAD = ["", "baseline", "trained", "difference"]
SUMMARY_NOTE = (
    "In brackets: 95% intervals. Differences are trained minus baseline on the same rows (paired bootstrap); "
    "those of shares are in percentage points. KL is to the start model, in nats per completion."
)
OUTCOMES = ("correct", "partial", "failed")
# Figures whose paired difference evaluation.json does not hold, and their columns in samples.jsonl.
SAMPLE_COLUMNS = {"mean_tokens": "tokens", "truncation_rate": "truncated", "reward": "reward"}


def title(run: Run) -> str:
    """algo=grpo loss_type=grpo task=countdown model=tiny max_tokens=64 seed=0: finished"""
    info = run.info
    loss = f" loss_type={info['loss_type']}" if info.get("loss_type") else ""
    names = " ".join(f"{key}={info.get(key)}" for key in ("task", "model", "max_tokens", "seed"))
    return f"algo={info.get('algo')}{loss} {names}: {run.status}"


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


def summary_rows(run: Run) -> list[list[str]]:
    """Label, baseline, trained, difference; a side that was not measured shows as -."""
    sides = [run.evaluation.get("baseline"), run.evaluation.get("trained")]
    difference = run.evaluation.get("paired", {}).get("difference")
    moved = sample_differences(run)
    return [
        ["accuracy", *(percent(_get(side, "accuracy")) for side in sides), points(difference)],
        [" / ".join(OUTCOMES), *(_counts(side) for side in sides), ""],
        ["mean tokens", *(number(_get(side, "mean_tokens"), ".1f") for side in sides),
         number(moved.get("mean_tokens"), "+.1f")],
        ["budget used", *(_utilisation(side) for side in sides), ""],
        ["truncated", *(percent(_get(side, "truncation_rate")) for side in sides),
         points(moved.get("truncation_rate"))],
        ["reward", *(number(_get(side, "reward", "mean"), ".3f") for side in sides),
         number(moved.get("reward"), "+.3f")],
        ["KL", *(number(_get(side, "kl", "mean"), ".2f") for side in sides), ""],
    ]  # fmt: skip


def sample_differences(run: Run) -> dict[str, Interval]:
    """Paired differences from the samples, by the name of the figure in evaluation.json."""
    pairs = run.paired_samples()
    if not pairs:
        return {}
    return {
        name: paired_bootstrap([before[key] for before, _ in pairs], [after[key] for _, after in pairs], seed=0)
        for name, key in SAMPLE_COLUMNS.items()
    }


def win_sentence(run: Run) -> str | None:
    """58.0% [54.1, 61.9], wins 140, losses 58, ties 314 (a tie is half a win)"""
    paired = run.evaluation.get("paired")
    if not paired:
        return None
    counts = f"wins {paired['wins']}, losses {paired['losses']}, ties {paired['ties']}"
    return f"{percent(paired['win_rate'])}, {counts} (a tie is half a win)"


def verdict(run: Run) -> str:
    """What the run did to held-out accuracy, in a sentence."""
    evaluation = run.evaluation
    if "paired" not in evaluation:
        return "Held-out accuracy after training was not measured."
    difference = evaluation["paired"]["difference"]
    before, after = (100 * evaluation[side]["accuracy"]["value"] for side in ("baseline", "trained"))
    word = "did not measurably change"
    if difference["low"] is not None and difference["low"] > 0:
        word = "rose"
    if difference["high"] is not None and difference["high"] < 0:
        word = "fell"
    return (
        f"Held-out accuracy {word}: {before:.1f}% before and {after:.1f}% after, a difference of "
        f"{points(difference)} points on {evaluation['paired']['n']} rows."
    )


def status_sentence(run: Run) -> str | None:
    """In words what kept the run from finishing; None for a finished run."""
    if run.status == "finished":
        return None
    error = " ".join(str(run.info.get("error") or "no reason was recorded").split())[:500].rstrip(".")
    reached = f"The last logged step is {run.metrics[-1]['step']}." if run.metrics else "No step was logged."
    if run.status == "running":
        return f"This run is still running, or was killed before it could say so. {reached}"
    return f"This run {'was ' if run.status == 'stopped' else ''}{run.status}: {error}. {reached}"


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


def _write(interval: Interval | None, scale: float, spec: str, unit: str = "") -> str:
    """- for a value that is not finite (null in the files); no brackets around an interval without width."""
    if interval is None or interval["value"] is None or not math.isfinite(interval["value"]):
        return "-"
    value, low, high = interval["value"], interval["low"], interval["high"]
    bounds = "" if low is None or low == high else f" [{scale * low:{spec}}, {scale * high:{spec}}]"
    return f"{scale * value:{spec}}{unit}{bounds}"


def _get(side: dict | None, *keys: str) -> Interval | None:
    for key in keys:
        side = None if side is None else side.get(key)
    return side


def _counts(side: dict | None) -> str:
    return "-" if side is None else " / ".join(str(side["counts"][outcome]) for outcome in OUTCOMES)


def _utilisation(side: dict | None) -> str:
    return "-" if side is None else f"{100 * side['utilisation']:.1f}% of {side['max_tokens']}"
