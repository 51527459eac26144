"""Tries the diagnosis's own remedies: do they make a sick run healthy and better, the first alone and all together?

    python bench/calibration/remedies.py       # two runs of each sick setting and of each with remedies; remedies.json

Of each kind of failure that an override can undo, two seeds that nothing else has seen: `alone` is the remedy of the
earliest finding that names it rightly; `together` are those of all findings that can be given together, as the program
lists them. `reward=...` replaces the faulty reward. Left out, and counted, are faults of code and of rows, which no
override undoes, and top_p, which the preflight alone names.
"""

import json
import re
from pathlib import Path
from typing import Any

import torch
from archive import pack, to_rows
from run import OFF, execute, prepare
from settings import FAILURES, HERE, MEANT, ROOT, SHARED
from tables import list_remedies

from rlhf_exp import pipeline
from rlhf_exp.analysis.diagnose import diagnose
from rlhf_exp.runs.files import NotARun
from rlhf_exp.runs.records import Completion, Evaluation, Finding

SEEDS = (20, 21)
OUTCOME = HERE / "remedies.json"
IN_CODE = {"top_p", "wrong_reference", "frozen_adapter", "no_eos", "critic_noise", "labels_flipped",
           "reward_model_length", "stale_sampling", "test_rows_in_training"}  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    pipeline._report_and_push = lambda cfg, folder: 0  # type: ignore[assignment]
    prepare()
    rows = [try_remedies(kind, seed) for kind in FAILURES if kind not in IN_CODE for seed in SEEDS]
    OUTCOME.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")
    print(list_remedies())


def try_remedies(kind: str, seed: int) -> dict[str, Any]:
    overrides = [*SHARED, *FAILURES[kind], *OFF, f"seed={seed}"]
    sick, together, accuracy = judge(ROOT / "remedies" / "sick" / f"{kind}-{seed}", overrides)
    right = set(MEANT[kind][1].split())
    proposed = [found for found in sick if found.name in right and found.remedy]
    alone = proposed[:1]
    return {"kind": kind, "seed": seed, "by": alone[0].name if alone else "", "accuracy": accuracy,
            "alone": compare(f"{kind}-{seed}", overrides, [found.remedy for found in alone], accuracy),
            "together": compare(f"{kind}-{seed}", overrides, together, accuracy)}  # fmt: skip


def compare(name: str, overrides: list[str], remedies: list[str], before: float | None) -> dict[str, Any]:
    """The run with these remedies: whether it is healthy, and more accurate than `before`, without them."""
    tried: dict[str, Any] = {"remedies": remedies, "healthy": False, "better": False, "found": []}
    if not remedies:
        return tried
    kept = [one for one in overrides if not ("reward" in one and any(text.startswith("reward=") for text in remedies))]
    folder = ROOT / "remedies" / re.sub(r"[^\w.-]", "_", "+".join(remedies)) / name
    try:
        found, _, accuracy = judge(folder, [*kept, *remedies])
    except NotARun:
        return tried | {"found": ["refused with the other overrides"]}
    better = accuracy is not None and before is not None and accuracy > before
    return tried | {"healthy": not found, "better": better, "accuracy": accuracy,
                    "found": [one.name for one in found]}  # fmt: skip


def judge(folder: Path, overrides: list[str]) -> tuple[list[Finding], list[str], float | None]:
    """The findings that flag the run, what they propose together, and its held-out accuracy after training."""
    execute([*overrides, "eval.seed=${seed}", f"output_dir={folder}"], folder)
    run = pack(folder)
    metrics, evaluation = to_rows(run["metrics"]), Evaluation(**run["evaluation"])
    samples = [Completion(**row) for row in to_rows(run["samples"])]
    said = diagnose(metrics, evaluation, run["config"], run["room"], samples)
    accuracy = run["evaluation"].get("trained", {}).get("accuracy", {}).get("value")
    return [found for found in said.findings if found.severity != "info"], said.remedies, accuracy


if __name__ == "__main__":
    main()
