"""task.draw=signal against uniform drawing, at equal tokens: what GRPO learns on Countdown from a repeated set of rows.

    python bench/drawing.py                          # three seeds of both, about six minutes on one core
    python bench/drawing.py --seeds 2 --numbers [2,3,4] --rows 128 --tokens 100000

The reward is 1 for a correct answer and 0 for any other, so that a group of equal rewards is one that is all right or
all wrong. Each line is a run of the shipped model: held-out accuracy, groups without signal in all rollouts and in the
last third of them, optimizer steps, processor time. Then come the difference of the held-out accuracy, with the 95%
interval over seeds and rows of stats/crossed.py, and the ratio of the processor times.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from rlhf_exp import compose, run
from rlhf_exp.graders.countdown import grade
from rlhf_exp.stats.crossed import DIFFERENCES, crossed_interval

SETTINGS = [
    *("algo=grpo", "task=countdown", "model=tiny", "device=cpu", "device.threads=1", "task.baselines=false"),
    *("eval.rows=512", "eval.completions=2", "eval.start_completions=2"),
    *("reward=none", f"+reward.functions.right={__file__}:right", "+reward.weights.right=1"),
    *("+reward.weights.outcome=0", "monitor.every_steps=1000", "algo.args.disable_tqdm=true"),
    *("algo.args.per_device_train_batch_size=64", "algo.args.gradient_accumulation_steps=1"),
    *("algo.args.lr_scheduler_type=constant", "algo.args.max_steps=1000", "algo.args.save_strategy=no"),
]
ARMS = ("uniform", "signal")


def right(completions: list[str], numbers: list[list[int]], target: list[int], **columns: Any) -> list[float]:
    """The reward: whether each completion is correct."""
    rows = zip(completions, numbers, target, strict=True)
    return [float(grade(text, given, wanted).outcome == "correct") for text, given, wanted in rows]


def main() -> None:
    """Run both arms of each seed, one after the other, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=256, help="rows to train on")
    parser.add_argument("--group", type=int, default=4, help="completions per prompt, of 64 in a rollout")
    parser.add_argument("--tokens", type=int, default=160_000, help="tokens that each run trains on")
    parser.add_argument("--numbers", default="[3]", help="how many numbers a problem has, in training and held out")
    parser.add_argument("--out", type=Path, help="keep the runs here")
    args = parser.parse_args()
    out = args.out or Path(tempfile.mkdtemp())
    shared = [f"task.train_rows={args.rows}", f"task.numbers={args.numbers}", f"eval.cache_dir={out}/cache"]
    shared.append(f"algo.args.num_generations={args.group}")
    lines = ["| draw | seed | accuracy | no signal | last third | steps | processor time |", "|" + "---|" * 7]
    accuracy: dict[str, list[np.ndarray]] = {arm: [] for arm in ARMS}
    seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for seed in range(args.seeds):
        for arm in ARMS:
            place = [f"seed={seed}", f"task.draw={arm}", f"output_dir={out}/{arm}-{seed}"]
            began = time.process_time()
            done = run(compose([*SETTINGS, *shared, f"train_tokens={args.tokens}", *place]))
            assert done is not None
            seconds[arm].append(time.process_time() - began)
            accuracy[arm].append(rows_accuracy(done.samples))
            silent = [row["frac_reward_zero_std"] for row in done.metrics if "frac_reward_zero_std" in row]
            shares = [fmean(silent), fmean(silent[-len(silent) // 3 :])]
            figures = [f"{share:.3f}" for share in (accuracy[arm][-1].mean(), *shares)]
            cells = [arm, str(seed), *figures, str(len(silent)), f"{seconds[arm][-1]:.0f} s"]
            lines.append(f"| {' | '.join(cells)} |")
    print("\n".join(lines))
    gain = crossed_interval(np.array(accuracy["signal"]) - np.array(accuracy["uniform"]), DIFFERENCES)
    print(f"accuracy, signal - uniform: {gain['value']:+.4f} [{gain['low']:+.4f}, {gain['high']:+.4f}]")
    print(f"processor time, signal / uniform: {sum(seconds['signal']) / sum(seconds['uniform']):.2f}")


def rows_accuracy(samples: list[dict[str, Any]]) -> np.ndarray:
    """(rows,) the share of right completions of each held-out row after training, in the order of their ids."""
    found: dict[str, list[bool]] = {}
    for sample in samples:
        if sample["which"] == "trained":
            found.setdefault(sample["id"], []).append(sample["outcome"] == "correct")
    return np.array([fmean(found[name]) for name in sorted(found)])


if __name__ == "__main__":
    main()
