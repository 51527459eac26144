"""The figures that a comparison of runs has a column for.

TRAINED.read(run)  ->  {"value": 0.38, "low": 0.34, "high": 0.43}, or None
mean_over_seeds([run, run, run], TRAINED)
"""

from collections.abc import Callable
from dataclasses import replace

from rlhf_exp.report.summary import OUTCOMES
from rlhf_exp.report.tables import Column, at, number, percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import Interval, exact, mean_interval


def _measured(*key: str, scorer: bool | None = None) -> Callable[[Run], Interval | None]:
    """Reads a figure of a run that was measured to the end: with `scorer` only of runs that train a reward model, or
    only of all others. A reward model's accuracy is of pairs, where chance is a half, and its rewards have no zero."""

    def read(run: Run) -> Interval | None:
        if "trained" not in run.evaluation or scorer not in (None, run.trains_scorer):
            return None
        found = at(*key)(run.evaluation)
        return exact(found) if isinstance(found, int | float) else found or None

    return read


def _cost(read: Callable[[Run], float | None]) -> Callable[[Run], Interval | None]:
    """Of a run that trained: a plain figure, from run.json."""

    def read_cost(run: Run) -> Interval | None:
        value = read(run) if run.info.get("steps") else None
        return None if value is None else exact(value)

    return read_cost


def _step_seconds(run: Run) -> float | None:
    """Folders without `work` know only the whole phase."""
    return run.info.get("work", {}).get("step_seconds", run.info.get("seconds", {}).get("train"))


def _training_memory(run: Run) -> float | None:
    return run.info.get("phase_memory_mb", {}).get("train", run.info.get("peak_memory_mb"))


def _per_update(name: str) -> Callable[[Run], Interval | None]:
    return _cost(lambda run: run.info["work"][name] / run.info["steps"] if "work" in run.info else None)


TRAINED = Column("trained", _measured("trained", "accuracy", scorer=False), percent)
REWARD = Column("reward", _measured("trained", "reward", "mean", scorer=False), number(".3f"),
                "Rewards are of the trained model, and comparable only under the same reward.")  # fmt: skip
KL = Column("KL", _measured("trained", "kl", "mean"), number(".2f"),
            "KL is the trained model's to its start, exact, at temperature 1, in nats per completion.")  # fmt: skip
BASELINE = Column("baseline", _measured("baseline", "accuracy", scorer=False), percent)
DIFFERENCE = Column("difference", _measured("paired", "difference", scorer=False), points,
                    "Baseline and trained are held-out accuracies, the difference is in points.")  # fmt: skip
PAIRS_BASELINE = Column("pairs, baseline", _measured("baseline", "accuracy", scorer=True), percent,
                        "Pairs: share of held-out pairs whose chosen answer a reward model puts first.")  # fmt: skip
PAIRS_TRAINED = Column("pairs, trained", _measured("trained", "accuracy", scorer=True), percent)
PAIRS_DIFFERENCE = Column("pairs, difference", _measured("paired", "difference", scorer=True), points)
IMPLICIT = Column("implicit", _measured("trained", "preference", "accuracy"), percent,
                  "Implicit: share of held-out pairs whose chosen answer the policy's implicit reward puts"
                  " first.")  # fmt: skip
WIN_RATE = Column("win rate", _measured("paired", "win_rate"), percent,
                  "Win rate: how often the trained model's reward is above the start model's on the same row; a tie is"
                  " half a win.")  # fmt: skip
TOKENS = Column("tokens", _measured("trained", "mean_tokens"), number(".1f"),
                "Tokens are of the trained model's completions.")  # fmt: skip

ACCURACIES = (BASELINE, TRAINED, DIFFERENCE, PAIRS_BASELINE, PAIRS_TRAINED, PAIRS_DIFFERENCE)
MEASURED = (*ACCURACIES, IMPLICIT, WIN_RATE, REWARD, TOKENS, KL)
"""Of one run, and over seeds."""

OUTCOME = (
    *ACCURACIES,
    *(Column(name, _measured("trained", "counts", name, scorer=False), number(".1f")) for name in OUTCOMES),
    TOKENS,
    Column("budget used", _measured("trained", "utilisation"), percent,
           "Correct, partial and failed count held-out completions."),
)  # fmt: skip
REWARDS = (
    *(TRAINED, WIN_RATE, REWARD),
    Column("reward std", _measured("trained", "reward", "std"), number(".3f")),
    KL,
    Column("KL std", _measured("trained", "kl", "std"), number(".2f"), "Std: over the held-out rows of a run."),
)
COST = (
    Column("updates", _cost(lambda run: run.info["steps"]), number(".0f"), "An update is an optimizer step."),
    Column("trained tokens", _cost(lambda run: at("work", "trained_tokens")(run.info)), number(",.0f"),
           "Trained tokens went forward and backward through the policy, prompt and completion, each epoch and each"
           " side of a pair again."),
    Column("sampled tokens", _cost(lambda run: run.info.get("completion_tokens")), number(",.0f"),
           "Sampled tokens are of completions drawn during training, without those that were drawn before it."),
    Column("training, s", _cost(_step_seconds), number(".0f")),
    Column("s per update", _cost(lambda run: (_step_seconds(run) or 0) / run.info["steps"]), number(".2f")),
    Column("memory, MB", _cost(_training_memory), number(",.0f"),
           "Memory is the peak while training."),
)  # fmt: skip
PASSES = (
    Column("completions", _per_update("completions"), number(".1f"),
           "All per update. Completions are those that sampling began."),
    Column("policy, trained", _per_update("train_passes"), number(".1f"),
           "Passes are sequences through a network from end to end: the policy with gradient and without, and networks"
           " of their own (a critic on the policy's hidden states needs none; dpo scores its reference once, before"
           " training)."),
    Column("policy, scored", _per_update("score_passes"), number(".1f")),
    Column("reference", _per_update("reference_passes"), number(".1f")),
    Column("critic", _per_update("critic_passes"), number(".1f")),
    Column("decoding", _per_update("decode_passes"), number(",.0f"),
           "Decoding: passes of the policy for one token of one sequence."),
)  # fmt: skip


def read_start(run: Run, column: Column) -> Interval | None:
    """A figure of the trained model, read of the start model instead (its KL to itself is 0)."""
    return column.read(replace(run, evaluation={"trained": run.evaluation.get("baseline", {})}))


def list_columns(runs: list[Run], columns: tuple[Column, ...] = MEASURED) -> list[Column]:
    """The figures that some of these runs have."""
    return [column for column in columns if any(column.read(run) for run in runs)]


def mean_over_seeds(group: list[Run], column: Column) -> Interval | None:
    """The mean over a group's runs with a t interval. The start model, measured once for all of them, keeps the
    interval over its held-out rows."""
    found = [figure for run in group if (figure := column.read(run))]
    if column in (BASELINE, PAIRS_BASELINE) and found and all(figure == found[0] for figure in found):
        return found[0]
    return mean_interval([figure["value"] for figure in found]) if found else None
