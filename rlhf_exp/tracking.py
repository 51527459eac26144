"""Weights & Biases and TensorBoard, beside metrics.jsonl: where they write, and offline where there is no key.

The trackers themselves are transformers' callbacks, switched on by `logging=`; they take their settings from the
environment.
"""

import netrc
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlhf_exp.config import Config

WANDB_HOST = "api.wandb.ai"


def set_up_tracking(cfg: "Config", run_dir: Path) -> None:
    """Point the trackers at the run folder. `wandb_mode=auto` is online with a key, offline without one."""
    mode = cfg.logging.wandb_mode
    if mode == "auto":
        mode = os.environ.get("WANDB_MODE") or ("online" if has_wandb_key() else "offline")
    os.environ.update(
        WANDB_MODE=mode,
        WANDB_PROJECT=cfg.logging.wandb_project,
        WANDB_DIR=str(run_dir),
        TENSORBOARD_LOGGING_DIR=str(run_dir / "tensorboard"),
    )


def has_wandb_key() -> bool:
    """Whether a key stands in the environment or in ~/.netrc, where `wandb login` puts it."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators(WANDB_HOST) is not None
    except (OSError, netrc.NetrcParseError):
        return False
