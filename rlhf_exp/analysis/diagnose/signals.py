"""What the rules read from a run, and the overrides that they can propose as remedies.

run = Signals(metrics, evaluation, config)
run.series("completions/distinct_2|evaluation")     # the first of the names that the run has
run.rise("reward", of=math.log)                     # a running score: the recent median less that of the start
run.measured("trained/accuracy")                    # {"value": 0.3, "low": 0.2, "high": 0.4}, of evaluation.json
run.set_arg("beta", 0.1)                            # "algo.args.beta=0.1"
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from rlhf_exp.algorithms import ALGORITHMS, Algorithm

Series = list[tuple[int, float]]
"""(step, value), in order of steps, finite values only."""
Course = Sequence[tuple[int | None, float]]
"""(step, score): how sick the run looks at each step, from the steps up to it; None for held-out rows."""

START_ROWS, LEAST_ROWS = 3, 5
"""A run's start is the median of its first rows; a course begins when there are some more."""
MEDIAN = 1.25
"""How much larger the error of a median is than that of a mean."""
MEAN_DISTANCE = math.sqrt(2 / math.pi)
"""Of a standard normal variable from 0."""


@dataclass(frozen=True)
class Signals:
    """After a crash, rows of `metrics` and `evaluation` may lack any key."""

    metrics: list[dict[str, Any]]
    evaluation: dict[str, Any]
    config: dict[str, Any]
    room: int | None = None
    samples: list[dict[str, Any]] = field(default_factory=list)

    @property
    def algorithm(self) -> Algorithm:
        return ALGORITHMS[self.config["algo"]["name"]]

    @property
    def last_step(self) -> int:
        return self.metrics[-1]["step"] if self.metrics else 0

    def series(self, names: str) -> Series:
        """The first of the series a|b|c that is long enough for a course; else the longest."""
        found: Series = []
        for name in names.split("|"):
            rows = [(row["step"], row[name]) for row in self.metrics if row.get(name) is not None]
            found = max(found, [(step, value) for step, value in rows if math.isfinite(value)], key=len)
            if len(found) >= LEAST_ROWS:
                break
        return found

    def measured(self, path: str) -> dict[str, Any] | None:
        """A figure of evaluation.json with its interval; None if it has none, as that of a single row."""
        found: Any = self.evaluation
        for name in path.split("/"):
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) and None not in (found.get("value"), found.get("low")) else None

    def has(self, need: str) -> bool:
        """Whether there is what a rule needs: a series long enough for a course, or evaluation/PATH."""
        kind, _, path = need.partition("/")
        if kind == "evaluation":
            return self.measured(path) is not None
        return len(self.series(need)) >= LEAST_ROWS

    def rise(self, names: str, of: Callable[[float], float] = float, sign: int = 1, window: int = 0) -> Course:
        """At each step how far the recent rows' median of `of(value)` is above that of the start; below it for sign -1.

        Args:
            window: how many rows are recent; 0 for a quarter of those so far. No single row moves a median.
        """
        course = recent([(step, of(value)) for step, value in self.series(names)], window)
        start = median(of(value) for _, value in self.series(names)[:START_ROWS]) if course else 0.0
        return [(step, sign * (value - start)) for step, value in course]

    def read(self, path: str) -> float:
        """The value of a figure of evaluation.json that a rule needs."""
        return (self.measured(path) or {})["value"]

    def errors_above(self, path: str, level: float = 0.0) -> float:
        """How many of its standard errors a measured figure is above the level."""
        of = self.measured(path) or {}
        return (of["value"] - level) / max((of["high"] - of["low"]) / 3.92, 1e-3)

    def sure(self, names: str, of: Callable[[float], float] = float, sign: int = 1) -> Course:
        """`rise`, as far as it is sure: at most a sixth of its standard errors, which come from the mean jump between
        the rows so far. So neither the noise of few completions nor a small trend of many scores high."""
        series = [(step, of(value)) for step, value in self.series(names)]
        way, errors = 0.0, dict[int | None, float]()
        for i, ((_, before), (step, after)) in enumerate(pairwise(series), 1):
            way += abs(after - before)
            row = way / i * math.sqrt(math.pi) / 2
            errors[step] = MEDIAN * row * math.sqrt(1 / START_ROWS + 1 / max(3, (i + 1) // 4))
        return [(step, min(rise, rise / max(6 * errors[step], 1e-9))) for step, rise in self.rise(names, of, sign)]

    @cached_property
    def errors_per_angle(self) -> dict[int, float]:
        """At each step how many standard errors of a difference between two rows a change of the correct share by 1, by
        `angle`, is: from the mean jump between the rows so far, since the completions of a group are alike; at most as
        many as if they were independent."""
        completions = self.arg("per_device_train_batch_size", 8) * self.arg("gradient_accumulation_steps", 1)
        way, found = 1e-3, {}
        for rows, ((_, before), (step, share)) in enumerate(pairwise(self.series("outcome/correct")), 1):
            way += abs(angle(share) - angle(before))
            found[step] = min(math.sqrt(completions / 2), MEAN_DISTANCE * rows / way)
        return found

    def fall_in_errors(self) -> Series:
        """How many standard errors validation accuracy is below that of the start, at each later measurement."""
        rows, series = self.config.get("eval", {}).get("every_rows"), self.series("validation/accuracy")
        if not rows or not series or series[0][0] != 0:
            return []
        error = math.sqrt(2 / rows)
        return [(step, (angle(series[0][1]) - angle(value)) / error) for step, value in series[1:]]

    def late(self, course: Course) -> Course:
        """The second half of a course, by the planned number of steps, without which it is the whole."""
        return [(step, score) for step, score in course if step is not None and 2 * step >= self.planned_steps]

    @cached_property
    def planned_steps(self) -> float:
        """`max_steps`, or those until the budget of tokens is spent, if they are fewer; 0 or less is an unknown
        number."""
        steps, budget, used = self.arg("max_steps", 0), self.config.get("train_tokens"), self.series("trained_tokens")
        if budget is None or not used or not used[-1][1]:
            return steps
        step, tokens = used[-1]
        spent = (step or 0) * budget / tokens
        return min(steps, spent) if steps > 0 else spent

    @cached_property
    def spread(self) -> float:
        """The standard deviation of the reward at the start, a unit for its changes."""
        stds = [value for _, value in self.series("reward_std")[:START_ROWS]]
        return max(median(stds), 1e-3) if stds else 1.0

    def tell(self, name: str, at: int | None = None) -> str:
        """reward 0.25 -> 0.5: medians of the first and of the last rows.

        Args:
            at: a step to which they say little, as that of a spike: the farthest value from the start among the rows
                before it is told too, if it is twice as far as the last ones.
        """
        series = self.series(name)
        start, after = median(value for _, value in series[:START_ROWS]), median(v for _, v in _last(series))
        text = f"{name} {start:.3g} -> {after:.3g}"
        until = [(step, value) for step, value in series if at is not None and step <= at]
        step, most = max(_last(until), key=lambda point: abs(point[1] - start), default=(0, start))
        hidden = abs(most - start) > max(2 * abs(after - start), 0.1 * abs(start))
        return f"{text}, {most:.3g} at step {step}" if hidden else text

    def show(self, of: Callable[[dict[str, Any]], bool]) -> list[str]:
        """Ids of the trained model's samples for which `of` holds, those with the highest reward first."""
        found = [row for row in self.samples if row.get("which") == "trained" and of(row)]
        return [str(row["id"]) for row in sorted(found, key=lambda row: -(row.get("reward") or 0.0))[:3]]

    @property
    def weights(self) -> dict[str, float]:
        """The rewards that are summed, by name."""
        return {name: weight for name, weight in (self.config.get("reward", {}).get("weights") or {}).items() if weight}

    @property
    def is_control(self) -> bool:
        """Whether the reward is one from which nothing can be learned."""
        return bool(self.weights) and set(self.weights) <= {"constant", "random"}

    def arg(self, name: str, default: float) -> float:
        """One of TRL's own arguments; `default` if the config leaves it to TRL."""
        value = self.config["algo"]["args"].get(name)
        return default if value is None else value

    @property
    def learning_rate(self) -> float:
        return self.arg("learning_rate", 1e-6)

    @property
    def kl_price(self) -> tuple[str, float]:
        """Name and value of what multiplies the KL to the reference: PPO's own key, or TRL's `beta`."""
        if "init_kl_coef" in self.config["algo"]:
            return "init_kl_coef", self.config["algo"]["init_kl_coef"]
        return "beta", self.arg("beta", 0.0)

    @property
    def rate_text(self) -> str:
        """learning rate 0.001; without the figure where another tool's log does not have it."""
        rate = self.config["algo"]["args"].get("learning_rate")
        return "learning rate" if rate is None else f"learning rate {rate:g}"

    @property
    def price_text(self) -> str:
        """Likewise `beta 0.05` or `init_kl_coef 0.015`."""
        (name, price), known = self.kl_price, self.config["algo"]["args"] | self.config["algo"]
        return name if known.get(name) is None else f"{name} {price:g}"

    @property
    def whole_steps(self) -> int:
        """Of the whole training, of which the last row that was logged may come before the end."""
        return max(self.last_step, int(self.planned_steps))

    def set_arg(self, name: str, value: float) -> str:
        """The override for one of TRL's own arguments; Hydra needs a + if the config does not have it."""
        new = "" if name in self.config["algo"]["args"] else "+"
        return f"{new}algo.args.{name}={value if isinstance(value, int) else f'{value:g}'}"

    @property
    def usual_rate(self) -> float | None:
        """The default learning rate of this algorithm for a model of this size."""
        rates = (self.config.get("model") or {}).get("learning_rate") or {}
        return rates.get(self.config["algo"]["name"]) if isinstance(rates, dict) else None

    def lower_rate(self, factor: float) -> str:
        """An override for this run's rate over the factor; advice.py gives the usual rate instead to a run far from
        it."""
        return self.set_arg("learning_rate", self.learning_rate / factor)

    def hold_policy(self) -> list[str]:
        """Overrides that keep the policy closer to its initial weights: a lower KL target or a higher price of the KL,
        or else a lower learning rate."""
        name, price = self.kl_price
        target = self.config["algo"].get("target_kl")
        if name == "beta":
            hold = self.set_arg(name, max(2 * price, 0.05))
        elif target is None:
            hold = f"algo.{name}={max(2 * price, 0.05):g}"
        else:
            hold = f"algo.target_kl={target / 2:g}"
        return [hold, self.lower_rate(2)]

    def raise_entropy(self) -> list[str]:
        return [self.set_arg("entropy_coef", max(2 * self.arg("entropy_coef", 0.0), 0.01)), self.lower_rate(2)]

    def scale_length(self, factor: float) -> list[str]:
        """Overrides that make training `factor` times as long as the run was, by changing what ends it."""
        found, steps = [], self.whole_steps if factor > 1 else self.last_step
        if (tokens := self.config.get("train_tokens")) is not None:
            found.append(f"train_tokens={max(1, round(factor * tokens))}")
        if self.arg("max_steps", 1) <= 0:
            found.append(self.set_arg("num_train_epochs", factor * self.arg("num_train_epochs", 3.0)))
        return [*found, self.set_arg("max_steps", max(1, round(factor * steps)))]


def recent(series: Series, window: int = 0, least: int = 3) -> Series:
    """At each row from LEAST_ROWS on the median of the last `window` rows up to it; of a quarter of them for 0, and of
    at least `least`."""
    found, values = [], [value for _, value in series]
    for i in range(LEAST_ROWS - 1, len(series)):
        rows = max(least, window or (i + 1) // 4)
        found.append((series[i][0], median(values[max(0, i + 1 - rows) : i + 1])))
    return found


def combine(how: Callable[..., float], *courses: Course) -> Course:
    """One score per step that all courses have: min where all signs are needed."""
    maps = [dict(course) for course in courses]
    return [(step, how(*(found[step] for found in maps))) for step in maps[0] if all(step in found for found in maps)]


def worst(*courses: Course) -> Course:
    """The largest of the courses at each step that any has."""
    found: dict[int, float] = {}
    for step, score in (point for course in courses for point in course):
        found[step or 0] = max(score, found.get(step or 0, -math.inf))
    return sorted(found.items())


def angle(share: float) -> float:
    """A share on Cohen's scale, 2 asin(sqrt(p)), on which the error of a share is the same everywhere."""
    return 2 * math.asin(math.sqrt(min(max(share, 0.0), 1.0)))


def soften(z: float) -> float:
    """log(1 + exp(z)): near 0 for a z below 0, which says nothing, and z above it."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


def log(value: float) -> float:
    return math.log(max(value, 1e-8))


def _last(series: Series) -> Series:
    return series[-max(START_ROWS, len(series) // 4) :]


def last_quarter(series: Series) -> Series:
    return series[-max(1, len(series) // 4) :]


def mean(series: Series) -> float:
    return fmean(value for _, value in series)
