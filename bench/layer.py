"""Measures what this package costs on top of TRL: seconds per step of `python -m rlhf_exp` and of bench/plain_trl.py.

    python bench/layer.py --steps 12 --repeats 5

Both have the same model, rows, arguments and sampling (generation=trl), and take turns, each in a process of its own. A
step is the time from one log to the next, so it includes the probe and metrics.jsonl. Prints the median step of each
run and the ratio layer / plain of each pair.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from itertools import pairwise
from pathlib import Path

from transformers import AutoTokenizer

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.runs.files import write_json, write_jsonl
from rlhf_exp.tasks import load_task


def measure_layer(overrides: list[str], folder: Path) -> float:
    command = [sys.executable, "-m", "rlhf_exp", *overrides, f"output_dir={folder}"]
    subprocess.run(command, check=True, capture_output=True)
    times = [json.loads(line)["time_s"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return median_step(times)


def measure_plain(model: Path, rows: Path, arguments: Path, out: Path) -> float:
    script = Path(__file__).parent / "plain_trl.py"
    subprocess.run([sys.executable, script, model, rows, arguments, out], check=True, capture_output=True)
    return median_step(json.loads(out.read_text())[:-1])  # the last log is the summary


def median_step(times: list[float]) -> float:
    return statistics.median(later - earlier for earlier, later in pairwise(times))


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    overrides = ["generation=trl", "reward=outcome", "eval.rows=16", "algo.args.save_strategy=no"]
    overrides += [f"algo.args.max_steps={options.steps}"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cfg = compose_config([*overrides, f"output_dir={folder / 'plain'}"])
        tokenizer = AutoTokenizer.from_pretrained(ASSETS / "tiny")
        write_jsonl(folder / "rows.jsonl", load_task(cfg, tokenizer).train)
        write_json(folder / "args.json", cfg.algo.args)
        pairs = []
        for i in range(options.repeats):
            plain = measure_plain(ASSETS / "tiny", folder / "rows.jsonl", folder / "args.json", folder / f"{i}.json")
            layer = measure_layer(overrides, folder / f"layer_{i}")
            pairs.append((layer, plain))
            print(f"pair {i}: layer {layer:.3f} s, plain {plain:.3f} s per step, ratio {layer / plain:.3f}", flush=True)
    ratios = sorted(layer / plain for layer, plain in pairs)
    print(
        f"ratio layer / plain: median {statistics.median(ratios):.3f},"
        f" {ratios[0]:.3f} to {ratios[-1]:.3f}, n={len(ratios)}"
    )


if __name__ == "__main__":
    main()
