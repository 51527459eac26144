"""A job's folder that may hold its run already, and the one report over all jobs; imports no ML library.

plan = plan_job(config)          # with skip_finished=true: Plan.START, RESUME or SKIP
report_study(Path("outputs/compare"))
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rlhf_exp.config import Config, ConfigError

# What may differ between two runs of the same settings: where and how a run happens, not what it does.
CIRCUMSTANCES = ("output_dir", "resume", "dry_run", "skip_finished", "eval.cache_dir",
                 "algo.args.output_dir", "algo.args.report_to", "algo.args.disable_tqdm")  # fmt: skip
SHOWN = 3


class Plan(Enum):
    START = "start"
    RESUME = "resume"
    SKIP = "skip"


def plan_job(cfg: Config) -> Plan:
    """What is left to do in `cfg.output_dir`. An unfinished run goes on from its last checkpoint, or starts anew where
    it has none; only run.json is then removed: samples that it drew already are kept and used.

    Raises:
        ConfigError: the folder holds a run of other settings, which would be lost.
    """
    folder = Path(cfg.output_dir)
    status = _read_status(folder)
    if status == "none":
        return Plan.START
    if status != "refused":
        if differing := list(_compare(list_settings(OmegaConf.load(folder / ".hydra" / "config.yaml")), cfg)):
            more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
            raise ConfigError(
                [
                    f"output_dir={folder}: holds a run of other settings ({', '.join(differing[:SHOWN])}{more});"
                    " use another output_dir"
                ]
            )
        if status == "finished":
            return Plan.SKIP
        if any(folder.glob("checkpoints/checkpoint-*")):
            return Plan.RESUME
    (folder / "run.json").unlink()  # or its seconds would be added to
    return Plan.START


def report_study(folder: Path) -> Path | None:
    """Write the report over every run below `folder` and print its figures; None where there are fewer than two."""
    from rlhf_exp.report import NotARun, find_runs, study_table, write_report

    try:
        runs = find_runs(folder)
    except NotARun:
        return None
    if len(runs) < 2:
        return None
    page = write_report(runs, folder)
    print(f"\n{study_table(runs)}\nreport  {page}")
    return page


def _read_status(folder: Path) -> str:
    """`none` without a run.json; `broken` where it cannot be read."""
    record = folder / "run.json"
    if not record.is_file():
        return "none"
    try:
        return json.loads(record.read_text(encoding="utf-8")).get("status", "broken")
    except ValueError:
        return "broken"


def list_settings(config: Any) -> dict[str, str]:
    """{"eval.rows": "512", ...}: what a run does, by dotted key, without where and how it happens."""
    flat = _flatten(config)
    return {name: flat[name] for name in flat if name not in CIRCUMSTANCES and not name.startswith("logging.")}


def _compare(saved: dict[str, str], cfg: Config) -> Iterator[str]:
    """eval.rows=512, here 16"""
    now = list_settings(OmegaConf.create(OmegaConf.to_yaml(OmegaConf.create(asdict(cfg)))))
    for name in [*now, *(name for name in saved if name not in now)]:
        if saved.get(name) != now.get(name):
            yield f"{name}={saved.get(name, 'unset')}, here {now.get(name, 'unset')}"


def _flatten(values: Any, prefix: str = "") -> dict[str, str]:
    if not isinstance(values, Mapping):
        return {prefix.removesuffix("."): str(values)}
    found: dict[str, str] = {}
    for name, value in values.items():
        found |= _flatten(value, f"{prefix}{name}.")
    return found
