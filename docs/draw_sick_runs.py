"""Draws the pictures of docs/kl_and_entropy.md: sick runs of the calibration's archive, beside healthy ones.

    python docs/draw_sick_runs.py       # docs/sick_*.png, in seconds

A line per run: the failures' seeds that were tests, and healthy runs of the same model, task and budget.
"""

import sys
from pathlib import Path
from statistics import fmean

import matplotlib
from matplotlib.figure import Figure

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "bench" / "calibration"))
from archive import Archived, read_archive  # noqa: E402

from rlhf_exp.analysis.report.plots import STYLE  # noqa: E402

PANELS = {"reward": "reward", "outcome/correct": "right, share of completions",
          "probe/kl": "KL, nats per token", "probe/entropy": "entropy, nats per token"}  # fmt: skip
PICTURES = {"rate_too_high": "grpo_48", "farmable_no_kl": "grpo_48", "pretrained_rate": "rloo"}
"""A failure, and the healthy setting beside it."""
SEEDS = (8, 9, 10, 11)
SMOOTHED = 3
"""Logged steps whose mean is drawn: a step has 32 completions."""


def main() -> None:
    healthy, sick = read_archive("healthy"), read_archive("failures")
    for failure, setting in PICTURES.items():
        draw(failure, [run for run in sick if run.name == failure and run.seed in SEEDS],
             [run for run in healthy if run.name == setting])  # fmt: skip


def draw(failure: str, sick: list[Archived], healthy: list[Archived]) -> None:
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(11, 2.6), layout="constrained")
        for axes, (name, title) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
            for runs, color, label in ((healthy, "#8a8f98", "healthy"), (sick, "#c23b22", failure)):
                for place, run in enumerate(runs):
                    axes.plot(*read_series(run, name), color=color, linewidth=1, label=None if place else label)
            axes.set_title(title)
            axes.set_xlabel("step")
        figure.axes[0].legend(loc="best")
        figure.savefig(HERE / f"sick_{failure}.png", dpi=100)


def read_series(run: Archived, name: str) -> tuple[list[int], list[float]]:
    """Steps and smoothed values of a metric."""
    rows = [row for row in run.metrics if row.get(name) is not None]
    values = [row[name] for row in rows]
    smooth = [fmean(values[max(0, place - SMOOTHED + 1) : place + 1]) for place in range(len(values))]
    return [row["step"] for row in rows], smooth


if __name__ == "__main__":
    main()
