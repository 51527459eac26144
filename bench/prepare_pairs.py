"""Measures the seconds to prepare HH-RLHF's pairs: read and split them, render them, and count tokens.

    python -m bench.prepare_pairs --data ../shared/data/hh-rlhf --tokenizers ../shared/data/tokenizers

Prints wall seconds and rows per second over repeats, and what 160,000 pairs (about the size of the hub's train split)
would take if every step were linear in the rows: an extrapolation, not a measurement. A run counts the tokens of every
pair once; a tokenizer without a chat template (gpt2) renders none.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.forms import PAIR
from rlhf_exp.tasks import Loader, hh_rlhf
from rlhf_exp.tasks.tokens import measure

SHARED = ROOT.parent / "shared" / "data"
TOKENIZERS = {"gpt2": False, "qwen3": True}  # name: in chat form
REPEATS, TARGET = 3, 160_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=SHARED / "hh-rlhf", help="folder of the pairs (.jsonl.gz)")
    parser.add_argument("--tokenizers", type=Path, default=SHARED / "tokenizers", help="folder with gpt2/ and qwen3/")
    args = parser.parse_args()
    folders = [args.data, *(args.tokenizers / name for name in TOKENIZERS)]
    if missing := [str(folder) for folder in folders if not folder.is_dir()]:
        print(f"nothing measured, no such folder: {', '.join(missing)}; see --data and --tokenizers")
        return

    cfg = compose_config(["algo=dpo", "task=hh_rlhf", "task.source=file", f"task.path='{args.data}'"])
    source = hh_rlhf.read(cfg.task)
    items, read = [item for members in source.splits.values() for item in members], sum(source.read.values())
    n = len(items)
    print(f"{read} pairs read, {n} of them kept, {os.cpu_count()} CPU cores, {REPEATS} repeats")
    report("read and split", read, lambda: hh_rlhf.read(cfg.task))
    for name, chat in TOKENIZERS.items():
        tokenizer = AutoTokenizer.from_pretrained(args.tokenizers / name)
        title = f"{name}: chat template" if chat else f"{name}: plain text"
        rows = [row for _, row in Loader(cfg, tokenizer, chat, hh_rlhf, source).write(items, PAIR, 0)]
        prompts, answers = [row["prompt"] for row in rows], [(row["chosen"], row["rejected"]) for row in rows]
        report(f"{title}, rendered and counted", n, partial(measure, tokenizer, prompts, answers))


def report(title: str, rows: int, step: Callable[[], Any]) -> Any:
    """Time `step`, which works on `rows` rows, print a line, and return what it returned last."""
    times_s = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = step()
        times_s.append(time.perf_counter() - start)
    low, middle, high = min(times_s), statistics.median(times_s), max(times_s)
    print(
        f"{title}: median {middle:.2f} s (min {low:.2f}, max {high:.2f}), {rows / middle:,.0f} rows/s;"
        f" extrapolated to {TARGET:,} pairs {middle * TARGET / rows:.0f} s",
        flush=True,
    )
    return result


if __name__ == "__main__":
    main()
