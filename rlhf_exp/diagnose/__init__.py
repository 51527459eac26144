"""Names what went wrong in a run: metrics, evaluation and config in, findings with evidence and a remedy out.

    diagnose(metrics, evaluation, config)
    ->  {"findings": [{"name": "kl_drift", "severity": "warning", "steps": [120, 300], "evidence": "...",
                       "cause": "...", "remedy": "algo.args.beta=0.1"}], "health": "warning"}

A new finding is one function from Signals to a finding or None, and its place in CHECKS.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from rlhf_exp.config.remedies import choose_remedy
from rlhf_exp.evaluation.training_loss import COMPARABLE, explain_other_loss

# Nats per token over the whole vocabulary. Ziegler et al. (2019) steer to 6 nats on 24 tokens, 0.25 a
# token (lm-human-preferences, launch.py); twice that is a policy that no longer resembles its start.
KL_LIMIT = 0.5
# Cui et al. (2025, arXiv:2505.22617) see entropy fall by 73% while accuracy still rises: below a fifth
# of its start little is left to explore.
ENTROPY_FRACTION = 0.2
# A group whose rewards are all equal has advantage 0: above this, four of five completions teach nothing.
ZERO_STD_LIMIT = 0.8
SOLVED_SHARE = 0.5  # correct share that tells groups that are all right from groups that are all wrong
# A truncated completion cannot answer, so this is also a ceiling on accuracy: 70%.
TRUNCATION_LIMIT = 0.3
# Changes from the first to the last quarter of training. A share over ten steps of 256 completions has a
# standard error of 0.01, so 0.02 and 0.05 are not the noise of single steps.
CORRECT_FALL = 0.02
PARTIAL_RISE = 0.05

# These mean to leave their start model, so neither their KL nor their entropy is an alarm.
SUPERVISED = ("sft", "reward_model")
SEVERITIES = ("ok", "info", "warning", "error")

Finding = dict
Series = list[tuple[int, float]]  # (step, value), rising in step, finite values only


@dataclass(frozen=True)
class Signals:
    """What the checks look at; `metrics` rows and `evaluation` may lack any key after a crash."""

    metrics: list[dict]
    evaluation: dict
    config: dict
    room: int | None = None

    def series(self, key: str) -> Series:
        rows = [(row["step"], row[key]) for row in self.metrics if row.get(key) is not None]
        return [(step, value) for step, value in rows if math.isfinite(value)]

    @property
    def algo(self) -> str:
        return self.config["algo"]["name"]

    def arg(self, name: str, default: float) -> float:
        """One of TRL's own arguments; `default` where the config leaves it to TRL."""
        value = self.config["algo"]["args"].get(name)
        return default if value is None else value

    def set_own(self, name: str, value: float) -> str:
        """The override for one of the algorithm's own keys."""
        return f"algo.{name}={value:g}"

    def lower_rate(self, factor: float) -> str:
        return self.set_arg("learning_rate", self.arg("learning_rate", 1e-6) / factor)

    def hold_policy(self) -> list[str]:
        """Overrides that hold the policy closer to its start: by the KL's price, or steps that are smaller."""
        if self.algo != "ppo":
            return [self.set_arg("beta", max(2 * self.arg("beta", 0.0), 0.05)), self.lower_rate(2)]
        algo = self.config["algo"]
        if algo.get("target_kl") is not None:
            return [self.set_own("target_kl", algo["target_kl"] / 2), self.lower_rate(2)]
        return [self.set_own("init_kl_coef", max(2 * algo.get("init_kl_coef", 0.0), 0.05)), self.lower_rate(2)]

    def scale_length(self, factor: float, steps: int) -> list[str]:
        """Overrides that make training as many times as long, by what ends it."""
        found = []
        if (tokens := self.config.get("train_tokens")) is not None:
            found.append(f"train_tokens={max(1, round(factor * tokens))}")
        if self.arg("max_steps", 1) <= 0:
            found.append(self.set_arg("num_train_epochs", factor * self.arg("num_train_epochs", 3.0)))
        return [*found, self.set_arg("max_steps", max(1, round(factor * steps)))]

    def set_arg(self, name: str, value: float) -> str:
        """The override for one of TRL's own arguments; Hydra wants a + where the config does not have it."""
        new = "" if name in self.config["algo"]["args"] else "+"
        return f"{new}algo.args.{name}={value if isinstance(value, int) else f'{value:g}'}"


def diagnose(metrics: list[dict], evaluation: dict, config: dict, room: int | None = None) -> dict:
    """Every check's finding, worst first, and the run's health: ok, warning or error.

    Args:
        metrics: the rows of metrics.jsonl; may be empty.
        evaluation: evaluation.json; {} where the run did not get there.
        config: the resolved config as plain dicts.
        room: tokens that the model's context leaves beside the longest prompt; None where it is not known.
    """
    run = Signals(metrics, evaluation, config, room)
    findings = [finding for check in CHECKS if (finding := check(run)) is not None]
    for finding in findings:
        finding["remedy"] = choose_remedy(config, finding["remedy"])
    findings.sort(key=lambda finding: -SEVERITIES.index(finding["severity"]))
    worst = findings[0]["severity"] if findings else "ok"
    return {"findings": findings, "health": "ok" if worst == "info" else worst}


def find_nonfinite(run: Signals) -> Finding | None:
    """Loss, gradient norm or the probe is NaN or infinite, which metrics.jsonl writes as null."""
    for row in run.metrics:
        for key in ("loss", "grad_norm", "probe/kl"):
            if key in row and (row[key] is None or not math.isfinite(row[key])):
                learning_rate = run.arg("learning_rate", 1e-6)
                return _finding(
                    "nonfinite_loss",
                    "error",
                    [row["step"], run.metrics[-1]["step"]],
                    f"{key} is not finite at step {row['step']}",
                    f"the learning rate {learning_rate:g} is too high, or a half-precision value overflowed",
                    [run.lower_rate(4)],
                )
    return None


def find_kl_drift(run: Signals) -> Finding | None:
    above = [(step, kl) for step, kl in run.series("probe/kl") if kl > KL_LIMIT]
    if run.algo in SUPERVISED or not above:
        return None
    price, at = run.arg("beta", 0.0), "beta"
    if run.algo == "ppo":
        price, at = run.config["algo"].get("init_kl_coef", 0.0), "init_kl_coef"
    return _finding(
        "kl_drift",
        "warning",
        [above[0][0], above[-1][0]],
        f"KL to the start model on the probe set reaches {max(kl for _, kl in above):.2f} nats per token, "
        f"above {KL_LIMIT:g} first at step {above[0][0]}",
        f"{at} {price:g} holds the policy too loosely for this learning rate and number of steps",
        run.hold_policy(),
    )


def find_entropy_collapse(run: Signals) -> Finding | None:
    series = run.series("probe/entropy")
    if run.algo in SUPERVISED or len(series) < 2 or series[0][1] <= 0:
        return None
    start, end = series[0][1], _mean(_last_quarter(series))
    if end >= ENTROPY_FRACTION * start:
        return None
    first_below = next(step for step, value in series if value < ENTROPY_FRACTION * start)
    return _finding(
        "entropy_collapse",
        "warning",
        [first_below, series[-1][0]],
        f"entropy on the probe set fell from {start:.3f} to {end:.3f} nats per token, {end / start:.0%} of its start",
        "the policy became nearly deterministic, so a group's completions are alike and teach little",
        [run.set_arg("entropy_coef", max(2 * run.arg("entropy_coef", 0.0), 0.01)), run.lower_rate(2)],
    )


def find_groups_without_variance(run: Signals) -> Finding | None:
    quarter = _last_quarter(run.series("frac_reward_zero_std"))
    if not quarter or _mean(quarter) <= ZERO_STD_LIMIT:
        return None
    correct = _last_quarter(run.series("outcome/correct"))
    evidence = f"{_mean(quarter):.0%} of the groups had equal rewards"
    if correct:
        evidence += f", with {_mean(correct):.0%} of the completions correct"
    if correct and _mean(correct) > SOLVED_SHARE:
        cause = "training problems are nearly all solved: more steps cannot teach more"
        remedies = run.scale_length(quarter[0][0] / run.metrics[-1]["step"], run.metrics[-1]["step"])
    else:
        cause = "the problems are too hard, or the completions of a group too alike, for one to do better"
        group = run.arg("num_generations", 8)
        remedies = [run.set_arg("num_generations", size) for size in (2 * group, *range(group + 1, 8 * group))]
        remedies.append(run.set_arg("per_device_train_batch_size", 2 * run.arg("per_device_train_batch_size", 8)))
    return _finding("no_reward_variance", "warning", _span(quarter), evidence, cause, remedies)


def find_truncation(run: Signals) -> Finding | None:
    quarter = _last_quarter(run.series("completions/clipped_ratio"))
    training = _mean(quarter) if quarter else 0.0
    held_out = run.evaluation.get("trained", {}).get("truncation_rate", {}).get("value", 0.0)
    if max(training, held_out) <= TRUNCATION_LIMIT:
        return None
    budget = run.config["max_tokens"]
    evidence = f"{held_out:.0%} of the held-out completions were cut off at {budget} tokens"
    if quarter:
        evidence = f"{training:.0%} of the completions at the end of training and {held_out:.0%} of the held-out ones "
        evidence += f"were cut off at {budget} tokens"
    return _finding(
        "truncation",
        "warning",
        _span(quarter) if training > TRUNCATION_LIMIT else None,
        evidence,
        "the budget is too small for what the policy writes; a completion that is cut off cannot answer",
        [f"max_tokens={larger}"] if (larger := min(2 * budget, run.room or 2 * budget)) > budget else [],
    )


def find_format_farming(run: Signals) -> Finding | None:
    correct, partial = run.series("outcome/correct"), run.series("outcome/partial")
    if len(correct) < 2 or len(partial) < 2:
        return None
    before, after = _mean(_first_quarter(correct)), _mean(_last_quarter(correct))
    partial_before, partial_after = _mean(_first_quarter(partial)), _mean(_last_quarter(partial))
    if before - after <= CORRECT_FALL or partial_after - partial_before <= PARTIAL_RISE:
        return None
    return _finding(
        "format_farming",
        "warning",
        _span(correct),
        f"correct fell from {before:.1%} to {after:.1%} while wrong answers in the right format rose from "
        f"{partial_before:.1%} to {partial_after:.1%}",
        "an early wrong answer earns the partial reward more surely than a search earns the full one",
        run.hold_policy(),
    )


def find_accuracy_change(run: Signals) -> Finding | None:
    """The paired difference on held-out rows lies below zero, or its interval holds zero."""
    difference = run.evaluation.get("paired", {}).get("difference")
    if difference is None or difference["low"] is None or difference["low"] > 0:
        return None
    preference = run.algo == "reward_model"
    what, things = ("preference accuracy", "pairs") if preference else ("accuracy", "rows")
    evidence = (
        f"held-out {what} changed by {100 * difference['value']:+.1f} points, "
        f"95% interval {100 * difference['low']:+.1f} to {100 * difference['high']:+.1f}"
    )
    rows = run.evaluation["paired"]["n"]
    if difference["low"] == difference["high"] == 0:
        evidence = f"not one of {rows} held-out {things} went from wrong to correct or back"
    if difference["high"] < 0:
        cause = f"training moved the model away from what was right on these {things}"
        return _finding("accuracy_fell", "warning", None, evidence, cause, [run.lower_rate(2)])
    cause = f"too few steps, or a change too small for {rows} {things} to show"
    steps = run.metrics[-1]["step"] if run.metrics else 0
    remedies = [*(run.scale_length(2, steps) if steps else []), f"eval.rows={4 * rows}"]
    return _finding("no_measurable_gain", "info", None, evidence, cause, remedies)


def find_overfitting(run: Signals) -> Finding | None:
    """A model whose held-out loss rose, while its training loss, in the same unit, fell below that."""
    sides = [run.evaluation.get(side, {}).get("loss") for side in ("baseline", "trained")]
    quarter = _last_quarter(run.series("loss"))
    if not _has_comparable_loss(run) or not quarter or None in sides:
        return None
    (before, after), training = sides, _mean(quarter)
    change = run.evaluation.get("paired", {}).get("loss") or {"low": None}  # a reward model's is not kept
    rose = change["low"] > 0 if change["low"] is not None else after["value"] > before["value"]
    if not rose or after["low"] is None or training >= after["low"]:
        return None
    steps = run.metrics[-1]["step"]
    return _finding(
        "overfitting",
        "warning",
        _span(quarter),
        f"held-out loss rose from {before['value']:.3f} to {after['value']:.3f}, 95% interval {after['low']:.3f} to "
        f"{after['high']:.3f}, while the training loss fell to {training:.3f}",
        f"the model remembers its training {'rows' if run.algo == 'sft' else 'pairs'}: too many passes over too few of"
        " them, or too large a learning rate",
        run.scale_length(0.5, steps),
    )


CHECKS: tuple[Callable[[Signals], Finding | None], ...] = (
    find_nonfinite,
    find_overfitting,
    find_accuracy_change,
    find_format_farming,
    find_kl_drift,
    find_entropy_collapse,
    find_groups_without_variance,
    find_truncation,
)


def _has_comparable_loss(run: Signals) -> bool:
    """Whether what is logged in training is what is measured on held-out rows."""
    if run.algo not in COMPARABLE:
        return run.algo == "reward_model"
    return explain_other_loss(run.algo, run.config["algo"]["args"]) is None


def _finding(
    name: str, severity: str, steps: list[int] | None, evidence: str, cause: str, remedies: list[str]
) -> Finding:
    """`remedies`: overrides, the best first; `diagnose` keeps the first that the config's checks accept, or none."""
    return {
        "name": name,
        "severity": severity,
        "steps": steps,
        "evidence": evidence,
        "cause": cause,
        "remedy": remedies,
    }


def _first_quarter(series: Series) -> Series:
    return series[: max(1, len(series) // 4)]


def _last_quarter(series: Series) -> Series:
    return series[-max(1, len(series) // 4) :] if series else []


def _span(series: Series) -> list[int]:
    return [series[0][0], series[-1][0]]


def _mean(series: Series) -> float:
    return fmean(value for _, value in series)
