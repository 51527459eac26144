"""Explains why a complete checkpoint still cannot be resumed. Imports no ML library.

check_newest(run_dir, cfg)     # ["resume=outputs/x: checkpoint-40 cannot be resumed: optimizer.pt is missing"]
"""

from pathlib import Path

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.schema import Config
from rlhf_exp.runs.checkpoints import find_checkpoint

PROGRESS, REFERENCE, WORK = "progress.json", "reference.safetensors", "work.json"


def list_needed(cfg: Config) -> list[tuple[str, ...]]:
    """What a resumed run reads from a checkpoint; of several names in one entry, any will do."""
    weights = ("model.safetensors", "model.safetensors.index.json")
    needed = [weights if cfg.peft.lora is None else ("adapter_model.safetensors",)]
    needed += [
        (name,) for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json", PROGRESS, WORK)
    ]
    needed += [(name,) for name in ALGORITHMS[cfg.algo.name].checkpoint_files]
    if cfg.algo.args.get("use_adaptive_entropy"):
        needed.append(("entropy_ctrl_state.json",))
    if cfg.algo.args.get("sync_ref_model"):
        needed.append((REFERENCE,))
    return needed


def explain_unfit(checkpoint: Path, cfg: Config) -> str | None:
    """Which file is missing, without which training would silently resume as another run; None if none is missing."""
    for names in list_needed(cfg):
        if not any((checkpoint / name).is_file() for name in names):
            return f"{names[0]} is missing"
    return None


def check_newest(run_dir: Path, cfg: Config) -> list[str]:
    """A line if the checkpoint that a run would resume from is not fit for it."""
    newest = find_checkpoint(run_dir).path
    reason = newest and explain_unfit(newest, cfg)
    return [f"resume={run_dir}: {newest.name} cannot be resumed: {reason}"] if reason else []
