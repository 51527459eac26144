"""Compares this package's PPO, with each of its critics, with the last PPOTrainer of TRL (1.12).

    python bench/ppo_trl.py                                       # three seeds, 20 rollouts; prints ratios ours / TRL
    python bench/ppo_trl.py --seeds 0 --steps 12 --out ppo.json algo.args.vf_coef=1.0    # overrides of ours come last

TRL 1.12 is installed into a virtual environment of its own (trl112/environment.py; the first call needs the package
index). Every run is a process; the three kinds take turns, in another order for each seed. Printed for each: mean
reward of the rollouts in the first and the last quarter, KL in the last quarter (k1, nats per completion, at sampling),
seconds per episode (an episode is a completion; wall time, and CPU time, which other processes disturb less), and peak
memory in training, both in total and above what was resident before training (trl112/watch.py).

Equal: the shipped tiny model, the training rows, the reward (for TRL the same grader wrapped as a reward model), the
completion budget, BATCH completions per rollout in MINIBATCHES, epochs, learning rate and its linear decay, Adam, the
KL coefficient (k1, fixed), clip ranges, gamma, lambda, whitening, temperature 1, float32, no gradient clipping (1.12
has none).

What cannot be equal:
- Order of the rows, and so random numbers: the same seed is another draw on each side.
- 1.12 decays the learning rate once per rollout, ours once per minibatch.
- 1.12 puts the score one token past the end token, where its critic has a value too; ours on the last token.
- 1.12's critic is a copy of the policy with a random head at the policy's learning rate. Ours, shared or separate,
  starts at 0 and has `critic_learning_rate` and `vf_coef` of its own, as conf/algo/ppo.yaml says.
- 1.12 divides the loss by the tokens of its minibatch; ours by the mean number of tokens in a minibatch.
- Sampling: 1.12 uses `generate` and takes the old log-probabilities from it; ours is the default of `generation=`.
- Ours is the whole command, so its time and memory include the layer around the trainer (bench/layer.py measures it).
"""

import json
import os
import statistics
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from itertools import pairwise
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer
from trl112.environment import ROOT, make_environment
from trl112.watch import Taken, run_watched

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.runs.files import write_json, write_jsonl
from rlhf_exp.tasks import load_task

MODEL = ASSETS / "tiny"
BATCH, MINIBATCHES, EPOCHS, MAX_TOKENS = 128, 4, 1, 96
KL_COEF, CLIP, CLIP_VALUE, GAMMA, LAM = 0.015, 0.2, 0.2, 1.0, 1.0
TRL, OURS = "trl", ("shared", "separate")
SHOWN = {
    "reward_first": "reward, first quarter",
    "reward_last": "reward, last quarter",
    "kl_last": "KL, last quarter",
    "seconds_per_episode": "seconds per episode",
    "cpu_s_per_episode": "processor seconds per episode",
    "peak_mb": "peak memory, MB",
    "grown_mb": "of it above the start, MB",
}


def list_overrides(options: Namespace) -> list[str]:
    """Our side. One log a rollout; the probe, evaluation and checkpoints as small as they go."""
    updates = MINIBATCHES * EPOCHS
    return [
        "algo=ppo", "task=countdown", "model=tiny", "device=cpu", f"max_tokens={MAX_TOKENS}",
        f"algo.args.max_steps={options.steps * updates}", f"algo.args.logging_steps={updates}",
        f"algo.args.per_device_train_batch_size={BATCH // MINIBATCHES}", "algo.args.gradient_accumulation_steps=1",
        f"algo.args.steps_per_generation={MINIBATCHES}", f"algo.args.num_iterations={EPOCHS}",
        f"algo.args.learning_rate={options.learning_rate}", "++algo.args.max_grad_norm=0.0",
        f"algo.args.epsilon={CLIP}", f"algo.args.cliprange_value={CLIP_VALUE}", f"algo.args.gamma={GAMMA}",
        f"algo.args.lam={LAM}",
        f"algo.args.init_kl_coef={KL_COEF}", "algo.args.target_kl=null", "algo.args.missing_eos_penalty=null",
        "algo.args.whiten_advantages=true", "algo.args.temperature=1.0", "algo.args.entropy_coef=0.0",
        "algo.args.save_strategy=no", "eval.rows=16", "eval.cache_dir=null",
        "monitor.every_steps=1000000", "monitor.probe_rows=1",
        *options.overrides,
    ]  # fmt: skip


def list_arguments(options: Namespace, seed: int) -> dict[str, Any]:
    """The same for 1.12's PPOConfig. Without accumulation: with it, its num_mini_batches does nothing."""
    return {
        "seed": seed, "use_cpu": True, "bf16": False, "response_length": MAX_TOKENS, "stop_token": "eos",
        "total_episodes": options.steps * BATCH, "per_device_train_batch_size": BATCH,
        "gradient_accumulation_steps": 1, "num_mini_batches": MINIBATCHES, "num_ppo_epochs": EPOCHS,
        "local_rollout_forward_batch_size": BATCH, "learning_rate": options.learning_rate,
        "cliprange": CLIP, "cliprange_value": CLIP_VALUE, "gamma": GAMMA, "lam": LAM, "kl_coef": KL_COEF,
        "temperature": 1.0, "gradient_checkpointing": False, "num_sample_generations": 0,
        "report_to": "none", "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True,
    }  # fmt: skip


def measure(kind: str, seed: int, options: Namespace, python: Path, scratch: Path) -> dict[str, Any]:
    """One run of one kind: its figures, and its curves by rollout."""
    folder = scratch / f"{kind}_{seed}"
    overrides = [*list_overrides(options), f"seed={seed}", f"output_dir={folder}"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    if kind == TRL:
        rows, arguments = scratch / f"rows_{seed}.jsonl", scratch / f"args_{seed}.json"
        cfg = compose_config(overrides)
        write_jsonl(rows, load_task(cfg, AutoTokenizer.from_pretrained(MODEL)).train)
        write_json(arguments, list_arguments(options, seed))
        command = [python, ROOT / "bench" / "trl112" / "train.py", MODEL, rows, arguments, folder]
    else:
        command = [sys.executable, "-m", "rlhf_exp", *overrides, f"algo.args.critic={kind}"]
    taken = run_watched(command, environment, folder)
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {"kind": kind, "seed": seed, **summarize(metrics, taken), "metrics": metrics}


def summarize(metrics: list[dict[str, float]], taken: Taken) -> dict[str, float]:
    """The figures of a run, from a line a rollout."""
    quarter = max(1, len(metrics) // 4)
    first, last = metrics[:quarter], metrics[-quarter:]
    return {
        "reward_first": statistics.mean(row["reward"] for row in first),
        "reward_last": statistics.mean(row["reward"] for row in last),
        "kl_last": statistics.mean(row["ppo/kl"] for row in last),
        "seconds_per_episode": median_step([row["time_s"] for row in metrics]) / BATCH,
        "cpu_s_per_episode": median_step(taken.cpu_s) / BATCH,
        "peak_mb": taken.peak_mb,
        "grown_mb": taken.peak_mb - taken.floor_mb,
    }


def median_step(times: list[float]) -> float:
    return statistics.median(later - earlier for earlier, later in pairwise(times))


def print_table(runs: list[dict[str, Any]]) -> None:
    """Mean over the seeds (smallest to largest) of each kind, and the ratio ours / TRL, seed by seed."""
    for name, label in SHOWN.items():
        print(f"\n{label}")
        theirs = [run[name] for run in runs if run["kind"] == TRL]
        print(f"  {'TRL 1.12':10} {spread(theirs)}")
        for kind in OURS:
            ours = [run[name] for run in runs if run["kind"] == kind]
            ratios = "" if name == "kl_last" else spread([a / b for a, b in zip(ours, theirs, strict=True)])
            print(f"  {kind:10} {spread(ours)}{'   ratio ' + ratios if ratios else ''}")


def spread(values: list[float]) -> str:
    digits = 1 if max(values) >= 100 else 4
    return f"{statistics.mean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=int, default=20, help=f"rollouts of {BATCH} completions")
    parser.add_argument("--learning-rate", type=float, default=5e-4, help="of the policy on both sides")
    parser.add_argument("--out", type=Path, help="a JSON file for settings, figures and curves")
    parser.add_argument("overrides", nargs="*", help="for our side alone")
    options = parser.parse_args()
    python = make_environment()
    kinds, runs = [TRL, *OURS], []
    with tempfile.TemporaryDirectory() as scratch:
        for i, seed in enumerate(map(int, options.seeds.split(","))):
            for kind in kinds[i % 3 :] + kinds[: i % 3]:
                run = measure(kind, seed, options, python, Path(scratch))
                runs.append(run)
                print(f"seed {seed} {kind}: " + ", ".join(f"{SHOWN[n]} {run[n]:.4g}" for n in SHOWN), flush=True)
    print_table(runs)
    if options.out:
        write_json(options.out, {"trl": list_arguments(options, 0), "ours": list_overrides(options), "runs": runs})


if __name__ == "__main__":
    main()
