"""What the rules read from a run, and the overrides that they can propose as remedies.

run = Signals(metrics, evaluation, config)
run.series("completions/distinct_2|evaluation")     # the first of the names that the run has
run.rise("reward", of=math.log)                     # a running score: the recent median less that of the start
run.measured("trained/accuracy")                    # {"value": 0.3, "low": 0.2, "high": 0.4}, of evaluation.json
run.setting("eval.every_rows")                      # a key of the config; None if it is not set
run.set_arg("beta", 0.1)                            # "algo.args.beta=0.1"
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Any, TypedDict

from rlhf_exp.algorithms import ALGORITHMS, Algorithm
from rlhf_exp.analysis.diagnose.courses import LEAST_ROWS, START_ROWS, Course, Series, angle, last_quarter, recent
from rlhf_exp.runs.records import Completion, Evaluation, MetricRows, Paired, Section
from rlhf_exp.runs.settings import PlainConfig, read_key

MEDIAN = 1.25
"""How much larger the error of a median is than that of a mean."""
MEAN_DISTANCE = math.sqrt(2 / math.pi)
"""Of a standard normal variable from 0."""


class Figure(TypedDict):
    """A figure that has an interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Signals:
    """After a crash, rows of `metrics` and `evaluation` may lack any figure."""

    metrics: MetricRows
    evaluation: Evaluation
    config: PlainConfig
    room: int | None = None
    samples: Sequence[Completion] = ()

    # What was measured

    @property
    def last_step(self) -> int:
        return self.metrics[-1]["step"] if self.metrics else 0

    def series(self, names: str) -> Series:
        """The first of the series a|b|c that is long enough for a course; else the longest."""
        longest: Series = []
        for name in names.split("|"):
            points = [(row["step"], row[name]) for row in self.metrics if row.get(name) is not None]
            longest = max(longest, [(step, value) for step, value in points if math.isfinite(value)], key=len)
            if len(longest) >= LEAST_ROWS:
                break
        return longest

    def measured(self, path: str) -> Figure | None:
        """A figure of evaluation.json; None if it was not measured or has no interval, as that of a single row."""
        figure: Any = self.evaluation
        for name in path.split("/"):
            figure = getattr(figure, name, None)
        return figure if figure is not None and figure["low"] is not None else None

    def read(self, path: str) -> Figure:
        """A figure of evaluation.json that the rule needs."""
        figure = self.measured(path)
        assert figure is not None, path
        return figure

    def side(self, name: str) -> Section:
        """All that was measured of the baseline or of the trained model; empty if it was not."""
        return getattr(self.evaluation, name) or Section()

    @property
    def paired(self) -> Paired:
        return self.evaluation.paired or Paired()

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
        series = [(step, of(value)) for step, value in self.series(names)]
        start = median(value for _, value in series[:START_ROWS]) if series else 0.0
        return [(step, sign * (value - start)) for step, value in recent(series, window)]

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

    def late(self, course: Course) -> Course:
        """The second half of a course, by the planned number of steps, without which it is the whole."""
        return [(step, score) for step, score in course if step is not None and 2 * step >= self.planned_steps]

    def errors_above(self, path: str, level: float = 0.0) -> float:
        """How many of its standard errors a figure of evaluation.json that the rule needs is above the level."""
        figure = self.read(path)
        return (figure["value"] - level) / max((figure["high"] - figure["low"]) / 3.92, 1e-3)

    @cached_property
    def errors_per_angle(self) -> dict[int, float]:
        """At each step how many standard errors of a difference between two rows a change of the correct share by 1, by
        `angle`, is: from the mean jump between the rows so far, since the completions of a group are alike; at most as
        many as if they were independent."""
        way, errors = 1e-3, {}
        for rows, ((_, before), (step, share)) in enumerate(pairwise(self.series("outcome/correct")), 1):
            way += abs(angle(share) - angle(before))
            errors[step] = min(math.sqrt(self.completions / 2), MEAN_DISTANCE * rows / way)
        return errors

    def fall_in_errors(self) -> Series:
        """How many standard errors validation accuracy is below that of the start, at each later measurement."""
        rows, series = self.setting("eval.every_rows"), self.series("validation/accuracy")
        if not rows or not series or series[0][0] != 0:
            return []
        error = math.sqrt(2 / rows)
        return [(step, (angle(series[0][1]) - angle(value)) / error) for step, value in series[1:]]

    @property
    def completions(self) -> float:
        """Of a step."""
        return self.arg("per_device_train_batch_size", 8) * self.arg("gradient_accumulation_steps", 1)

    @cached_property
    def planned_steps(self) -> float:
        """`max_steps`, or those until the budget of tokens is spent, if they are fewer; 0 or less is an unknown
        number."""
        steps, budget, used = self.arg("max_steps", 0), self.setting("train_tokens"), self.series("trained_tokens")
        if budget is None or not used or not used[-1][1]:
            return steps
        step, tokens = used[-1]
        spent = step * budget / tokens
        return min(steps, spent) if steps > 0 else spent

    @property
    def whole_steps(self) -> int:
        """Of the whole training, of which the last row that was logged may come before the end."""
        return max(self.last_step, int(self.planned_steps))

    @cached_property
    def spread(self) -> float:
        """The standard deviation of the reward at the start, a unit for its changes."""
        stds = [value for _, value in self.series("reward_std")[:START_ROWS]]
        return max(median(stds), 1e-3) if stds else 1.0

    def tell(self, name: str, at: int | None = None) -> str:
        """reward 0.25 -> 0.5: medians of the first and of the last rows.

        Args:
            at: a step to which they say little, as that of a spike: the farthest value from the start among the rows
                before it is told too, if it is twice as far as the last ones, or on the other side.
        """
        series = self.series(name)
        start = median(value for _, value in series[:START_ROWS])
        after = median(value for _, value in last_quarter(series, START_ROWS))
        text = f"{name} {start:.3g} -> {after:.3g}"
        until = last_quarter([(step, value) for step, value in series if at is not None and step <= at], START_ROWS)
        step, most = max(until, key=lambda point: abs(point[1] - start), default=(0, start))
        far, end = most - start, after - start
        hidden = abs(far) > max(2 * abs(end) if far * end > 0 else 0.0, 0.1 * abs(start))
        return f"{text}, {'peak' if most > start else 'low'} {most:.3g} at step {step}" if hidden else text

    @property
    def trained_samples(self) -> list[Completion]:
        return [sample for sample in self.samples if sample.which == "trained"]

    # What was set

    @property
    def algo(self) -> str:
        return self.config["algo"]["name"]

    @property
    def algorithm(self) -> Algorithm:
        return ALGORITHMS[self.algo]

    def setting(self, key: str, default: Any = None) -> Any:
        """The value of a dotted key of the config; `default` if it is not set, or null."""
        value = read_key(self.config, key)
        return default if value is None else value

    def arg(self, name: str, default: float) -> float:
        """One of TRL's own arguments; `default` if the config leaves it to TRL."""
        return self.setting(f"algo.args.{name}", default)

    @property
    def weights(self) -> dict[str, float]:
        """The rewards that are summed, by name."""
        return {name: weight for name, weight in self.setting("reward.weights", {}).items() if weight}

    @property
    def is_control(self) -> bool:
        """Whether the reward is one from which nothing can be learned."""
        return bool(self.weights) and set(self.weights) <= {"constant", "random"}

    @property
    def learning_rate(self) -> float:
        return self.arg("learning_rate", 1e-6)

    @property
    def usual_rate(self) -> float | None:
        """The default learning rate of this algorithm for a model of this size."""
        return self.setting(f"model.learning_rate.{self.algo}")

    @property
    def rate_text(self) -> str:
        """learning rate 0.001; without the figure where another tool's log does not have it."""
        rate = self.setting("algo.args.learning_rate")
        return "learning rate" if rate is None else f"learning rate {rate:g}"

    @property
    def price_text(self) -> str:
        """The price of the KL, likewise: `beta 0.05`, or PPO's `init_kl_coef 0.015`."""
        for name in ("algo.args.init_kl_coef", "algo.args.beta"):
            if (price := self.setting(name)) is not None:
                return f"{name.rpartition('.')[2]} {price:g}"
        return "beta"

    # What to change

    def set_arg(self, name: str, value: float) -> str:
        """The override for one of TRL's own arguments; Hydra needs a + if the config does not have it."""
        new = "" if name in self.config["algo"]["args"] else "+"
        return f"{new}algo.args.{name}={value if isinstance(value, int) else f'{value:g}'}"

    def lower_rate(self, factor: float) -> str:
        """An override for this run's rate over the factor; advice.py gives the usual rate instead to a run far from
        it."""
        return self.set_arg("learning_rate", self.learning_rate / factor)

    def hold_policy(self) -> list[str]:
        """Overrides that keep the policy closer to its initial weights: a lower KL target or a higher price of the KL,
        or else a lower learning rate."""
        price, target = self.setting("algo.args.init_kl_coef"), self.setting("algo.args.target_kl")
        if price is None:
            hold = self.set_arg("beta", max(2 * self.arg("beta", 0.0), 0.05))
        elif target is None:
            hold = f"algo.args.init_kl_coef={max(2 * price, 0.05):g}"
        else:
            hold = f"algo.args.target_kl={target / 2:g}"
        return [hold, self.lower_rate(2)]

    def raise_entropy(self) -> list[str]:
        return [self.set_arg("entropy_coef", max(2 * self.arg("entropy_coef", 0.0), 0.01)), self.lower_rate(2)]

    def scale_length(self, factor: float) -> list[str]:
        """Overrides that make training `factor` times as long as the run was, by changing what ends it."""
        changes, steps = [], self.whole_steps if factor > 1 else self.last_step
        if (tokens := self.setting("train_tokens")) is not None:
            changes.append(f"train_tokens={max(1, round(factor * tokens))}")
        if self.arg("max_steps", 1) <= 0:
            changes.append(self.set_arg("num_train_epochs", factor * self.arg("num_train_epochs", 3.0)))
        return [*changes, self.set_arg("max_steps", max(1, round(factor * steps)))]


def show(samples: Iterable[Completion]) -> list[str]:
    """The ids of three samples: those with the highest reward."""
    return [sample.id for sample in sorted(samples, key=lambda sample: -(sample.reward or 0.0))[:3]]
