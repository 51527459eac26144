"""Measures what this package costs on top of TRL: seconds per step of `python -m rlhf_exp` and of bench/plain_trl.py.

    python bench/layer.py --steps 12 --repeats 5

Both have the same model, rows, arguments and sampling (generation=trl), and take turns, each in a process of its own. A
step is the time from one log to the next, so it includes the probe and metrics.jsonl. Prints the median step of each
run and the ratio layer / plain of each pair.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.trl_args import fill_args
from rlhf_exp.models.loading import load_tokenizer
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.runs.files import write_json, write_jsonl
from rlhf_exp.tasks import load_task


class Speed(NamedTuple):
    """Of a run's steps but for the first the median and the tokens, and the peak while it trained."""

    step_s: float
    tokens_s: float
    peak_mb: float


def measure_pairs(algo: str, overrides: list[str], repeats: int, folder: Path) -> Iterator[tuple[Speed, Speed]]:
    """The layer's speed and that of plain TRL, as often as `repeats` says; which of them runs first alternates."""
    overrides = [f"algo={algo}", *overrides]
    cfg = compose_config([*overrides, f"output_dir={folder / 'plain'}"])
    source, config = locate_start_model(cfg), resolve_name(f"trl:{algo.upper()}Config")
    write_jsonl(folder / "plain_rows.jsonl", load_task(cfg, load_tokenizer(source)).train)
    known = {field.name for field in fields(config)}
    write_json(folder / "args.json", {name: value for name, value in fill_args(cfg).items() if name in known})
    for i in range(repeats):
        layer = partial(measure_layer, overrides, folder / f"layer_{i}")
        first = layer() if i % 2 else None
        plain = measure_plain(algo, source.path, folder)
        yield first or layer(), plain


def measure_layer(overrides: list[str], folder: Path) -> Speed:
    shutil.rmtree(folder, ignore_errors=True)
    _run(["-m", "rlhf_exp", *overrides, f"output_dir={folder}"])
    logs = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return measure_steps(logs, json.loads((folder / "run.json").read_text())["phase_memory_mb"]["train"])


def measure_plain(algo: str, model: str, folder: Path) -> Speed:
    script = str(Path(__file__).parent / "plain_trl.py")
    _run([script, algo, model, *(str(folder / name) for name in ("plain_rows.jsonl", "args.json", "plain.json"))])
    return measure_steps(**json.loads((folder / "plain.json").read_text()))


def measure_steps(logs: list[dict[str, Any]], peak_mb: float) -> Speed:
    steps, tokens = ([b[key] - a[key] for a, b in pairwise(logs)] for key in ("time_s", "num_tokens"))
    return Speed(statistics.median(steps), sum(tokens) / sum(steps), peak_mb)


def _run(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    overrides = ["generation=trl", "reward=outcome", "eval.rows=16", "algo.args.save_strategy=no"]
    overrides += [f"algo.args.max_steps={options.steps}"]
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for i, (layer, plain) in enumerate(measure_pairs("grpo", overrides, options.repeats, Path(folder))):
            ratios.append(layer.step_s / plain.step_s)
            said = f"layer {layer.step_s:.3f} s, plain {plain.step_s:.3f} s per step, ratio {ratios[-1]:.3f}"
            print(f"pair {i}: {said}", flush=True)
    ratios.sort()
    print(
        f"ratio layer / plain: median {statistics.median(ratios):.3f},"
        f" {ratios[0]:.3f} to {ratios[-1]:.3f}, n={len(ratios)}"
    )


if __name__ == "__main__":
    main()
