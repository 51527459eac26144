"""Training curves: TRL's metrics and the probe's against the step, as PNG files.

draw_run(run, out)   ->  [(out/plots/reward.png, "Mean reward ..."), ...], only what the run has data for
draw_runs(groups, out), where groups maps a label to its runs, draws each curve of all of them into one plot
"""

import re
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from rlhf_exp.evaluation.metrics import OUTCOMES
from rlhf_exp.report.groups import name_method
from rlhf_exp.report.plots import BLUE, DASHES, GREEN, ORANGE, PALETTE, VERMILLION, Picture, add_axes, open_figure
from rlhf_exp.runs.load import Run


class Curve(NamedTuple):
    """One plot with a panel for each unit. Metrics without a label are one figure, which trainers name differently."""

    name: str
    caption: str  # {} is replaced by the units that are drawn
    units: dict[str, dict[str, str]]  # unit: {metric: its label}


NEARLY = 0.8
LOSS = Curve("loss", "Loss in training", {"nats": {"loss": ""}})
PROBE_KL = Curve("kl", "KL to the start model", {"nats per token": {"probe/kl": "probe set, exact"}})
KL = PROBE_KL._replace(units={"nats per token": {"probe/kl": "probe set, exact", "kl": "TRL's kl, on its samples"}})
CURVES = (
    Curve("reward", "Mean reward in training", {"reward": {"reward": ""}}),
    Curve("token_accuracy", "Share of the tokens that the policy ranks first", {"share": {"mean_token_accuracy": ""}}),
    Curve("pair_accuracy", "Share of the training pairs with the chosen answer first",
          {"share": {"accuracy": "", "rewards/accuracies": ""}}),
    Curve("margin", "Mean margin between chosen and rejected in training",
          {"reward": {"margin": "", "rewards/margins": ""}}),
    Curve("scores", "Rewards in training, over the answers of a batch",
          {"reward": {"mean_reward": "mean", "min_reward": "lowest", "max_reward": "highest"}}),
    Curve("implicit_rewards", "Implicit rewards in training: beta times the log ratio to the reference",
          {"nats": {"rewards/chosen": "chosen", "rewards/rejected": "rejected"}}),
    Curve("logps", "Log-probability of an answer in training",
          {"nats per answer": {"logps/chosen": "chosen", "logps/rejected": "rejected"}}),
    Curve("correct", "Correct share of the completions in training", {"share": {"outcome/correct": ""}}),
    KL,
    Curve("entropy", "Entropy of the policy",
          {"nats per token": {"probe/entropy": "probe set, exact", "entropy": "TRL's, on what it trained on"}}),
    Curve("length", "Mean completion length in training", {"tokens": {"completions/mean_length": ""}}),
)  # fmt: skip

STACKS = (
    Curve("validation", "On validation rows, in training: {}", {
        "accuracy": {"validation/accuracy": ""},
        "reward": {"validation/reward": ""},
        "mean tokens": {"validation/mean_tokens": ""},
        "cut off": {"validation/truncation_rate": ""},
        "KL, nats": {"validation/kl": ""},
    }),
    Curve("optimizer", "In training: {}", {
        "loss": {"loss": ""},
        "learning rate": {"learning_rate": ""},
        "gradient norm": {"grad_norm": "policy", "ppo/critic_grad_norm": "critic"},
    }),
    Curve("ppo", "PPO: losses, the critic's values and the returns, the variance that it explains, clipped shares, KL"
          " and its coefficient", {
        "loss": {"ppo/policy_loss": "policy", "ppo/value_loss": "value"},
        "reward": {"ppo/value_mean": "value", "ppo/return_mean": "return"},
        "explained": {"ppo/explained_variance": ""},
        "clipped": {"ppo/clip_fraction": "policy", "ppo/value_clip_fraction": "value"},
        "KL, nats": {"ppo/kl": "k1", "ppo/kl_exact": "exact", "ppo/kl_k3": "k3"},
        "KL coef.": {"ppo/kl_coef": ""},
    }),
)  # fmt: skip
"""Only in the report of one run."""

COMPONENT = re.compile("rewards/(.+)/mean")


def draw_run(run: Run, out: Path) -> list[Picture]:
    """The curves of one run; outcomes and length have more detailed plots."""
    curves = list_curves([run])
    components = {key: found[1] for row in run.metrics for key in row if (found := COMPONENT.fullmatch(key))}
    if len(components) > 1:  # a single component is the reward itself
        curves.append(Curve("components", "Rewards in training, each before its weight", {"reward": components}))
    special = {"correct": _draw_outcomes, "length": _draw_length}
    pictures = [special.get(curve.name, _draw_panels)(run, out, curve) for curve in [*curves, *STACKS]]
    return [picture for picture in pictures if picture]


def draw_runs(groups: dict[str, list[Run]], out: Path) -> list[Picture]:
    """Every curve of every run, a colour for each group, and the mean of its runs as a thick line."""
    pictures = []
    runs = [run for group in groups.values() for run in group]
    xlabel, places = _choose_axis(runs)
    for curve in list_curves(runs):
        [(unit, keys)] = curve.units.items()
        lines = {
            label: [line for run in group if (line := _trace(run, keys, places.get(run.path)))]
            for label, group in groups.items()
        }
        if sum(map(bool, lines.values())) < min(2, len(groups)):  # a single setting has the curve in its own report
            continue
        which = next(iter(keys.values()))
        caption = f"{curve.caption} ({which})" if which else curve.caption
        with open_figure(out, curve.name, caption) as (figure, picture):
            axes = add_axes(figure, xlabel, unit)
            for index, (label, group) in enumerate(lines.items()):
                _plot_group(axes, group, label, color=PALETTE[index % 7], linestyle=DASHES[index // 7 % 4])
            figure.legend(loc="outside lower left", ncols=2 if len(groups) > 3 else 1, fontsize=8)
        pictures.append(picture)
    return pictures


def _choose_axis(runs: list[Run]) -> tuple[str, dict[Path, dict[int, int]]]:
    """The step; for several methods, whose steps differ in size, the tokens trained on up to the step."""
    places = {run.path: dict(zip(*run.series("trained_tokens"), strict=True)) for run in runs if run.metrics}
    if len({name_method(run) for run in runs}) > 1 and all(places.values()):
        return "tokens trained on", places
    return "step", {}


def list_curves(runs: list[Run]) -> list[Curve]:
    """The curves for these runs. The loss is left out for several algorithms, whose losses cannot be compared."""
    has_loss = len({run.info.get("algo") for run in runs}) == 1 and _loss_tells(runs[0])
    curves = [*([LOSS] if has_loss else []), *CURVES]
    # On given rows `kl` is the estimate in kto's loss: of mismatched answers, in nats per answer.
    return [PROBE_KL if curve is KL and all(map(_loss_tells, runs)) else curve for curve in curves]


def _loss_tells(run: Run) -> bool:
    """Whether the loss shows the progress of training; a policy gradient's loss always stays near 0."""
    return run.algorithm is not None and not run.algorithm.online


def _trace(run: Run, keys: dict[str, str], places: dict[int, int] | None) -> dict[int, tuple[float, float]]:
    """The series that a comparison draws: the first metric, under the name that the run's trainer uses. By step, its
    place on the axis (in `places`; None: the step itself) and its value."""
    first, *others = keys
    named = [first, *(key for key in others if not keys[key])]
    steps, values = next((series for key in named if (series := run.series(key))[0]), ([], []))
    return {step: (places[step] if places else step, value) for step, value in zip(steps, values, strict=True)}


def _draw_panels(run: Run, out: Path, curve: Curve) -> Picture | None:
    """Plots one above the other over the same steps, one for each unit, of the metrics that were logged."""
    logged = {unit: {k: keys[k] for k in keys if run.series(k)[0]} for unit, keys in curve.units.items()}
    drawn_above = curve in STACKS and _loss_tells(run)
    panels = {unit: keys for unit, keys in logged.items() if keys and not (drawn_above and "loss" in keys)}
    if not panels:
        return None
    size = {} if len(curve.units) == 1 else {"height": 0.7 + 1.3 * len(panels)}
    with open_figure(out, curve.name, curve.caption.format(", ".join(panels)), **size) as (figure, picture):
        stacked = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (unit, keys) in zip(stacked, panels.items(), strict=True):
            for color, (key, label) in zip(cycle(PALETTE), keys.items(), strict=False):
                _plot(axes, *run.series(key), color=color, label=label)
            axes.set(ylabel=unit)
            if any(keys.values()):
                axes.legend(fontsize=7, ncols=3) if size else figure.legend(loc="outside upper left", ncols=3)
        stacked[-1].set(xlabel="step")
    return picture


def _draw_outcomes(run: Run, out: Path, curve: Curve) -> Picture | None:
    series = [run.series(f"outcome/{outcome}") for outcome in OUTCOMES]
    if not (steps := series[0][0]):
        return None
    caption = "Correct, partial and failed completions in training"
    with open_figure(out, "outcomes", caption) as (figure, picture):
        axes = add_axes(figure, "step", "% of the completions")
        shares = [[100 * value for value in values] for _, values in series]
        axes.stackplot(steps, shares, labels=OUTCOMES, colors=(GREEN, ORANGE, "#d0d7de"))
        axes.set(xlim=(steps[0], max(steps[-1], steps[0] + 1)), ylim=(0, 100))
        figure.legend(loc="outside upper left", ncols=3)
    return picture


def _draw_length(run: Run, out: Path, curve: Curve) -> Picture | None:
    steps, lengths = run.series("completions/mean_length")
    if not steps:
        return None
    clipped_steps, clipped = run.series("completions/clipped_ratio")
    caption = "Completion length in training, and the share cut off at the budget"
    with open_figure(out, "length", caption, height=4.2) as (figure, picture):
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        _plot(upper, steps, lengths, color=BLUE)
        if budget := run.info.get("max_tokens"):
            upper.axhline(budget, color=VERMILLION, linestyle="--", linewidth=1.2)
            place = {"xy": (1, budget), "xycoords": ("axes fraction", "data"), "xytext": (0, -3)}
            style = {"textcoords": "offset points", "ha": "right", "va": "top", "color": VERMILLION}
            upper.annotate(f"budget {budget}", **place, **style)
        upper.set(ylabel="mean tokens", ylim=(0, None))
        _plot(lower, clipped_steps, [100 * value for value in clipped], color=ORANGE)
        lower.set(ylabel="cut off, %", ylim=(0, max([5, *(105 * value for value in clipped)])), xlabel="step")
    return picture


def _plot_group(axes: Axes, lines: list[dict[int, tuple[float, float]]], label: str, **style: str) -> None:
    """The mean is over the runs that got nearly as far as the longest, up to the end of the first of them, so that it
    has no jump there."""
    if len(lines) > 1:
        for line in lines:
            axes.plot(*zip(*line.values(), strict=True), linewidth=0.7, alpha=0.45, **style)
        last = max(max(line) for line in lines)
        complete = [line for line in lines if max(line) >= NEARLY * last]
        shared = sorted(set.intersection(*map(set, complete)))
        if shared:
            mean = np.mean([[line[step] for step in shared] for line in complete], axis=0)  # (steps, 2)
            _plot(axes, *mean.T.tolist(), label=f"{label} (mean of {len(complete)} runs)", **style)
    elif lines:
        _plot(axes, *zip(*lines[0].values(), strict=True), label=label, **style)


def _plot(axes: Axes, steps: list[int], values: list[float], **style: str) -> None:
    axes.plot(steps, values, marker="o" if len(steps) < 30 else None, markersize=3, **style)
