"""Why a checkpoint that is whole cannot be resumed all the same. Imports no ML library.

check_newest(run_dir, cfg)     # ["resume=outputs/x: checkpoint-40 cannot be resumed: optimizer.pt is missing"]
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rlhf_exp.checkpoints import find_checkpoint

if TYPE_CHECKING:
    from rlhf_exp.schema import Config

PROGRESS, REFERENCE, WORK = "progress.json", "reference.safetensors", "work.json"
STATE = "trainer_state.json"


def list_needed(cfg: "Config") -> list[tuple[str, ...]]:
    """What a resumed run reads from a checkpoint; of several names in one entry, any will do."""
    weights = ("model.safetensors", "model.safetensors.index.json")
    needed = [weights if cfg.peft.lora is None else ("adapter_model.safetensors",)]
    needed += [(name,) for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", STATE, PROGRESS, WORK)]
    if cfg.algo.name == "ppo":
        needed += [("critic/model.safetensors",), ("critic/kl_controller.json",)]
    if cfg.algo.args.get("use_adaptive_entropy"):
        needed.append(("entropy_ctrl_state.json",))
    if cfg.algo.args.get("sync_ref_model"):
        needed.append((REFERENCE,))
    return needed


def explain_unfit(checkpoint: Path, cfg: "Config") -> str | None:
    """Why training cannot go on from it: a file is missing, without which it would silently become another run; or the
    run ended within a rollout, which no checkpoint holds, and is now to be longer."""
    for names in list_needed(cfg):
        if not any((checkpoint / name).is_file() for name in names):
            return f"{names[0]} is missing"
    state, progress, work = (
        json.loads((checkpoint / name).read_text(encoding="utf-8")) for name in (STATE, PROGRESS, WORK)
    )
    steps = cfg.algo.args.get("max_steps", -1)
    ended = state["global_step"] >= (steps if steps > 0 else state["max_steps"])
    spent = cfg.train_tokens is not None and work["trained_tokens"] >= cfg.train_tokens
    if progress["in_rollout"] and not (ended or spent):
        return "the run ended there within a rollout; leave algo.args.max_steps and train_tokens as they were"
    return None


def check_newest(run_dir: Path, cfg: "Config") -> list[str]:
    """A line where the checkpoint that a resumed run would go on from is not fit for it."""
    newest = find_checkpoint(run_dir).path
    reason = newest and explain_unfit(newest, cfg)
    return [f"resume={run_dir}: {newest.name} cannot be resumed: {reason}"] if reason else []
