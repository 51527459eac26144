"""How a run was started, and the command that resumes it or starts it anew.

recall("outputs/x")                     # ([], ["algo=dpo", "seed=1"])
describe_stop(stop, run_dir, 40)        # Stopped at step 40 by SIGTERM; checkpoint saved. Resume with: ...
"""

import shlex
import sys
from collections.abc import Collection
from itertools import count
from pathlib import Path

from omegaconf import OmegaConf

from rlhf_exp.config.overrides import name_key
from rlhf_exp.runs.checkpoints import find_checkpoint, read_step
from rlhf_exp.runs.environment import name_launcher, name_program
from rlhf_exp.runs.load import read_saved, refusing_damage
from rlhf_exp.runs.stopping import Stop


def recall(folder: str, typed: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """How the run in `folder` was started: its study as flags, and its overrides except those typed again.

    Raises:
        ConfigError: a file in its `.hydra` is damaged; a missing one is as an empty one.
    """
    dropped = {*typed, "resume", "output_dir", "dry_run"}
    with refusing_damage(folder):
        overrides, hydra = read_saved(Path(folder), "overrides", list), read_saved(Path(folder), "hydra", dict)
        kept = [text for text in overrides if text.partition("=")[0] not in dropped]  # x=2 needs +x=1, but not +x=2
        sources = hydra["runtime"]["config_sources"] if overrides and hydra else []
        studies = [source["path"] for source in sources if source["provider"] == "command-line"]
        if not studies:
            return [], kept
        flags = [f"--config-dir={studies[0]}", f"--config-name={hydra['job']['config_name']}"]
    return flags, ["hydra.mode=RUN", *kept]


def describe_stop(stop: Stop, run_dir: Path, saved_step: int | None) -> str:
    """How the run stopped, and the command that resumes it or starts it anew.

    `saved_step`: the step of the checkpoint that was saved because of the signal.
    """
    found = find_checkpoint(run_dir, by_size=True)
    resume = f"Resume with: {_join(f'resume={run_dir}')}"
    if saved_step is not None:
        return f"Stopped at step {saved_step} by {stop.name}; checkpoint saved. {resume}"
    if found.path is not None:
        step = read_step(found.path)
        return f"Stopped by {stop.name} without saving; the last checkpoint is of step {step}. {resume}"
    if (run_dir / "model").exists():  # which must not be written over
        what, folder = f"{run_dir}/model is trained, and there is no checkpoint", _find_free(run_dir)
    else:
        what, folder = "there is no checkpoint yet", run_dir
    return f"Stopped by {stop.name}; {what}. Start anew with: {_repeat_command(run_dir, folder)}"


def _repeat_command(run_dir: Path, folder: Path) -> str:
    """The command that starts the run in `run_dir` anew in `folder`. A sweep's job becomes one run, since what the
    sweep has finished would be refused; a study that skips that is repeated, unless its job needs another folder."""
    saved = run_dir / ".hydra"
    typed = [text for text in sys.argv[1:] if name_key(text) not in ("output_dir", "hydra.sweep.dir")]
    if not (saved / "hydra.yaml").is_file() or OmegaConf.load(saved / "hydra.yaml").mode != "MULTIRUN":
        return _join(*typed, f"output_dir={folder}")
    if OmegaConf.load(saved / "config.yaml").skip_finished and folder == run_dir:
        return _join(*typed, f"output_dir={run_dir.parent}")
    flags, overrides = recall(str(run_dir))
    return _join(*flags, *overrides, f"output_dir={folder}")


def _join(*arguments: str) -> str:
    return shlex.join([*name_launcher("python"), *name_program(), *arguments])


def _find_free(folder: Path) -> Path:
    names = (folder.with_name(f"{folder.name}_{number}") for number in count(2))
    return next(name for name in names if not name.exists())
