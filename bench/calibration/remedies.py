"""Tries the diagnosis's own remedies: does the first one that it proposes, alone, make a sick run healthy and better?

    python bench/calibration/remedies.py       # two runs each of sick settings, two more with the remedy; remedies.json

Of each kind of failure that an override can undo, seeds 10 and 11: the remedy of the earliest finding that names it
rightly. `reward=...` replaces the faulty reward. Left out, and counted, are faults of code and of rows, which no
override undoes, and top_p, which the preflight alone names.
"""

import json
import re
from pathlib import Path
from typing import Any

import torch
from archive import pack, to_rows
from run import OFF, execute
from settings import FAILURES, HERE, MEANT, ROOT, SHARED
from tables import list_remedies

from rlhf_exp import pipeline
from rlhf_exp.diagnose import diagnose
from rlhf_exp.runs.load import NotARun

SEEDS = (10, 11)
OUTCOME = HERE / "remedies.json"
IN_CODE = {"top_p", "wrong_reference", "frozen_adapter", "no_eos", "critic_noise", "labels_flipped",
           "reward_model_length", "stale_sampling", "test_rows_in_training"}  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    pipeline._report_and_push = lambda cfg, folder: 0  # type: ignore[assignment]
    rows = [try_remedy(kind, seed) for kind in FAILURES if kind not in IN_CODE for seed in SEEDS]
    OUTCOME.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")
    print(list_remedies())


def try_remedy(kind: str, seed: int) -> dict[str, Any]:
    overrides = [*SHARED, *FAILURES[kind], *OFF, f"seed={seed}"]
    sick, accuracy = judge(ROOT / "remedies" / "sick" / f"{kind}-{seed}", overrides)
    right = set(MEANT[kind][1].split())
    proposed = [found for found in sick if found["name"] in right and found["remedy"]]
    by, remedy = (proposed[0]["name"], proposed[0]["remedy"]) if proposed else ("", None)
    row = {"kind": kind, "seed": seed, "by": by, "remedy": remedy}
    if remedy is None:
        return row | {"healthy": False, "better": False}
    kept = [one for one in overrides if not (remedy.startswith("reward=") and "reward" in one)]
    try:
        still, after = judge(ROOT / "remedies" / re.sub(r"[^\w.-]", "_", remedy) / f"{kind}-{seed}", [*kept, remedy])
    except NotARun:
        return row | {"healthy": False, "better": False, "still": ["refused with the other overrides"]}
    better = after is not None and accuracy is not None and after > accuracy
    return row | {"healthy": not still, "better": better, "accuracy": [accuracy, after],
                  "still": [found["name"] for found in still]}  # fmt: skip


def judge(folder: Path, overrides: list[str]) -> tuple[list[dict[str, Any]], float | None]:
    """The findings that accuse the run, and its held-out accuracy after training."""
    execute([*overrides, "eval.seed=${seed}", f"output_dir={folder}"], folder)
    run = pack(folder)
    metrics, samples = to_rows(run["metrics"]), to_rows(run["samples"])
    said = diagnose(metrics, run["evaluation"], run["config"], run["room"], samples)["findings"]
    accuracy = run["evaluation"].get("trained", {}).get("accuracy", {}).get("value")
    return [found for found in said if found["severity"] != "info"], accuracy


if __name__ == "__main__":
    main()
