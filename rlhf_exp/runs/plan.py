"""A job's folder that may hold its run already, and the one report over all jobs; imports no ML library.

plan = plan_job(config)          # with skip_finished=true: Plan.START, RESUME or SKIP
check_resume(config)             # with resume=RUN_DIR: refuses other settings, data, rewards and weights
"""

import shutil
from collections.abc import Collection, Iterator
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import OmegaConf
from yaml import YAMLError

from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.checkpoints import find_checkpoint
from rlhf_exp.runs.folder import read_record, read_versions
from rlhf_exp.runs.inputs import hash_inputs, list_changes
from rlhf_exp.runs.lock import find_owner
from rlhf_exp.runs.settings import list_settings

# What a run leaves in its folder, and that part of it which depends on the settings alone. Checkpoints that are not
# whole are put aside by checkpoints.py: an older version wrote none that it can tell to be.
WRITTEN = ("run.json", "metrics.jsonl", "evaluation.json", "samples.jsonl", "preferences.jsonl", "errors.json",
           "data.json", "diagnosis.json", "error.log", "report.md", "report.html", "plots", "model",
           "wandb_id", "tensorboard")  # fmt: skip
DRAWN = ("start_model", "samples")
# What may differ when a run is gone on with: how it is watched and saved. Threads change no more than last digits.
MAY_CHANGE = ("device.threads", "monitor.every_steps", "monitor.stop_on_nonfinite",
              "algo.args.save_steps", "algo.args.save_strategy", "algo.args.save_total_limit")  # fmt: skip
SHOWN = 3


class Plan(Enum):
    START = "start"
    RESUME = "resume"
    SKIP = "skip"


def check_run_folder(cfg: Config) -> list[str]:
    """Why the run cannot begin in its folder, or go on in it: another one lies or goes on there."""
    key, folder = ("output_dir", cfg.output_dir) if cfg.resume is None else ("resume", cfg.resume)
    if owner := find_owner(Path(folder)):
        return [f"{key}={folder}: a run is going on in it ({owner})"]
    return _check_output(Path(folder), cfg.skip_finished) if cfg.resume is None else _check_resume(Path(folder))


def plan_job(cfg: Config) -> Plan:
    """What is left to do in `cfg.output_dir`. An unfinished run goes on from its last whole checkpoint, or starts
    anew where it has none.

    Raises:
        ConfigError: the folder holds a run of other settings, which would be lost.
    """
    folder = Path(cfg.output_dir)
    record = read_record(folder)
    status = record.get("status", "none")
    if status not in ("none", "refused"):
        inputs, before = hash_inputs(cfg), record.get("inputs", {})
        where, remedy = f"output_dir={folder}: holds a run of other", "use another output_dir"
        _refuse_settings(_list_refused(_list_differing(folder, cfg, _list_same(before, inputs))), where, remedy)
        if changed := list_changes(before, inputs):
            raise ConfigError([f"{where} inputs ({', '.join(changed)}); {remedy}"])
        if status == "finished":
            return Plan.SKIP
        if find_checkpoint(folder).path is not None:
            return Plan.RESUME
    return Plan.START


def check_resume(cfg: Config) -> list[str]:
    """Refuse to go on with a run in another way than it began; returns what differs and may, a line each.

    The length of training may not: the learning rate falls over it.

    Raises:
        ConfigError: other settings, or other files behind the same names.
    """
    folder = Path(cfg.resume)
    record, inputs = read_record(folder), hash_inputs(cfg)
    before = record.get("inputs")
    where, remedy = f"resume={folder}: is a run of other", "start a new run with another output_dir"
    differing = _list_differing(folder, cfg, _list_same(before or {}, inputs))
    _refuse_settings(_list_refused(differing), where, f"leave that out, or {remedy}")
    if changed := list_changes(before or {}, inputs):
        raise ConfigError([f"{where} inputs ({', '.join(changed)}); {remedy}"])
    notes = [f"{item}: may differ" for item in differing]
    notes += [f"{name} {old}, here {new}" for name, old, new in _list_other_versions(record)]
    notes += [] if before is not None else ["its run.json holds no hashes of its inputs: they are not compared"]
    return [f"resume={folder}: {note}" for note in notes]


def start_anew(folder: Path, cfg: Config) -> None:
    """Remove what a run that is not gone on with has left in `folder`, if it holds one. The start model that it made
    and the samples that it drew are kept where they are those of this run too."""
    if not read_record(folder):
        return
    try:
        same = not _list_differing(folder, cfg)
        same = same and not list_changes(read_record(folder).get("inputs", {}), hash_inputs(cfg))
    except ConfigError:  # its settings cannot be read
        same = False
    for name in WRITTEN if same else (*WRITTEN, *DRAWN):
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class Differing(NamedTuple):
    """A setting that two runs have in two ways; as text `seed=1, here 2`."""

    name: str
    there: str
    here: str

    def __str__(self) -> str:
        return f"{self.name}={self.there}, here {self.here}"


def _check_resume(folder: Path) -> list[str]:
    if not (folder / "run.json").is_file():
        return [f"resume={folder}: not a run's folder, it has no run.json"]
    found = find_checkpoint(folder)
    if found.path is not None:
        return []
    broken = f" that is whole ({', '.join(found.broken)})" if found.broken else " yet"
    place = "another output_dir" if (folder / "model").exists() else f"output_dir={folder}"
    return [f"resume={folder}: has no checkpoint{broken}; start anew with its overrides and {place}"]


def _check_output(folder: Path, skip_finished: bool) -> list[str]:
    """Whether a run is there to be lost; one that was refused, or ended before its first checkpoint, has nothing. With
    `skip_finished`, study.py looks closer at what can be skipped or gone on with."""
    status = read_record(folder).get("status")
    if status in (None, "refused"):
        return []
    line = f"output_dir={folder}: already holds a run; use another folder"
    if find_checkpoint(folder).path is not None:
        return [] if skip_finished else [f"{line}, or resume={folder}"]
    if status == "finished":
        return [] if skip_finished else [line]
    if (folder / "model").exists():
        return [f"output_dir={folder}: holds a trained model and no checkpoint to go on from; use another folder"]
    return []


def _list_differing(folder: Path, cfg: Config, same: Collection[str] = ()) -> list[Differing]:
    """What the run in `folder` does otherwise than `cfg` would. `same` are paths at which the same content lies.

    Raises:
        ConfigError: its settings cannot be read.
    """
    try:
        config = OmegaConf.load(folder / ".hydra" / "config.yaml")
    except (OSError, ValueError, YAMLError) as error:
        reason = " ".join(str(error).split())[:100]
        raise ConfigError([f"{folder}: its .hydra/config.yaml cannot be read ({reason}); use another folder"]) from None
    saved = list_settings(config)
    now = list_settings(OmegaConf.create(OmegaConf.to_yaml(OmegaConf.create(asdict(cfg)))))
    names = [*now, *(name for name in saved if name not in now)]
    pairs = [Differing(name, saved.get(name, "unset"), now.get(name, "unset")) for name in names if name not in same]
    return [pair for pair in pairs if pair.there != pair.here]


def _list_refused(differing: list[Differing]) -> list[Differing]:
    return [item for item in differing if item.name not in MAY_CHANGE]


def _list_same(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return [name for name in now if before.get(name) == now[name]]


def _refuse_settings(differing: list[Differing], where: str, remedy: str) -> None:
    if differing:
        more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        raise ConfigError([f"{where} settings ({', '.join(map(str, differing[:SHOWN]))}{more}); {remedy}"])


def _list_other_versions(record: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    now = read_versions()
    for name, version in record.get("versions", {}).items():
        if now.get(name) != version:
            yield name, version, now.get(name, "none")
