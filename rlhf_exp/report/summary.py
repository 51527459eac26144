"""What was measured before and after training, as rows of text that the terminal and the pages share.

summary_rows(run)  ->  [["accuracy", "25.2% [21.6, 29.1]", "46.1% [41.8, 50.4]", "+20.9 [+16.4, +25.4]"], ...]
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from rlhf_exp.report.tables import number, percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import Interval, paired_bootstrap

SUMMARY_HEAD = ["", "baseline", "trained", "difference"]
SUMMARY_NOTE = (
    "In brackets: 95% intervals. Differences are trained minus baseline on the same rows (paired bootstrap); "
    "those of shares are in percentage points."
)
SEVERAL_NOTE = (
    "Each row has {completions} completions, and counts once, by its mean over them; pass@k and majority@k are of draws"
    " from them (Chen et al. 2021), counts of all of them."
)
SCORER_NOTE = "The baseline is the start model under the untrained head that training begins with."
HELD_OUT_LOSS = "held-out loss"
LOSS_NOTES = {
    "sft": "Held-out loss is on held-out demonstrations, in nats per completion token",
    "dpo": "Held-out loss is on held-out pairs, the mean of -log sigmoid(margin); before training it is ln 2, and every"
    " pair a tie",
}
KL_NOTE = "KL is to the start model, exact, at temperature 1, in nats per completion."
SAMPLED_KL = "KL as sampled"
SAMPLED_KL_NOTE = (
    f"{SAMPLED_KL}: of the distributions that completions are drawn from, after temperature, top-p and top-k."
)
DISTINCT_NOTE = (
    "Distinct-1 and -2: distinct tokens and pairs of tokens, over all of them (Li et al. 2016); "
    "it falls with the number of tokens, so compare like with like."
)
OUTCOMES = ("correct", "partial", "failed")
RANKINGS = ("correct", "tied", "wrong")

Key = tuple[str, ...]
"""Where a figure stands in a section of evaluation.json."""

Values = tuple[list[float], list[float]]
"""Of the baseline and of the trained model, row for row."""


class Figure(NamedTuple):
    """One row of the summary: how its two sides are written, and the difference between them where there is one."""

    label: str
    key: Key
    write: Callable[[Any], str]
    write_difference: Callable[[Interval | None], str] = lambda interval: ""


def _write_as(spec: str) -> Callable[[Interval | None], str]:
    return lambda interval: number(interval, spec)


def loss_note(run: Run) -> str:
    """What the held-out loss is of and what its intervals are, or why there is none; "" where nothing says so."""
    baseline = run.evaluation["baseline"]
    if "loss_left_out" in baseline:
        return f"Held-out loss is left out: {baseline['loss_left_out']}."
    if "loss" not in baseline or run.info.get("algo") not in LOSS_NOTES:
        return ""
    text = f"{LOSS_NOTES[run.info['algo']]}; its intervals, that of the difference too, are Student's t."
    left_out = baseline.get("loss_rows", {}).get("left_out")
    return f"{text} {left_out} rows are not in it: their prompts fill algo.args.max_length." if left_out else text


def summary_rows(run: Run) -> list[list[str]]:
    """Label, baseline, trained, difference. A side that was not measured shows as -; a row without any is left out."""
    sides = [run.evaluation.get(which) for which in ("baseline", "trained")]
    if run.info.get("algo") == "reward_model":
        figures, differences = SCORER_FIGURES, _scorer_differences(run)
    else:
        figures, differences = _list_policy_figures(sides), sample_differences(run)
    if "difference" in run.evaluation.get("paired", {}):
        differences[("accuracy",)] = run.evaluation["paired"]["difference"]
    if "loss" in run.evaluation.get("paired", {}):
        differences[("loss",)] = run.evaluation["paired"]["loss"]
    rows = []
    for label, key, write, write_difference in figures:
        before, after = ("-" if (found := _get(side, key)) is None else write(found) for side in sides)
        if (before, after) != ("-", "-"):
            rows.append([label, before, after, write_difference(differences.get(key))])
    return rows


def sample_differences(run: Run) -> dict[Key, Interval]:
    """Paired differences that evaluation.json does not hold, from the samples.

    A row counts once, however many completions it has: its mean over them.
    """
    sampled, greedy = run.paired_samples(), run.paired_samples("greedy")
    columns = {
        ("mean_tokens",): _pair_rows(sampled, lambda sample: sample["tokens"]),
        ("truncation_rate",): _pair_rows(sampled, lambda sample: sample["truncated"]),
        ("reward", "mean"): _pair_rows(sampled, lambda sample: sample.get("reward")),
        ("lenient_accuracy",): _pair_rows(sampled, lambda sample: sample.get("lenient")),
        ("greedy", "accuracy"): _pair_rows(greedy, _is_correct),
        ("greedy", "lenient_accuracy"): _pair_rows(greedy, lambda sample: sample.get("lenient")),
        ("greedy", "mean_tokens"): _pair_rows(greedy, lambda sample: sample["tokens"]),
        ("greedy", "truncation_rate"): _pair_rows(greedy, lambda sample: sample["truncated"]),
    }
    return {key: paired_bootstrap(*values, seed=0) for key, values in columns.items() if values[0]}


def _list_policy_figures(sides: list[dict | None]) -> list[Figure]:
    """Accuracy has two readings where the answer's form counts (gsm8k), and pass@k as many rows as there are k."""
    readings = ["accuracy"]
    if any(_get(side, ("lenient_accuracy",)) for side in sides):
        readings = ["accuracy, strict", "accuracy, lenient"]
    keys = ["accuracy", "lenient_accuracy"][: len(readings)]
    several = sorted({int(k) for side in sides for k in _get(side, ("pass_at_k",)) or {}})
    return [
        *(Figure(reading, (key,), percent, points) for reading, key in zip(readings, keys, strict=True)),
        *(
            Figure(f"greedy {reading}", ("greedy", key), percent, points)
            for reading, key in zip(readings, keys, strict=True)
        ),
        *(Figure(f"pass@{k}", ("pass_at_k", str(k)), percent) for k in several if k > 1),  # pass@1 is the accuracy
        *(Figure(f"majority@{k}", ("majority_at_k",), percent) for k in several[-1:]),
        Figure(" / ".join(OUTCOMES), ("counts",), lambda counts: _join(counts, OUTCOMES)),
        Figure(HELD_OUT_LOSS, ("loss",), _write_as(".3f"), _write_as("+.3f")),
        Figure("pair accuracy", ("preference", "accuracy"), percent),
        Figure("mean tokens", ("mean_tokens",), _write_as(".1f"), _write_as("+.1f")),
        Figure("greedy mean tokens", ("greedy", "mean_tokens"), _write_as(".1f"), _write_as("+.1f")),
        Figure("budget used", (), lambda side: f"{100 * side['utilisation']:.1f}% of {side['max_tokens']}"),
        Figure("truncated", ("truncation_rate",), percent, points),
        Figure("greedy truncated", ("greedy", "truncation_rate"), percent, points),
        Figure("reward", ("reward", "mean"), _write_as(".3f"), _write_as("+.3f")),
        Figure("KL", ("kl", "mean"), _write_as(".2f")),
        Figure(SAMPLED_KL, ("kl_sampled", "mean"), _write_as(".2f")),
        Figure("distinct-1 / -2", ("distinct",), lambda found: f"{found['1']:.3f} / {found['2']:.3f}"),
    ]


SCORER_FIGURES = (
    Figure("accuracy", ("accuracy",), percent, points),
    Figure(" / ".join(RANKINGS), ("counts",), lambda counts: _join(counts, RANKINGS)),
    Figure("loss", ("loss",), _write_as(".3f"), _write_as("+.3f")),
    Figure("margin", ("margin", "mean"), _write_as(".3f"), _write_as("+.3f")),
    Figure("reward", ("reward", "mean"), _write_as(".3f")),
    Figure("its deviation", ("reward", "std"), "{:.3f}".format),
    Figure("calibration error", ("calibration_error",), "{:.3f}".format),
)


def _scorer_differences(run: Run) -> dict[Key, Interval]:
    margins = _pair_rows(run.paired_preferences(), lambda row: row["margin"])
    if not margins[0]:
        return {}
    losses = [[_log_loss(margin) for margin in side] for side in margins]
    return {("margin", "mean"): paired_bootstrap(*margins, seed=0), ("loss",): paired_bootstrap(*losses, seed=0)}


def _pair_rows(pairs: list[tuple[dict, dict]], read: Callable[[dict], float | None]) -> Values:
    """For each row the mean of `read` over its completions, before and after; rows that have no value are left out."""
    found: dict[str, list[tuple[float, float]]] = {}
    for before, after in pairs:
        values = read(before), read(after)
        if None not in values:
            found.setdefault(before["id"], []).append(values)
    means = [tuple(math.fsum(side) / len(side) for side in zip(*values, strict=True)) for values in found.values()]
    return [before for before, _ in means], [after for _, after in means]


def _is_correct(sample: dict) -> bool | None:
    return sample["outcome"] == "correct" if "outcome" in sample else None


def _log_loss(margin: float) -> float:
    """-log sigmoid(margin), without overflow on either side."""
    return math.log1p(math.exp(-abs(margin))) + max(0.0, -margin)


def _get(side: dict | None, key: Key) -> Any:
    found: Any = side
    for name in key:
        found = None if found is None else found.get(name)
    return found


def _join(counts: dict[str, int], names: tuple[str, ...]) -> str:
    return " / ".join(str(counts[name]) for name in names)
