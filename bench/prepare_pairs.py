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
from rlhf_exp.tasks.hh_rlhf.pairs import read_pairs, split_pairs
from rlhf_exp.tasks.hh_rlhf.rows import build_row
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
    pairs, read, _ = read_pairs(cfg)
    n = len(pairs)
    print(f"{read.total()} pairs read, {n} of them kept, {os.cpu_count()} CPU cores, {REPEATS} repeats")
    report("read and split", read.total(), lambda: split_pairs(read_pairs(cfg)[0]))
    for name, chat in TOKENIZERS.items():
        tokenizer = AutoTokenizer.from_pretrained(args.tokenizers / name)
        title = f"{name}: chat template" if chat else f"{name}: plain text"
        rows = [build_row(pair, chat) for pair in pairs]
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
