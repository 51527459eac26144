"""The held-out figures of a run as one table: a row for each held-out row, a column for each figure of each model.

    table = tabulate(run)
    table["trained", "accuracy"]                 # by the row's id: the mean over its sampled completions
    table["gain", "accuracy"]                    # trained minus baseline
    stack([run, run, run], "trained", "accuracy")    # (runs, rows), on the rows that all of them have

Of a policy the figures are those of `measure`, and the user's own rewards; a reward model has the accuracy alone.
`implicit` is the accuracy of a policy's implicit reward on held-out pairs, `win rate` how often the trained model's
reward is above the start model's. A model that a run did not measure, or a figure that one of its completions lacks,
has no column. The best sampling baseline of each family is a model too.
"""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from rlhf_exp.runs.load import Run
from rlhf_exp.runs.records import SIDES, Completion

FEWEST = 2
"""Rows that runs must share for an interval."""

_tables: WeakKeyDictionary[Run, pd.DataFrame] = WeakKeyDictionary()


def tabulate(run: Run) -> pd.DataFrame:
    """(held-out rows, figures of each model): the columns are pairs of a model, or `gain`, and a figure."""
    if run not in _tables:
        _tables[run] = _tabulate(run)
    return _tables[run]


def measure(completion: Completion, max_tokens: int) -> dict[str, float | bool | None]:
    """The figures of one completion; None for what was not graded or rewarded."""
    outcome = completion.outcome
    return {
        "accuracy": None if outcome is None else completion.is_correct,
        "partial answers": None if outcome is None else outcome == "partial",
        "failed answers": None if outcome is None else outcome == "failed",
        "lenient accuracy": completion.lenient,
        "reward": completion.reward,
        "truncation": completion.truncated,
        "tokens": completion.tokens,
        "budget used": completion.tokens / max_tokens,
        "KL": completion.kl,
        "KL to the teacher": completion.kl_teacher,
    }


def list_own(run: Run) -> dict[str, str]:
    """The user's own rewards by the names of their figures."""
    functions = run.config.get("reward", {}).get("functions") or {}
    return {f"{name} reward": name for name in functions}


def read(run: Run, model: str, figure: str) -> pd.Series | None:
    """The figure of each held-out row by the row's id; None if the run does not have it. Where nothing is trained, the
    trained model is the start model."""
    table = tabulate(run)
    model = model if run.trains or model != "trained" else "baseline"
    return table[model, figure].dropna() if (model, figure) in table else None


def stack(runs: Sequence[Run], model: str, figure: str) -> np.ndarray | None:
    """(runs, rows): a figure on the rows that all runs have; None if these are fewer than FEWEST."""
    return join([read(run, model, figure) for run in runs])


def stack_settings(settings: dict[str, list[Run]], model: str, figure: str) -> dict[str, np.ndarray]:
    """(runs, rows) of each setting, on the rows that all runs have; without settings of one run, or of which a run
    lacks the figure. Empty if the rows are fewer than FEWEST."""
    figures = {label: [read(run, model, figure) for run in runs] for label, runs in settings.items()}
    whole = {label: of for label, of in figures.items() if len(of) > 1 and not any(one is None for one in of)}
    joined = join([one for of in whole.values() for one in of])
    if joined is None:
        return {}
    ends = np.cumsum([len(of) for of in whole.values()])[:-1]
    return dict(zip(whole, np.split(joined, ends), strict=True))


def join(figures: Sequence[pd.Series | None]) -> np.ndarray | None:
    """(figures, rows): as `stack`, of figures that were read."""
    known = [figure for figure in figures if figure is not None]
    if not known or len(known) < len(figures):
        return None
    shared = pd.concat(known, axis="columns", join="inner")
    return shared.to_numpy().T if len(shared) >= FEWEST else None


def _tabulate(run: Run) -> pd.DataFrame:
    models = _average_completions(run) if run.samples else {}
    figure = "accuracy" if run.trains_scorer else "implicit"
    for model in SIDES:
        pairs = [pair for pair in run.preferences if pair.which == model]
        if pairs:
            right = pd.Series([pair.is_right for pair in pairs], index=[pair.id for pair in pairs], name=figure)
            others = models.get(model, pd.DataFrame())
            models[model] = others.join(right.groupby(level=0, sort=False).mean(), how="outer")
    if {*SIDES} <= models.keys():
        models["gain"] = models["trained"] - models["baseline"]
        if "reward" in models["gain"]:
            models["trained"] = models["trained"].assign(**{"reward gain": models["gain"]["reward"]})
    for policy in run.policies:
        models[policy.family] = pd.DataFrame({"accuracy": policy.accuracy}, index=policy.id)
    return pd.concat(models, axis="columns") if models else pd.DataFrame()


def _average_completions(run: Run) -> dict[str, pd.DataFrame]:
    """The figures of each model that the run sampled from, by row."""
    sampled = [one for one in run.samples if one.decoding == "sampled"]
    own = list_own(run)
    figures = [measure(one, run.info.max_tokens or 1) | {figure: one.rewards.get(name) for figure, name in own.items()}
               for one in sampled]  # fmt: skip
    each = pd.DataFrame(figures).astype(float)
    each.index = pd.MultiIndex.from_tuples([(one.which, one.id, one.sample) for one in sampled],
                                           names=["model", "id", "sample"])  # fmt: skip
    models = {}
    for model, table in each.groupby("model", sort=False):
        models[str(model)] = table.dropna(axis="columns").groupby("id", sort=False).mean()
    if all("reward" in models.get(side, ()) for side in SIDES):
        rewards = each["reward"].groupby(["model", "id", "sample"], sort=False).last().unstack("model").dropna()
        won = (np.sign(rewards["trained"] - rewards["baseline"]) + 1) / 2  # of the i-th completions; a tie is one half
        models["trained"]["win rate"] = won.groupby("id", sort=False).mean()
    return models
