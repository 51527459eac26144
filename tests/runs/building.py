"""What a run leaves in its folder, without the run."""

import json
import subprocess
import sys
from contextlib import contextmanager

from omegaconf import OmegaConf

from rlhf_exp.runs.manifest import staged


def leave_checkpoint(folder, step=1):
    """A whole checkpoint without files."""
    with staged(folder / "checkpoints", f"checkpoint-{step}") as staging:
        (staging / f"checkpoint-{step}").mkdir()


def leave_run(folder, status="finished", checkpoint=False, config=None, **facts):
    """run.json, config and checkpoint if they are asked for, and the model of a finished run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"status": status} | facts))
    if config is not None:
        (folder / ".hydra").mkdir()
        (folder / ".hydra" / "config.yaml").write_text(OmegaConf.to_yaml(config))
    if checkpoint:
        leave_checkpoint(folder)
    if status == "finished":
        (folder / "model").mkdir()
        (folder / "model" / "model.safetensors").touch()


def flip(path, place=3):
    """Change one bit, and leave size and times as they are in a folder that is copied."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def harm(path, damage):
    """What a crash, a full disk or a bad copy leaves of a file: it is truncated, removed, flipped or zeros."""
    if damage == "removed":
        path.unlink()
        return
    content = path.read_bytes()
    changed = {
        "truncated": content[:20],
        "flipped": bytes([content[0] ^ 1]) + content[1:],
        "zeros": bytes(len(content)),
    }
    path.write_bytes(changed[damage])


@contextmanager
def held(folder):
    """Another process holds the folder."""
    code = "import time; from rlhf_exp.runs.lock import claim\n"
    code += f"with claim({str(folder)!r}):\n    print(flush=True)\n    time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        yield
        holder.kill()
