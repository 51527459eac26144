"""The environment of a run, for its record: the command, the commit and the versions of packages."""

import subprocess
import sys
from pathlib import Path

from rlhf_exp.config.versions import find_version

PACKAGES = ("torch", "trl", "transformers", "datasets", "accelerate", "peft", "hydra-core", "numpy", "rlhf-exp")


def read_command() -> str:
    """The command line of this process, with the module that was started by `python -m`."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    module = spec.name.removesuffix(".__main__") if spec else "rlhf_exp"
    return " ".join([Path(sys.executable).name, "-m", module, *sys.argv[1:]])


def list_versions() -> dict[str, str]:
    """The versions of Python and of the packages that determine what a run computes."""
    found = {name: find_version(name) for name in PACKAGES}
    return {"python": sys.version.split()[0], **{name: number for name, number in found.items() if number}}


def read_commit() -> str | None:
    """The commit of the source checkout, with `-dirty` if files differ from it; None for an installed package."""
    root = Path(__file__).parent.parent.parent
    if not (root / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
