"""Makes a virtual environment with TRL 1.12, with whose PPOTrainer bench/ppo_trl.py compares.

    python = make_environment()      # .bench/trl112/bin/python; installs once, and again when the pins change

All other packages have the versions of requirements.lock, so that the two sides differ only in TRL. The first call
needs the package index.
"""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".bench" / "trl112"
REQUIREMENTS = ("trl==1.12.*", "torch", "transformers")


def make_environment() -> Path:
    """The environment's Python.

    Raises:
        subprocess.CalledProcessError: pip failed; it has said why.
    """
    python = FOLDER / "bin" / "python"
    constraints, installed = FOLDER / "constraints.txt", FOLDER / ".installed"
    pins = _pins()
    wanted = "\n".join([*REQUIREMENTS, *pins])
    if not installed.exists() or installed.read_text() != wanted:
        print(f"installing {', '.join(REQUIREMENTS)} into {FOLDER} (once)", file=sys.stderr, flush=True)
        venv.create(FOLDER, with_pip=True, clear=True)
        constraints.write_text("\n".join(pins) + "\n")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        subprocess.run([*pip, "--constraint", constraints, *REQUIREMENTS], check=True)
        installed.write_text(wanted)  # last, so that an interrupted install is repeated
    return python


def _pins() -> list[str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return [line for line in lines if line and not line.startswith(("#", "trl=="))]
