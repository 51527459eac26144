"""Kills runs with SIGKILL, resumes each, and compares the results with those of a run that was never killed.

    python bench/kills.py                      # 20 kills of GRPO, every second one while it saves
    python bench/kills.py --kills 6 --seed 1 algo=ppo algo.args.num_iterations=1

Half of the kills wait until a checkpoint is being saved, the others for a random time. A run with a whole checkpoint
is resumed with `resume=`, one without is started anew in its folder. Weights, metrics except times, evaluation,
samples, tokens and compute must be equal. Libraries are imported once: each run is a fork of this process.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from rlhf_exp import __main__ as command_line
from rlhf_exp.runs.checkpoints import find_checkpoint
from rlhf_exp.runs.manifest import STAGING

SETTINGS = [
    *("max_tokens=16", "algo.args.per_device_train_batch_size=8", "algo.args.max_steps=8", "algo.args.save_steps=2"),
    *("eval.rows=4", "eval.cache_dir=cache", "monitor.every_steps=2", "device=cpu", "device.threads=1"),
]
SAVES = (2, 4, 6, 8)
TIMES = {"time_s", "step_time", "step_seconds", "train_runtime", "train_samples_per_second", "train_steps_per_second"}
LIMIT_S = 300


def main() -> int:
    """Print a line per kill and the totals. Returns 0 if every run reached the same result, and enough of them were
    killed while saving."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("overrides", nargs="*", default=["algo=grpo", "algo.args.num_generations=4"])
    asked = parser.parse_args()
    for name in ("pipeline", "trainers.grpo", "trainers.ppo"):
        import_module(f"rlhf_exp.{name}")
    rng = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        start = [*SETTINGS, *asked.overrides]
        seconds = run_through([*start, "output_dir=whole"])
        whole = read_result(Path("whole"))
        print(f"unbroken: {seconds:.1f} s; {asked.kills} kills, seed {asked.seed}", flush=True)
        same = saving = 0
        for number in range(asked.kills):
            folder = Path(f"run-{number:02d}")
            hit = kill_run([*start, f"output_dir={folder}"], folder, rng, seconds, aim=number % 2 == 0)
            found = find_checkpoint(folder)
            again = [f"resume={folder}"] if found.path else [*start, f"output_dir={folder}", "skip_finished=true"]
            run_through(again)
            differing = [name for name, value in read_result(folder).items() if value != whole[name]]
            same, saving = same + (not differing), saving + (hit == "saving")
            said = f"differs in {', '.join(differing)}" if differing else "the same result"
            print(f"{number + 1:3} killed {hit:9} from {found.path.name if found.path else 'the start':14} {said}")
            sys.stdout.flush()
            shutil.rmtree(folder)
        print(f"{same} of {asked.kills} reached the same result; {saving} were killed while saving")
        return int(same < asked.kills or saving < 0.4 * asked.kills)


def launch(arguments: list[str]) -> int:
    """Start `python -m rlhf_exp` with these arguments; returns its process id."""
    process = os.fork()
    if process:
        return process
    with open("log", "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.argv = ["rlhf_exp", *arguments]
    status = 1
    try:
        status = command_line.main()
    finally:
        sys.stdout.flush()
        os._exit(status)


def run_through(arguments: list[str]) -> float:
    """Run to the end; returns the seconds.

    Raises:
        RuntimeError: the run failed.
    """
    began = time.perf_counter()
    _, ended = os.waitpid(launch(arguments), 0)
    if status := os.waitstatus_to_exitcode(ended):
        raise RuntimeError(f"{' '.join(arguments)}: exit status {status}\n{Path('log').read_text()[-2000:]}")
    return time.perf_counter() - began


def kill_run(arguments: list[str], folder: Path, rng: random.Random, seconds: float, aim: bool) -> str:
    """Start a run and kill it: while it saves if `aim`, else after a random part of `seconds`. Returns when it was
    killed: before (training), training, saving or after."""
    staging = folder / "checkpoints" / STAGING / f"checkpoint-{rng.choice(SAVES)}"
    wait_s = rng.uniform(0, 0.05) if aim else rng.uniform(0.1, 1) * seconds
    process = launch(arguments)
    limit = time.perf_counter() + LIMIT_S
    while aim and not staging.exists():
        if time.perf_counter() > limit:
            raise RuntimeError(f"{folder}: saved no {staging.name}\n{Path('log').read_text()[-2000:]}")
        time.sleep(0.0005)
    time.sleep(wait_s)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    if staging.parent.exists():
        return "saving"
    metrics, model = folder / "metrics.jsonl", folder / "model"
    if not metrics.exists() or not metrics.read_text():
        return "before"
    return "after" if model.exists() else "training"


def read_result(folder: Path) -> dict[str, object]:
    """All that must be equal, by name."""
    from safetensors.torch import load_file

    record = json.loads((folder / "run.json").read_text())
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {
        "weights": {k: v.numpy().tobytes() for k, v in load_file(folder / "model" / "model.safetensors").items()},
        "metrics": [{k: v for k, v in row.items() if k not in TIMES} for row in rows],
        "evaluation": (folder / "evaluation.json").read_text(),
        **{
            name: (folder / name).read_text()
            for name in ("samples.jsonl", "policies.jsonl", "validation.jsonl")
            if (folder / name).exists()
        },
        "status": record["status"],
        "counts": {name: record[name] for name in ("steps", "tokens", "prompt_tokens", "completion_tokens")},
        "work": {name: n for name, n in record["work"].items() if name != "step_seconds"},
    }


if __name__ == "__main__":
    sys.exit(main())
