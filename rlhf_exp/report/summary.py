"""Writes the measurements before and after training as rows of text, for the terminal and the pages.

summary_rows(run)  ->  [["accuracy", "25.2% [21.6, 29.1]", "46.1% [41.8, 50.4]", "+20.9 [+16.4, +25.4]"], ...]
"""

from collections.abc import Iterable

from rlhf_exp.algorithms import DEMONSTRATIONS, PAIRS
from rlhf_exp.evaluation.metrics import OUTCOMES
from rlhf_exp.evaluation.preferences import RANKINGS
from rlhf_exp.report.tables import Column, at
from rlhf_exp.runs.figures import number, percent, points
from rlhf_exp.runs.load import Run

INTERVAL_NOTE = "In brackets: 95% intervals."
SUMMARY_NOTE = (
    "In brackets: 95% intervals over held-out rows and sampling, not over training seeds. Differences are trained minus"
    " baseline on the same rows; those of shares are in percentage points."
)
SEVERAL_NOTE = "Each row has {completions} and counts once, by their mean; the counts of outcomes are over all of them."
PASS_NOTE = "Pass@k and majority@k are over draws from them (Chen et al. 2021)."
LOSS_NOTES = {
    DEMONSTRATIONS: "Held-out loss is on held-out demonstrations, in nats per completion token",
    PAIRS: "Held-out loss is on held-out pairs, the mean of -log sigmoid(margin); before training it is ln 2, and every"
    " pair a tie",
}
KL_NOTE = "KL is to the start model, exact, at temperature 1, in nats per completion."


def _share(name: str, *key: str) -> Column:
    return Column(name, at(*key), percent, write_difference=points)


def _mean(name: str, *key: str, spec: str = ".3f", note: str = "") -> Column:
    return Column(name, at(*key), number(spec), note, number(f"+{spec}"))


def _counts(names: Iterable[str]) -> Column:
    return Column(" / ".join(names), at("counts"), lambda counts: " / ".join(str(counts[name]) for name in names))


POLICY_FIGURES = (
    _counts(OUTCOMES),
    _mean("held-out loss", "loss"),
    Column("pair accuracy", at("preference", "accuracy"), percent),
    _mean("mean tokens", "mean_tokens", spec=".1f"),
    _mean("greedy mean tokens", "greedy", "mean_tokens", spec=".1f"),
    Column(
        "budget used",
        lambda side: side if "utilisation" in side else None,
        lambda side: f"{100 * side['utilisation']:.1f}% of {side['max_tokens']}",
    ),
    _share("truncated", "truncation_rate"),
    _share("greedy truncated", "greedy", "truncation_rate"),
    _mean("reward", "reward", "mean"),
    Column("KL", at("kl", "mean"), number(".2f"), KL_NOTE),
    Column(
        "KL as sampled",
        at("kl_sampled", "mean"),
        number(".2f"),
        "KL as sampled: of the distributions that completions are drawn from, after temperature, top-p and top-k.",
    ),
    Column(
        "distinct-1 / -2",
        at("distinct"),
        lambda found: f"{found['1']:.3f} / {found['2']:.3f}",
        "Distinct-1 and -2: distinct tokens and pairs of tokens, over all of them (Li et al. 2016); they fall with"
        " the number of tokens: compare them only between equal numbers.",
    ),
)
"""The figures of a section of evaluation.json that follow the accuracies."""

RANKING_FIGURES = (
    _share("accuracy", "accuracy"),
    _counts(RANKINGS),
    _mean("loss", "loss", note="The baseline is the start model under the untrained head that training begins with."),
    _mean("margin", "margin", "mean"),
    Column("calibration error", at("calibration_error"), number(".3f")),
)
"""The figures of held-out preference pairs, ranked by a reward model or by a policy's implicit reward."""

SCORER_FIGURES = (
    *RANKING_FIGURES,
    Column("reward", at("reward", "mean"), number(".3f")),
    Column("reward std", at("reward", "std"), number(".3f")),
)


def list_figures(run: Run) -> list[Column]:
    """The rows of the table: the figures that were measured before or after training."""
    sides = _read_sides(run)
    figures = SCORER_FIGURES if run.trains_scorer else (*_accuracies(sides), *POLICY_FIGURES)
    if not run.trains:  # the KL to itself is 0
        figures = [figure for figure in figures if not figure.name.startswith("KL")]
    return [figure for figure in figures if any(figure.cell(side) != "-" for side in sides)]


def summary_head(run: Run) -> list[str]:
    return ["", "baseline", "trained", "difference"] if run.trains else ["", "measured"]


def summary_rows(run: Run) -> list[list[str]]:
    """Label, baseline, trained, difference; - for a figure that was not measured. If nothing is trained: label and
    measurement."""
    if not run.trains:
        return [[figure.name, figure.cell(run.evaluation["baseline"])] for figure in list_figures(run)]
    paired = run.evaluation.get("paired", {})
    paired = {**paired, "accuracy": paired.get("difference")}
    return [
        [figure.name, *map(figure.cell, _read_sides(run)), figure.write_difference(figure.read(paired))]
        for figure in list_figures(run)
    ]


def several_note(run: Run) -> str:
    """A note on the completions of each row; empty if there is one."""
    sides = _read_sides(run)
    before, after = (side.get("completions") for side in sides)
    if max(before or 1, after or 1) == 1:
        return ""
    own = before != after is not None
    text = f"{before} completions of the start model and {after} of the trained one" if own else f"{before} completions"
    text = SEVERAL_NOTE.format(completions=text)
    return f"{text} {PASS_NOTE}" if any("pass_at_k" in side for side in sides) else text


def loss_note(run: Run) -> str:
    """A note on what the held-out loss and its intervals are, or why there is none; may be empty."""
    baseline = run.evaluation["baseline"]
    if "loss_left_out" in baseline:
        return f"Held-out loss is left out: {baseline['loss_left_out']}."
    of_what = LOSS_NOTES.get(run.algorithm.learns_from) if run.algorithm and not run.trains_scorer else None
    if "loss" not in baseline or not of_what:
        return ""
    text = f"{of_what}; its intervals, that of the difference too, are Student's t."
    left_out = baseline.get("loss_rows", {}).get("left_out")
    return f"{text} {left_out} rows are not in it: their prompts fill algo.args.max_length." if left_out else text


def _read_sides(run: Run) -> list[dict]:
    return [run.evaluation.get(which, {}) for which in ("baseline", "trained")]


def _accuracies(sides: list[dict]) -> list[Column]:
    """The accuracies: two readings if the answer's form counts (gsm8k), and a row of pass@k for each k."""
    readings = {"accuracy": "accuracy"}
    if any("lenient_accuracy" in side for side in sides):
        readings = {"accuracy": "accuracy, strict", "lenient_accuracy": "accuracy, lenient"}
    several = sorted({int(k) for side in sides for k in side.get("pass_at_k", {})})
    return [
        *(_share(reading, key) for key, reading in readings.items()),
        *(_share(f"greedy {reading}", "greedy", key) for key, reading in readings.items()),
        *(Column(f"pass@{k}", at("pass_at_k", str(k)), percent) for k in several if k > 1),  # pass@1 is the accuracy
        *(Column(f"majority@{k}", at("majority_at_k"), percent) for k in several[-1:]),
    ]
