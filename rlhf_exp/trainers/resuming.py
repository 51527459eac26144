"""What a resumed run needs beyond what TRL's trainers save, so that it ends as an unbroken one, bit for bit.

    class ResumableSFTTrainer(Resumable, SFTTrainer): ...
    class VariantGRPOTrainer(ResumableRollouts, GRPOTrainer): ...

Saved beside TRL's files: the figures of the steps since the last row of figures, the count of tokens, and a reference
that follows the policy. The order of the rows follows from seed and epoch (order.py). A checkpoint holds no rollout, so
one that is due within a rollout is written at its end. tests/trainers/test_resuming.py holds what is relied on.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from torch import nn
from torch.utils.data import Sampler

from rlhf_exp.runs.unfit import PROGRESS, REFERENCE
from rlhf_exp.trainers.order import order_by_epoch
from rlhf_exp.trainers.saving import WholeCheckpoints


class Resumable(WholeCheckpoints):
    """Comes before a TRL trainer among the bases."""

    budget_spent: Callable[[], bool] = staticmethod(lambda: False)
    """Whether the run has trained on as many tokens as it may; ComputeMeter.watch sets it."""

    def is_over(self) -> bool:
        """Whether no step is left to take."""
        return self.state.global_step >= self.state.max_steps or self.budget_spent()

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        """transformers takes one step more where a run is resumed that had taken its last one within an epoch."""
        if self.is_over():
            self.control.should_training_stop = True
            return
        super()._run_epoch(*args, **kwargs)

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler | None:
        return order_by_epoch(super()._get_train_sampler(train_dataset), self.args.seed)

    # Beside the random state: transformers saves and loads it last, when the counters of a new run have been set.

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        progress = {
            "tokens": self._total_train_tokens,
            "loss": self._tr_loss.item(),
            "logged": self._globalstep_last_logged,
            "metrics": self._metrics["train"],
        }
        (Path(output_dir) / PROGRESS).write_text(json.dumps(progress, default=float), encoding="utf-8")
        if self._follower() is not None:
            save_model(self._follower(), str(Path(output_dir) / REFERENCE))

    def _load_rng_state(self, checkpoint: str) -> None:
        super()._load_rng_state(checkpoint)
        self.state.compute_steps(self.args, self.state.max_steps)  # transformers goes on with those that were saved
        progress = json.loads((Path(checkpoint) / PROGRESS).read_text(encoding="utf-8"))
        self._total_train_tokens = progress["tokens"]
        self._tr_loss = torch.tensor(progress["loss"], device=self.args.device)
        self._globalstep_last_logged = progress["logged"]
        self._metrics["train"].update(progress["metrics"])
        if self._follower() is not None:
            load_model(self._follower(), str(Path(checkpoint) / REFERENCE))

    def _follower(self) -> nn.Module | None:
        """The reference where it follows the policy (sync_ref_model), so that the start model cannot replace it."""
        return self.ref_model if getattr(self.args, "sync_ref_model", False) else None


class ResumableRollouts(Resumable):
    """The same for trainers that sample: GRPO and PPO."""

    _save_is_due = False

    def _maybe_log_save_evaluate(self, *args: Any, **kwargs: Any) -> None:
        """Every callback has said whether to save: put that off to the rollout's end. The run's last step saves
        wherever it is in one, for nothing is trained from there."""
        self._save_is_due |= self.control.should_save
        in_rollout = self._step % (self.args.steps_per_generation * self.num_iterations) != 0
        self.control.should_save = self._save_is_due and (self.is_over() or not in_rollout)
        self._save_is_due &= not self.control.should_save
        super()._maybe_log_save_evaluate(*args, **kwargs)
