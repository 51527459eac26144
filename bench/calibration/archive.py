"""Packs what rules read of each run into two compressed files beside this one, and reads them again.

    python bench/calibration/archive.py                # adds the folders below settings.ROOT
    for run in read_archive("healthy"): run.name, run.seed, run.metrics, run.evaluation, run.config, run.samples

A line per run. Numbers have six significant digits; a column that the rows of a run share is one list. Keys of the
config that no rule reads are left out.
"""

import json
import lzma
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from settings import HERE, ROOT, SEEDS

if TYPE_CHECKING:
    from rlhf_exp.runs.records import Completion, Evaluation

KINDS = ("healthy", "healthy_test", "failures")
OTHERS = ("others", "others_failures", "others_developed", "others_failures_developed")
"""Runs of others.py, which are in no calibration; those of real.py are neither."""
REAL = tuple(name.replace("others", "real") for name in OTHERS)
KEPT = ("which", "id", "sample", "decoding", "completion", "tokens", "truncated", "outcome", "extracted", "rewards",
        "reward", "kl")  # fmt: skip
"""Of a row of samples.jsonl."""
LEFT_OUT = ("hydra", "hub", "logging", "output_dir")
"""Of a config."""


class Archived(NamedTuple):
    name: str
    seed: int
    status: str
    room: int | None
    cpu_s: float
    metrics: list[dict[str, Any]]
    evaluation: "Evaluation"
    config: dict[str, Any]
    samples: list["Completion"]
    checks: dict[str, str]
    """Of the preflight of a run of this setting and seed: name and status."""


def write_archive(root: Path = ROOT, to: Path = HERE) -> None:
    """Add the runs below `root` to those archived; SEEDS says to which file a run belongs."""
    lines = {}
    for kind in KINDS:
        packed = add_runs(kind, root, to)
        lines |= {(kind == "failures", run["name"], run["seed"]): json.dumps(run) for run in packed}
    for kind, seeds in SEEDS.items():
        kept = [lines[key] for key in sorted(lines) if key[0] == (kind == "failures") and key[2] in seeds]
        (to / f"{kind}.jsonl.xz").write_bytes(lzma.compress("\n".join(kept).encode(), preset=9))
        print(f"{kind}: {len(kept)} runs, {(to / f'{kind}.jsonl.xz').stat().st_size / 1e6:.2f} MB")


def write_others(kinds: tuple[str, ...] = OTHERS, root: Path = ROOT, to: Path = HERE) -> None:
    """Add the runs of others.py, or with REAL of real.py, below `root` to those archived."""
    for kind in kinds:
        lines = {(run["name"], run["seed"]): json.dumps(run) for run in add_runs(kind, root, to)}
        kept = [lines[key] for key in sorted(lines)]
        (to / f"{kind}.jsonl.xz").write_bytes(lzma.compress("\n".join(kept).encode(), preset=9))
        print(f"{kind}: {len(kept)} runs")


def add_runs(kind: str, root: Path, to: Path) -> list[dict[str, Any]]:
    """The archived runs of a kind, and after them those that have ended below `root`."""
    packed = [json.loads(line) for line in read_lines(kind, to)]
    return [*packed, *(pack(folder) for folder in sorted((root / kind).glob("*")) if is_done(folder))]


def read_lines(kind: str, place: Path) -> list[str]:
    return lzma.decompress((place / f"{kind}.jsonl.xz").read_bytes()).decode().splitlines()


def is_done(folder: Path) -> bool:
    """Whether the run has ended; a failure may have ended itself by an error, such as a NaN."""
    return (folder / "cpu_seconds.json").exists()


def pack(folder: Path) -> dict[str, Any]:
    from rlhf_exp.runs.load import load_run  # here, since recorder.py runs without this package

    name, _, seed = folder.name.rpartition("-")
    run = load_run(folder)
    samples = [one.model_dump(exclude_unset=True) for one in run.samples]
    config = {key: value for key, value in run.config.items() if key not in LEFT_OUT}
    return {
        "name": name,
        "seed": int(seed),
        "status": run.status,
        "room": run.info.context_room,
        "cpu_s": round(json.loads((folder / "cpu_seconds.json").read_text(encoding="utf-8")), 1),
        "metrics": to_columns(run.metrics),
        "evaluation": shorten(run.evaluation.model_dump(exclude_unset=True)),
        "config": config,
        "samples": to_columns([{key: row[key] for key in KEPT if key in row} for row in samples]),
        "checks": read_checks(folder.parent.parent / f"preflight_{folder.parent.name}" / folder.name),
    }


def read_checks(folder: Path) -> dict[str, str]:
    path = folder / "preflight.json"
    return {one["name"]: one["status"] for one in json.loads(path.read_text())["checks"]} if path.exists() else {}


def read_archive(kind: str, place: Path = HERE) -> list[Archived]:
    """The archived runs of one of KINDS, in the order of their names and seeds."""
    from rlhf_exp.runs.records import Completion, Evaluation

    runs = []
    for line in read_lines(kind, place):
        packed = json.loads(line)
        move_arguments(packed["config"]["algo"])
        records = {"evaluation": Evaluation(**packed["evaluation"])}
        records["samples"] = [Completion(**row) for row in to_rows(packed["samples"])]
        runs.append(Archived(**packed | records | {"metrics": to_rows(packed["metrics"])}))
    return runs


def move_arguments(algo: dict[str, Any]) -> None:
    """Move the arguments of this package's trainers below `args`: when these runs were made, they stood beside it."""
    for name in [name for name in algo if name not in ("name", "args", "trainer")]:
        value = algo.pop(name)
        inner = {f"{name}_{key}": of_key for key, of_key in value.items()} if isinstance(value, dict) else {name: value}
        algo["args"] |= inner


def to_columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows as {"n": rows, "keys": {key: [the numbers of the rows that have it, or None for all, the values]}}."""
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = {}
    for key in keys:
        having = [i for i, row in enumerate(rows) if key in row]
        columns[key] = [None if len(having) == len(rows) else having, [shorten(rows[i][key]) for i in having]]
    return {"n": len(rows), "keys": columns}


def to_rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{} for _ in range(columns["n"])]
    for key, (having, values) in columns["keys"].items():
        for i, value in zip(having if having is not None else range(len(rows)), values, strict=True):
            rows[i][key] = value
    return rows


def shorten(value: Any) -> Any:
    """Floats to six significant digits, at any depth."""
    if isinstance(value, dict):
        return {key: shorten(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shorten(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


if __name__ == "__main__":
    write_archive()
