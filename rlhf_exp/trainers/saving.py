"""Makes a trainer's checkpoints atomic: each is complete or absent.

    class Resumable(WholeCheckpoints): ...               # the base of every trainer of this package
    trainer.checkpoint_writers.append(write)             # write(folder) adds its files to every checkpoint

transformers saves directly into checkpoint-STEP. Here its own code saves into a staging folder, which is renamed when
complete (runs/checkpoints.py); only then are older checkpoints removed. tests/trainers/test_saving.py checks what this
relies on.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from rlhf_exp.runs.checkpoints import rotate, staged


class WholeCheckpoints:
    """A mixin before a TRL trainer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._staging: Path | None = None
        self.checkpoint_writers: list[Callable[[Path], None]] = []
        super().__init__(*args, **kwargs)

    def _get_output_dir(self, trial: Any) -> str:
        return str(self._staging) if self._staging else super()._get_output_dir(trial)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder, name = Path(self.args.output_dir), f"checkpoint-{self.state.global_step}"
        if (folder / name).exists():  # saved after the last step, then again at the end of the epoch
            return
        with staged(folder, name) as self._staging:
            try:
                super()._save_checkpoint(model, trial)
                for write in self.checkpoint_writers:
                    write(self._staging / name)
            finally:
                self._staging = None
        rotate(folder, self.args.save_total_limit)
