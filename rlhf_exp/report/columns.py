"""Declares the columns of a comparison of runs: one per figure.

TRAINED.read(run)  ->  {"value": 0.38, "low": 0.34, "high": 0.43}, or None
mean_over_seeds([run, run, run], TRAINED)
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from rlhf_exp.evaluation.metrics import OUTCOMES
from rlhf_exp.report.rows import ByRow, align, of_pairs, of_samples, read_wins, subtract
from rlhf_exp.report.tables import Column, at
from rlhf_exp.runs.figures import number, percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import DIFFERENCES, SHARES, Interval, crossed_interval, exact, mean_interval


def _measured(*key: str, scorer: bool | None = None) -> Callable[[Run], Interval | None]:
    """Reads a figure of a run whose trained model was measured. With `scorer` true only of runs that train a reward
    model, with false only of all others: a reward model's accuracy is of pairs, and its rewards have no zero."""

    def read(run: Run) -> Interval | None:
        if "trained" not in run.evaluation or scorer not in (None, run.trains_scorer):
            return None
        found = at(*key)(run.evaluation)
        return exact(found) if isinstance(found, int | float) else found or None

    return read


def _cost(*paths: str, per_update: bool = False) -> Callable[[Run], Interval | None]:
    """Reads the value in run.json at the first of these paths that it has, of a run that trained."""

    def read(run: Run) -> Interval | None:
        steps = run.info.get("steps")
        found = [value for path in paths if (value := at(*path.split("."))(run.info)) is not None]
        return exact(found[0] / (steps if per_update else 1)) if steps and found else None

    return read


def _is_correct(sample: dict) -> bool:
    return sample["outcome"] == "correct"


def _no_rows(run: Run) -> ByRow:
    """Of a figure over all completions at once, which rows do not have."""
    return {}


CORRECT, CORRECT_BEFORE = of_samples("trained", _is_correct), of_samples("baseline", _is_correct)
REWARDED, REWARDED_BEFORE = (of_samples(which, lambda s: s["reward"]) for which in ("trained", "baseline"))
RIGHT, RIGHT_BEFORE = of_pairs("trained"), of_pairs("baseline")

TRAINED = Column("trained", _measured("trained", "accuracy", scorer=False), percent, rows=CORRECT, kind=SHARES)
REWARD = Column("reward", _measured("trained", "reward", "mean", scorer=False), number(".3f"),
                "Rewards are of the trained model, and comparable only under the same reward.",
                rows=REWARDED)  # fmt: skip
KL = Column("KL", _measured("trained", "kl", "mean"), number(".2f"),
            "KL is the trained model's to its start, exact, at temperature 1, in nats per completion.",
            rows=of_samples("trained", lambda sample: sample["kl"]))  # fmt: skip
BASELINE = Column("baseline", _measured("baseline", "accuracy", scorer=False), percent, rows=CORRECT_BEFORE,
                  kind=SHARES)  # fmt: skip
DIFFERENCE = Column("difference", _measured("paired", "difference", scorer=False), points,
                    "Baseline and trained are held-out accuracies, the difference is in points.",
                    rows=subtract(CORRECT, CORRECT_BEFORE), kind=DIFFERENCES)  # fmt: skip
PAIRS_BASELINE = Column("pairs, baseline", _measured("baseline", "accuracy", scorer=True), percent,
                        "Pairs: share of held-out pairs whose chosen answer a reward model puts first.",
                        rows=RIGHT_BEFORE, kind=SHARES)  # fmt: skip
PAIRS_TRAINED = Column("pairs, trained", _measured("trained", "accuracy", scorer=True), percent, rows=RIGHT,
                       kind=SHARES)  # fmt: skip
PAIRS_DIFFERENCE = Column("pairs, difference", _measured("paired", "difference", scorer=True), points,
                          rows=subtract(RIGHT, RIGHT_BEFORE), kind=DIFFERENCES)  # fmt: skip
IMPLICIT = Column("implicit", _measured("trained", "preference", "accuracy"), percent,
                  "Implicit: share of held-out pairs whose chosen answer the policy's implicit reward puts"
                  " first.", rows=RIGHT, kind=SHARES)  # fmt: skip
WIN_RATE = Column("win rate", _measured("paired", "win_rate"), percent,
                  "Win rate: how often the trained model's reward is above the start model's on the same row; a tie is"
                  " half a win.", rows=read_wins, kind=SHARES)  # fmt: skip
TOKENS = Column("tokens", _measured("trained", "mean_tokens"), number(".1f"),
                "Tokens are of the trained model's completions.",
                rows=of_samples("trained", lambda sample: sample["tokens"]))  # fmt: skip
START_OF = {TRAINED.name: CORRECT_BEFORE, REWARD.name: REWARDED_BEFORE, PAIRS_TRAINED.name: RIGHT_BEFORE}
"""Where a figure has one: the same of the start model."""

ACCURACIES = (BASELINE, TRAINED, DIFFERENCE, PAIRS_BASELINE, PAIRS_TRAINED, PAIRS_DIFFERENCE)
SIDES, PAIRS_SIDES = (BASELINE, TRAINED), (PAIRS_BASELINE, PAIRS_TRAINED)
MEASURED = (*ACCURACIES, IMPLICIT, WIN_RATE, REWARD, TOKENS, KL)
"""Of one run, and over seeds."""

SHORT = (TRAINED, DIFFERENCE, PAIRS_TRAINED, PAIRS_DIFFERENCE, WIN_RATE, REWARD, KL)
"""Those for which a terminal has room."""

OUTCOME = (
    *ACCURACIES,
    *(Column(name, _measured("trained", "counts", name, scorer=False), number(".1f"), rows=_no_rows)
      for name in OUTCOMES),
    TOKENS,
    Column("budget used", _measured("trained", "utilisation"), percent,
           "Correct, partial and failed count held-out completions.", rows=_no_rows),
)  # fmt: skip
REWARDS = (
    *(TRAINED, WIN_RATE, REWARD),
    Column("reward std", _measured("trained", "reward", "std"), number(".3f"), rows=_no_rows),
    KL,
    Column(
        "KL std",
        _measured("trained", "kl", "std"),
        number(".2f"),
        "Std: over the held-out rows of a run.",
        rows=_no_rows,
    ),
)
SECONDS = ("work.step_seconds", "seconds.train")
"""Run folders without `work` have only the seconds of the whole phase."""

TRAINED_TOKENS = Column("trained tokens", _cost("work.trained_tokens"), number(",.0f"),
                        "Trained tokens went forward and backward through the policy, prompt and completion, each epoch"
                        " and each side of a pair again.")  # fmt: skip
COST = (
    Column("updates", _cost("steps"), number(".0f"), "An update is an optimizer step."),
    TRAINED_TOKENS,
    Column("sampled tokens", _cost("completion_tokens"), number(",.0f"),
           "Sampled tokens are of completions drawn during training, without those that were drawn before it."),
    Column("training, s", _cost(*SECONDS), number(".0f")),
    Column("s per update", _cost(*SECONDS, per_update=True), number(".2f")),
    Column("memory, MB", _cost("phase_memory_mb.train", "peak_memory_mb"), number(",.0f"),
           "Memory is the peak while training."),
)  # fmt: skip
PASSES = tuple(
    Column(name, _cost(f"work.{key}", per_update=True), number(spec), note)
    for name, key, spec, note in (
        ("completions", "completions", ".1f", "All per update. Completions are those that sampling began."),
        ("policy, trained", "train_passes", ".1f",
         "Passes are whole sequences through a network: the policy with gradient (trained) and without (scored), a"
         " separate reference and critic (a critic on the policy's hidden states needs none; dpo scores its reference"
         " once, before training)."),
        ("policy, scored", "score_passes", ".1f", ""),
        ("reference", "reference_passes", ".1f", ""),
        ("critic", "critic_passes", ".1f", ""),
        ("decoding", "decode_passes", ",.0f", "Decoding: passes of the policy for one token of one sequence."),
    )
)  # fmt: skip


def read_start(run: Run, column: Column) -> Interval | None:
    """The same figure for the start model instead of the trained model (its KL to itself is 0)."""
    return column.read(replace(run, evaluation={"trained": run.evaluation.get("baseline", {})}))


def list_columns(runs: list[Run], columns: tuple[Column, ...] = MEASURED) -> list[Column]:
    """The columns for which some of these runs have a figure."""
    return [column for column in columns if any(column.read(run) for run in runs)]


def mean_over_seeds(group: list[Run], column: Column) -> Interval | None:
    """The mean over a group's runs. A figure of held-out rows has an interval over seeds, rows and sampling, if every
    run holds it for each row; a cost has a t interval over seeds; one seed has none. The start model, measured once for
    all of them, keeps the interval over its held-out rows."""
    kept = [(run, figure) for run in group if (figure := column.read(run))]
    if not kept:
        return None
    runs, figures = zip(*kept, strict=True)
    if column in (BASELINE, PAIRS_BASELINE) and all(figure == figures[0] for figure in figures):
        return figures[0]
    values = [figure["value"] for figure in figures]
    if column.rows is None or len(runs) == 1 or None in values:
        return mean_interval([value for value in values if value is not None] or [float("nan")])
    rows = align(list(runs), column.rows)
    return exact(sum(values) / len(values)) if rows is None else crossed_interval(rows, column.kind)


def lacks_rows(group: list[Run], columns: Iterable[Column]) -> bool:
    """Whether a mean over these runs has no interval, because one of them does not hold the figure of each row."""
    sought = [column for column in columns if column.rows not in (None, _no_rows)]
    kept = [(column.rows, [run for run in group if column.read(run)]) for column in sought]
    return any(len(runs) > 1 and align(runs, rows) is None for rows, runs in kept)
