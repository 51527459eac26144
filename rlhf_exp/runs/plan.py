"""Decides whether a run may start in its folder, and whether it starts, resumes or is skipped; imports no ML library.

check_run_folder(config)         # refuses a folder that holds another run, or in which one is running
plan_job(config)                 # with skip_finished=true: Plan.START, RESUME or SKIP
check_resume(config)             # with resume=RUN_DIR: refuses other settings, data, rewards and weights
"""

import shlex
import shutil
from enum import Enum
from pathlib import Path

from rlhf_exp import processes
from rlhf_exp.config.reading import set_text
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.checkpoints import find_checkpoint
from rlhf_exp.runs.environment import list_versions
from rlhf_exp.runs.inputs import hash_inputs, list_changes
from rlhf_exp.runs.lock import find_owner
from rlhf_exp.runs.records import read_record
from rlhf_exp.runs.settings import find_differences

# What a run leaves in its folder. checkpoints.py renames incomplete checkpoints.
WRITTEN = ("run.json", "metrics.jsonl", "completions.jsonl", "validation.jsonl", "evaluation.json", "samples.jsonl",
           "policies.jsonl", "judge.jsonl", "preferences.jsonl", "errors.json", "data.json", "diagnosis.json",
           "error.log", "report.md", "report.html", "preflight.json", "plots", "model", "rows", "start_model",
           "samples", "wandb", "tensorboard")  # fmt: skip
SHOWN = 3  # settings in a message
LENGTH = ("algo.args.max_steps=", "algo.args.num_train_epochs=", "train_tokens=")
"""Beginnings of the differences that make a run longer or shorter."""


class Plan(Enum):
    START = "start"
    RESUME = "resume"
    SKIP = "skip"


class OtherRun(ConfigError):
    """A folder holds a run of other settings or inputs; `why` says which."""

    why = ""


def check_run_folder(cfg: Config) -> list[str]:
    """Why the run cannot start or resume in its folder: another one is running there, or would be lost."""
    key, folder = ("output_dir", cfg.output_dir) if cfg.resume is None else ("resume", cfg.resume)
    if owner := find_owner(Path(folder)):
        return [f"{key}={folder}: a run is going on in it ({owner})"]
    return _check_output(Path(folder), cfg) if cfg.resume is None else _check_resume(Path(folder))


def plan_job(cfg: Config) -> Plan:
    """What to do in `cfg.output_dir`: a finished run is skipped, another one resumes from its last whole checkpoint, or
    starts anew if it has none.

    Raises:
        OtherRun: the folder holds a run of other settings or inputs.
    """
    folder = Path(cfg.output_dir)
    status = _read_status(folder, cfg)
    if status in (None, "refused"):
        return Plan.START
    resumes = status != "finished" and find_checkpoint(folder).path is not None
    _require_same(folder, cfg, f"output_dir={folder}", resumes)
    if status == "finished":
        return Plan.SKIP
    return Plan.RESUME if resumes else Plan.START


def check_resume(cfg: Config) -> list[str]:
    """Refuse to resume `cfg.resume` with other settings or inputs than it began with; returns a line for each package
    of another version. The length of training may not differ, since the learning rate depends on it.

    Raises:
        OtherRun: other settings, or other files behind the same names.
    """
    folder = Path(str(cfg.resume))
    _require_same(folder, cfg, f"resume={folder}", resumes=True)
    before, now = read_record(folder).versions, list_versions()
    changed = [name for name in before if before[name] != now.get(name)]
    return [f"resume={folder}: {name} {before[name]}, here {now.get(name, 'none')}" for name in changed]


def start_anew(folder: Path) -> None:
    """Remove what a run that is not resumed has left in `folder`, if there is one."""
    if read_record(folder).status is None:
        return
    for path in (*(folder / name for name in WRITTEN), *folder.glob("best-*")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _read_status(folder: Path, cfg: Config) -> str | None:
    """The status of the run in the folder; None if it holds no more than a preflight, which a whole run replaces."""
    record = read_record(folder)
    return None if record.preflight == "only" != cfg.preflight else record.status


def _check_resume(folder: Path) -> list[str]:
    if not (folder / "run.json").is_file():
        return [f"resume={folder}: not a run's folder, it has no run.json"]
    newest = find_checkpoint(folder)
    if newest.path is not None or read_record(folder).status == "finished":
        return []
    broken = f" that is whole ({', '.join(newest.broken)})" if newest.broken else " yet"
    return [f"resume={folder}: has no checkpoint{broken}; start anew with its overrides and another output_dir"]


def _check_output(folder: Path, cfg: Config) -> list[str]:
    """Whether a run in the folder would be lost; a run that was refused, or ended before it saved anything, has nothing
    to lose. With `skip_finished`, `plan_job` decides."""
    status = _read_status(folder, cfg)
    if cfg.skip_finished or status in (None, "refused"):
        return []
    checkpoint = find_checkpoint(folder, by_size=True).path
    if checkpoint is None and status != "finished" and not (folder / "model").exists():
        return []
    way = "" if checkpoint is None else f", or {shlex.quote(set_text('resume', str(folder)))}"
    return [f"output_dir={folder}: already holds a run; use another folder{way}"]


def _require_same(folder: Path, cfg: Config, where: str, resumes: bool) -> None:
    """Refuse other settings than those of the run in `folder`, but for settings.MAY_DIFFER, and other inputs; where it
    `resumes` also other processes, since a checkpoint holds a random state for each and what an engine saves.

    Raises:
        OtherRun: the line begins with `where`.
    """
    record, inputs = read_record(folder), hash_inputs(cfg)
    before = record.inputs
    same = {name for name in inputs if before.get(name) == inputs[name]}  # another path with the same content
    started = {"processes": (record.processes, processes.count()),
               "scale": (record.scale or "none", cfg.scale.name)}  # fmt: skip
    settings = [f"{key}={old}, here {new}" for key, (old, new) in started.items() if resumes and old != new]
    settings += [line for name, line in find_differences(folder, cfg).items() if name not in same]
    for kind, lines in (("settings", settings), ("inputs", list_changes(before, inputs))):
        if lines:
            found = ", ".join(lines[:SHOWN]) + (f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else "")
            way = _describe_longer(folder) if resumes and any(line.startswith(LENGTH) for line in lines) else ""
            error = OtherRun([f"{where}: is a run of other {kind} ({found}); use another output_dir{way}"])
            error.why = f"{kind} changed: {found}"
            raise error


def _describe_longer(folder: Path) -> str:
    """How to train the run's model further, since its own schedule has another end."""
    trained = folder / "model" if (folder / "model").is_dir() else find_checkpoint(folder, by_size=True).path
    return (
        f" with {shlex.quote(set_text('model.path', str(trained)))}, which trains its model further" if trained else ""
    )
