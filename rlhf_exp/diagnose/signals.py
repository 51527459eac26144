"""What the rules read from a run, and the overrides that they can propose as remedies.

run = Signals(metrics, evaluation, config)
mean(last_quarter(run.series("probe/kl")))
run.set_arg("beta", 0.1)                      # "algo.args.beta=0.1"
"""

import math
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rlhf_exp.algorithms import ALGORITHMS, Algorithm

Series = list[tuple[int, float]]
"""(step, value), in order of steps, finite values only."""


@dataclass(frozen=True)
class Signals:
    """After a crash, rows of `metrics` and `evaluation` may lack any key."""

    metrics: list[dict[str, Any]]
    evaluation: dict[str, Any]
    config: dict[str, Any]
    room: int | None = None

    @property
    def algorithm(self) -> Algorithm:
        return ALGORITHMS[self.config["algo"]["name"]]

    @property
    def last_step(self) -> int:
        return self.metrics[-1]["step"] if self.metrics else 0

    def series(self, key: str) -> Series:
        rows = [(row["step"], row[key]) for row in self.metrics if row.get(key) is not None]
        return [(step, value) for step, value in rows if math.isfinite(value)]

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

    def set_arg(self, name: str, value: float) -> str:
        """The override for one of TRL's own arguments; Hydra needs a + if the config does not have it."""
        new = "" if name in self.config["algo"]["args"] else "+"
        return f"{new}algo.args.{name}={value if isinstance(value, int) else f'{value:g}'}"

    def lower_rate(self, factor: float) -> str:
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

    def scale_length(self, factor: float) -> list[str]:
        """Overrides that make training `factor` times as long as the run was, by changing what ends it."""
        found = []
        if (tokens := self.config.get("train_tokens")) is not None:
            found.append(f"train_tokens={max(1, round(factor * tokens))}")
        if self.arg("max_steps", 1) <= 0:
            found.append(self.set_arg("num_train_epochs", factor * self.arg("num_train_epochs", 3.0)))
        return [*found, self.set_arg("max_steps", max(1, round(factor * self.last_step)))]


def first_quarter(series: Series) -> Series:
    return series[: max(1, len(series) // 4)]


def last_quarter(series: Series) -> Series:
    return series[-max(1, len(series) // 4) :]


def span(series: Series) -> list[int]:
    """The first and the last step."""
    return [series[0][0], series[-1][0]]


def mean(series: Series) -> float:
    return fmean(value for _, value in series)
