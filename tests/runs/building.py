"""What a run leaves in its folder, without the run."""

import json

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
