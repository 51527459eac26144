"""The figures that a comparison of runs has a column for, each with how it is read, written and explained.

TRAINED.read(run)  ->  {"value": 0.38, "low": 0.34, "high": 0.43}, or None
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from rlhf_exp.report.summary import OUTCOMES
from rlhf_exp.report.tables import number, percent, points
from rlhf_exp.runs.load import Run
from rlhf_exp.stats import Interval, mean_interval


class Column(NamedTuple):
    """One figure of a run: where it stands, how it is written, and what it is."""

    name: str
    read: Callable[[Run], Interval | None]
    write: Callable[[Interval | None], str]
    note: str = ""


def _at(*key: str, of: str = "evaluation") -> Callable[[Run], Interval | None]:
    """Reads a figure, plain or with its interval, of a run that was measured to the end."""

    def read(run: Run) -> Interval | None:
        found: Any = getattr(run, of) if "trained" in run.evaluation else {}
        for name in key:
            found = found.get(name, {})
        if isinstance(found, int | float):
            return {"value": float(found), "low": None, "high": None}
        return found or None

    return read


def _of_task(*key: str) -> Callable[[Run], Interval | None]:
    """An accuracy on a task. A reward model's is of pairs, where chance is a half: it has columns of its own."""
    return lambda run: None if run.info.get("algo") == "reward_model" else _at(*key)(run)


def _of_pairs(*key: str) -> Callable[[Run], Interval | None]:
    return lambda run: _at(*key)(run) if run.info.get("algo") == "reward_model" else None


def _reward(run: Run) -> Interval | None:
    """A reward model's own mean reward has no zero to compare from."""
    return None if run.info.get("algo") == "reward_model" else _at("trained", "reward", "mean")(run)


def _cost(read: Callable[[Run], float | None]) -> Callable[[Run], Interval | None]:
    """Of a run that trained: a plain figure, from run.json."""

    def read_cost(run: Run) -> Interval | None:
        value = read(run) if run.info.get("steps") else None
        return None if value is None else {"value": float(value), "low": None, "high": None}

    return read_cost


def _step_seconds(run: Run) -> float | None:
    """Folders without `work` know only the whole phase."""
    return run.info.get("work", {}).get("step_seconds", run.info.get("seconds", {}).get("train"))


def _per_update(name: str) -> Callable[[Run], Interval | None]:
    return _cost(lambda run: run.info["work"][name] / run.info["steps"] if "work" in run.info else None)


def _memory(run: Run) -> float | None:
    return run.info.get("phase_memory_mb", {}).get("train", run.info.get("peak_memory_mb"))


def _count(spec: str) -> Callable[[Interval | None], str]:
    return lambda interval: number(interval, spec)


TRAINED = Column("trained", _of_task("trained", "accuracy"), percent)
REWARD = Column("reward", _reward, _count(".3f"),
                "Rewards are of the trained model, and comparable only under the same reward.")  # fmt: skip
REWARD_STD = Column("reward std", _at("trained", "reward", "std"), _count(".3f"), "")
KL = Column("KL", _at("trained", "kl", "mean"), _count(".2f"),
            "KL is the trained model's to its start, exact, at temperature 1, in nats per completion.")  # fmt: skip
KL_STD = Column("KL std", _at("trained", "kl", "std"), _count(".2f"), "Std: over the held-out rows of a run.")
BASELINE = Column("baseline", _of_task("baseline", "accuracy"), percent)
DIFFERENCE = Column("difference", _of_task("paired", "difference"), points,
                    "Baseline and trained are held-out accuracies, the difference is in points.")  # fmt: skip
PAIRS_BASELINE = Column("pairs, baseline", _of_pairs("baseline", "accuracy"), percent,
                        "Pairs: share of held-out pairs whose chosen answer a reward model puts first.")  # fmt: skip
PAIRS_TRAINED = Column("pairs, trained", _of_pairs("trained", "accuracy"), percent)
PAIRS_DIFFERENCE = Column("pairs, difference", _of_pairs("paired", "difference"), points)
IMPLICIT = Column("implicit", _at("trained", "preference", "accuracy"), percent,
                  "Implicit: share of held-out pairs whose chosen answer the policy's implicit reward puts"
                  " first.")  # fmt: skip
WIN_RATE = Column("win rate", _at("paired", "win_rate"), percent,
                  "Win rate: how often the trained model's reward is above the start model's on the same"
                  " row.")  # fmt: skip
TOKENS = Column("tokens", _at("trained", "mean_tokens"), _count(".1f"),
                "Tokens are of the trained model's completions.")  # fmt: skip
USED = Column("budget used", _at("trained", "utilisation"), percent)

MEASURED = (
    *(BASELINE, TRAINED, DIFFERENCE, PAIRS_BASELINE, PAIRS_TRAINED, PAIRS_DIFFERENCE, IMPLICIT),
    *(WIN_RATE, REWARD, TOKENS, KL),
)
"""Of one run, and over seeds."""

OUTCOME = (
    BASELINE,
    TRAINED,
    DIFFERENCE,
    *(PAIRS_BASELINE, PAIRS_TRAINED, PAIRS_DIFFERENCE),
    *(Column(name, _of_task("trained", "counts", name), _count(".1f")) for name in OUTCOMES),
    TOKENS,
    USED,
)
REWARDS = (TRAINED, WIN_RATE, REWARD, REWARD_STD, KL, KL_STD)
COST = (
    Column("updates", _cost(lambda run: run.info["steps"]), _count(".0f"), "An update is an optimizer step."),
    Column("trained tokens", _cost(lambda run: run.info.get("work", {}).get("trained_tokens")), _count(",.0f"),
           "Trained tokens went forward and backward through the policy, prompt and completion, each epoch and each"
           " side of a pair again."),
    Column("sampled tokens", _cost(lambda run: run.info.get("completion_tokens")), _count(",.0f"),
           "Sampled tokens are of completions that training drew; what was sampled before it is not among them."),
    Column("training, s", _cost(_step_seconds), _count(".0f")),
    Column("s per update", _cost(lambda run: (_step_seconds(run) or 0) / run.info["steps"]), _count(".2f")),
    Column("memory, MB", _cost(_memory), _count(",.0f"), "Memory is the peak while training."),
)  # fmt: skip
PASSES = (
    Column("completions", _per_update("completions"), _count(".1f"),
           "All per update. Completions are those that sampling began."),
    Column("policy, trained", _per_update("train_passes"), _count(".1f"),
           "Passes are sequences through a network from end to end: the policy with gradient and without, and networks"
           " of their own (a critic on the policy's hidden states needs none; dpo scores its reference once, before"
           " training)."),
    Column("policy, scored", _per_update("score_passes"), _count(".1f")),
    Column("reference", _per_update("reference_passes"), _count(".1f")),
    Column("critic", _per_update("critic_passes"), _count(".1f")),
    Column("decoding", _per_update("decode_passes"), _count(",.0f"),
           "Decoding: passes of the policy for one token of one sequence."),
)  # fmt: skip


def read_start(run: Run, column: Column) -> Interval | None:
    """A column that is of the trained model, read of the start model instead; its KL to itself is 0."""
    alike = replace(
        run, info={"algo": run.info.get("algo")}, evaluation={"trained": run.evaluation.get("baseline", {})}
    )
    return column.read(alike)


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
