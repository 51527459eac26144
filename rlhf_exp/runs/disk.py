"""What runs take on disk, and the removal of checkpoints that nothing will be resumed from. Imports no ML library.

measure_disk(run_dir)             # Disk(checkpoints=61_200_000, reports=700_000, other_files=3_100_000), in bytes
remove_checkpoints(run_dir)       # of a finished run
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.checkpoints import FOLDER
from rlhf_exp.runs.folder import read_record
from rlhf_exp.runs.lock import claim_folder, find_owner

REPORTS = {"report.md", "report.html", "plots", "README.md", "rlhf_exp_config.yaml"}
"""What each report writes anew, with the cards of models."""


class Disk(NamedTuple):
    """Sizes of a run's files, in bytes."""

    checkpoints: int
    reports: int
    other_files: int


def measure_disk(run_dir: Path) -> Disk:
    """Add up the sizes of a run's files. Links are not followed; a file that vanishes meanwhile counts as 0."""
    sizes = {"checkpoints": 0, "reports": 0, "other_files": 0}
    for place, _, names in os.walk(run_dir):
        parts = Path(place).relative_to(run_dir).parts
        for name in names:
            kind = "reports" if REPORTS & {*parts, name} else "other_files"
            with suppress(OSError):
                sizes["checkpoints" if parts[:1] == (FOLDER,) else kind] += os.lstat(os.path.join(place, name)).st_size
    return Disk(**sizes)


def measure_removable(run_dir: Path) -> int:
    """The bytes that `remove_checkpoints` frees; 0 of a run whose checkpoints are needed, or that is going on."""
    return measure_disk(run_dir).checkpoints if _is_over(run_dir) and find_owner(run_dir) is None else 0


def remove_checkpoints(run_dir: Path) -> None:
    """Remove the checkpoints of a finished run, while no other process can resume it.

    Raises:
        ConfigError: the run is going on, has not finished, or has no model/.
        OSError: they cannot be removed.
    """
    with claim_folder(run_dir):
        if not _is_over(run_dir):
            raise ConfigError([f"{run_dir}: has not finished, or has no model/; its checkpoints are kept"])
        shutil.rmtree(run_dir / FOLDER)


def _is_over(run_dir: Path) -> bool:
    """Whether its checkpoints are of no more use: nothing resumes it, and model/ has its weights."""
    return read_record(run_dir).get("status") == "finished" and (run_dir / "model").is_dir()
