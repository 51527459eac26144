"""What a run leaves in its folder, without the run."""

import json
import subprocess
import sys
from contextlib import contextmanager

from rlhf_exp.runs.manifest import staged


def leave_checkpoint(folder, step=1):
    """A whole checkpoint without files."""
    with staged(folder / "checkpoints", f"checkpoint-{step}") as staging:
        (staging / f"checkpoint-{step}").mkdir()


def leave_run(folder, status="finished", checkpoint=False, **facts):
    """run.json, a checkpoint if it is asked for, and the model of a finished run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"status": status} | facts))
    if checkpoint:
        leave_checkpoint(folder)
    if status == "finished":
        (folder / "model").mkdir()
        (folder / "model" / "model.safetensors").touch()


@contextmanager
def held(folder):
    """Another process holds the folder."""
    code = "import time; from pathlib import Path; from rlhf_exp.runs.lock import claim_folder\n"
    code += f"with claim_folder(Path({str(folder)!r})):\n    print(flush=True)\n    time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        yield
        holder.kill()
