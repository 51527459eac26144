"""Held-out completions by vLLM and by transformers: the same accuracy and lengths, and how long each takes.

    .venv-engines/bin/python bench/vllm_evaluation.py RUN_DIR          # a run of Countdown that has saved full weights

On a CPU, one thread, the engines one after the other in one process. `correlation`: of start and trained model being
right on the same row, which shared random numbers raise.
"""

import os
import time
from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation.completions import EvalSet, sample_rows
from rlhf_exp.models.loading import load_policy, load_tokenizer
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.tasks import load_task

PARSER = ArgumentParser(description=__doc__.splitlines()[0])
PARSER.add_argument("run", type=Path, metavar="RUN_DIR")
PARSER.add_argument("--completions", type=int, default=6, help="of each of 1,024 rows")
PARSER.add_argument("--seed", type=int, default=0)


def main() -> None:
    args = PARSER.parse_args()
    k = args.completions
    cfg = compose_config(["device=cpu", "eval.rows=1024", f"eval.completions={k}", f"eval.start_completions={k}"])
    cfg = replace(cfg, eval=replace(cfg.eval, seed=args.seed))
    start = locate_start_model(cfg)
    tokenizer = load_tokenizer(start)
    task = load_task(cfg, tokenizer)
    rows = [row for row in task.eval for _ in range(k)]
    print(f"{len(rows):,} completions   accuracy      tokens   cut off   seconds   correlation")
    for engine in ("transformers", "vllm"):
        right = {}
        for which, source in (("start", start), ("trained", start.at(args.run / "model"))):
            own = replace(cfg, eval=replace(cfg.eval, engine=engine))
            model, began = load_policy(source), time.perf_counter()
            found = sample_rows(EvalSet.of(own, task, tokenizer), model, source=source)
            seconds = time.perf_counter() - began
            texts = tokenizer.batch_decode([one.ids for one in found], skip_special_tokens=True)
            right[which] = np.array([task.grade(text, row).score == 1 for text, row in zip(texts, rows, strict=True)])
            tokens, truncated = np.mean([len(one.ids) for one in found]), np.mean([one.truncated for one in found])
            both = f"{np.corrcoef(right['start'], right['trained'])[0, 1]:.2f}" if which == "trained" else ""
            figures = f"{right[which].mean():8.1%}  {tokens:10.1f}  {truncated:8.1%}  {seconds:8.1f}  {both:>12}"
            print(f"{engine:>12} {which:<7} {figures}", flush=True)


if __name__ == "__main__":
    main()
