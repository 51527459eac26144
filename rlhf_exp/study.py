"""A job's folder that may hold its run already, and the one report over all jobs; imports no ML library.

plan = plan_job(config)          # with skip_finished=true: Plan.START, RESUME or SKIP
report_study(Path("outputs/compare"))
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from yaml import YAMLError

from rlhf_exp.checkpoints import find_checkpoint
from rlhf_exp.config import Config, ConfigError
from rlhf_exp.run_folder import read_record

# What may differ between two runs of the same settings: where and how a run happens, not what it does.
CIRCUMSTANCES = ("output_dir", "resume", "dry_run", "skip_finished", "eval.cache_dir",
                 "algo.args.output_dir", "algo.args.report_to", "algo.args.disable_tqdm")  # fmt: skip
# What a run leaves in its folder, and that part of it which depends on the settings alone. Checkpoints that are not
# whole are put aside by checkpoints.py: an older version wrote none that it can tell to be.
WRITTEN = ("run.json", "metrics.jsonl", "evaluation.json", "samples.jsonl", "preferences.jsonl", "errors.json",
           "data.json", "diagnosis.json", "error.log", "report.md", "report.html", "plots", "model")  # fmt: skip
DRAWN = ("start_model", "samples")
SHOWN = 3


class Plan(Enum):
    START = "start"
    RESUME = "resume"
    SKIP = "skip"


def plan_job(cfg: Config) -> Plan:
    """What is left to do in `cfg.output_dir`. An unfinished run goes on from its last whole checkpoint, or starts
    anew where it has none.

    Raises:
        ConfigError: the folder holds a run of other settings, which would be lost.
    """
    folder = Path(cfg.output_dir)
    status = read_record(folder).get("status", "none")
    if status not in ("none", "refused"):
        if differing := _list_differing(folder, cfg):
            more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
            raise ConfigError(
                [
                    f"output_dir={folder}: holds a run of other settings ({', '.join(differing[:SHOWN])}{more});"
                    " use another output_dir"
                ]
            )
        if status == "finished":
            return Plan.SKIP
        if find_checkpoint(folder).path is not None:
            return Plan.RESUME
    return Plan.START


def start_anew(folder: Path, cfg: Config) -> None:
    """Remove what a run that is not gone on with has left in `folder`, if it holds one. The start model that it made
    and the samples that it drew are kept where they are those of this run too."""
    if not read_record(folder):
        return
    try:
        same = not _list_differing(folder, cfg)
    except ConfigError:  # its settings cannot be read
        same = False
    for name in WRITTEN if same else (*WRITTEN, *DRAWN):
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


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


def list_settings(config: Any) -> dict[str, str]:
    """{"eval.rows": "512", ...}: what a run does, by dotted key, without where and how it happens."""
    flat = _flatten(config)
    return {name: flat[name] for name in flat if name not in CIRCUMSTANCES and not name.startswith("logging.")}


def _list_differing(folder: Path, cfg: Config) -> list[str]:
    """What the run in `folder` does otherwise than `cfg` would.

    Raises:
        ConfigError: its settings cannot be read.
    """
    try:
        saved = OmegaConf.load(folder / ".hydra" / "config.yaml")
    except (OSError, ValueError, YAMLError) as error:
        reason = " ".join(str(error).split())[:100]
        raise ConfigError([f"{folder}: its .hydra/config.yaml cannot be read ({reason}); use another folder"]) from None
    return list(_compare(list_settings(saved), cfg))


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
