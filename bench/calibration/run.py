"""Runs the calibration, one run after the other, and leaves out what is finished; takes hours.

python bench/calibration/run.py                      # healthy runs and failures, seed by seed
python bench/calibration/run.py --only dpo kto --seeds 100 --root /tmp/pilot
python bench/calibration/run.py --preflight          # their first steps alone, with the preflight on
python bench/calibration/run.py --others             # settings and kinds of others, which are in no calibration
python bench/calibration/run.py --real               # those of a real model, which are in none either
"""

import argparse
import json
import shutil
import time
import traceback
from pathlib import Path
from types import ModuleType

import others
import real
import torch
from settings import DEVELOPED, FAILURES, HEALTHY, PREPARED, ROOT, SEEDS, SHARED

from rlhf_exp import compose, pipeline, run
from rlhf_exp.errors import ConfigError, FailedCheck, NonFiniteLoss

OFF = ["preflight=off"]
"""What failures are run with: the diagnosis is measured, and the preflight would refuse some of them."""
ON = ["preflight=on"]


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--root", type=Path, default=ROOT)
    arguments.add_argument("--only", nargs="+", default=[])
    arguments.add_argument("--seeds", nargs="+", type=int)
    arguments.add_argument("--preflight", action="store_true")
    arguments.add_argument("--others", action="store_true")
    arguments.add_argument("--real", action="store_true")
    arguments.add_argument("--part", nargs=2, type=int, default=[0, 1], help="0 2 and 1 2: for two workers")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    pipeline._report_and_push = lambda cfg, folder: 0  # type: ignore[assignment]  # a tenth of a run's time
    if given.real:
        real.write_sums()
    prepare(real.PREPARED if given.real else PREPARED)
    if given.real or given.others:
        plan = list_others("real", real) if given.real else list_others("others", others)
    else:
        plan = list_runs(given.seeds)
    plan = [one for one in plan if not given.only or one[1] in given.only]
    if given.preflight:
        plan = [
            (
                f"preflight_{kind}",
                name,
                seed,
                [*overrides, *ON, f"algo.args.max_steps={24 if 'algo=ppo' in overrides else 12}"],
            )
            for kind, name, seed, overrides in plan
            if kind == "healthy" or kind == "failures" and seed not in DEVELOPED
        ]
    for number, (kind, name, seed, overrides) in enumerate(plan[given.part[0] :: given.part[1]]):
        folder = given.root / kind / f"{name}-{seed}"
        execute([*SHARED, *overrides, "eval.seed=${seed}", f"output_dir={folder}"], folder)
        done = f"{number + 1} of {len(plan) // given.part[1]}"
        print(f"STATE {time.strftime('%H:%M:%S')} {done} {kind}/{name}-{seed}", flush=True)


def prepare(runs: dict[str, list[str]]) -> None:
    """Make the runs that others start from, where they are not made yet."""
    for name, overrides in runs.items():
        execute([*overrides, "seed=0", f"output_dir={ROOT}/prepared/{name}"], ROOT / "prepared" / name)


def list_runs(seeds: list[int] | None = None) -> list[tuple[str, str, int, list[str]]]:
    """(kind, name, seed, overrides), seed by seed, healthy runs and failures in turn."""
    plan = []
    for seed in seeds or sorted({seed for of_kind in SEEDS.values() for seed in of_kind}):
        kinds = [kind for kind, of_kind in SEEDS.items() if seed in of_kind] if not seeds else ["healthy", "failures"]
        parts = []
        for kind in kinds:
            settings = FAILURES if kind == "failures" else HEALTHY
            parts.append([
                (kind, name, seed, [*given, *(OFF if kind == "failures" else []), f"seed={number}"])
                for place, (name, given) in enumerate(settings.items())
                for number in [seed if kind == "failures" else 100 * seed + place]
            ])  # fmt: skip
        plan += [one for _, one in sorted((i / len(part), one) for part in parts for i, one in enumerate(part))]
    return plan


def list_others(kind: str, of: ModuleType) -> list[tuple[str, str, int, list[str]]]:
    """As `list_runs`, of others.py or real.py, seed by seed: those that rules may be mended on first."""
    plan = []
    for seed, seed_of_failures in zip(of.SEEDS["healthy"], of.SEEDS["failures"], strict=True):
        for part, healthy, failures in (
            ("_developed", of.HEALTHY_DEVELOPED, of.FAILURES_DEVELOPED),
            ("", of.HEALTHY, of.FAILURES),
        ):
            plan += [(f"{kind}{part}", name, seed, [*given, f"seed={100 * seed + place}"])
                     for place, (name, given) in enumerate(healthy.items())]  # fmt: skip
            plan += [(f"{kind}_failures{part}", name, seed_of_failures, [*given, *OFF, f"seed={seed_of_failures}"])
                     for name, given in failures.items()]  # fmt: skip
    return plan


def execute(overrides: list[str], folder: Path) -> None:
    """One run, unless it has ended before; one that was cut off begins anew. An error ends it, and not the batch; that
    of a sick run (NaN) is its end."""
    if (folder / "cpu_seconds.json").exists() or (folder / "failed.txt").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    began = time.process_time()
    try:
        run(compose([*overrides, f"eval.cache_dir={ROOT}/cache"]))
    except Exception as error:
        folder.mkdir(parents=True, exist_ok=True)
        print(f"FAILED {folder}", flush=True)
        refused = isinstance(error, FailedCheck | ConfigError) and (folder / "preflight.json").exists()
        if not (refused or isinstance(error, NonFiniteLoss)):
            (folder / "failed.txt").write_text(traceback.format_exc(), encoding="utf-8")
            return
    (folder / "cpu_seconds.json").write_text(json.dumps(time.process_time() - began), encoding="utf-8")
    for part in ("model", "checkpoints", "samples"):
        if folder.parent.name != "prepared":
            shutil.rmtree(folder / part, ignore_errors=True)


if __name__ == "__main__":
    main()
