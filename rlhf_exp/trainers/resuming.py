"""Saves and restores what TRL's trainers do not, so that a resumed run ends like an uninterrupted one, bit for bit.

    class ResumableSFTTrainer(Resumable, SFTTrainer): ...

Saved in addition to TRL's files: the figures since the last logged step, the counts of tokens and of rollouts, and a
reference that follows the policy. The order of the rows depends on seed and epoch alone, and a completion's random
numbers on seed, rollout and place in it (rollouts.py).

A checkpoint is complete or absent: transformers would save directly into checkpoint-STEP, and saves here into a staging
folder, which is renamed when complete (runs/manifest.py); only then are older checkpoints removed. What this relies
on is checked by tests/trainers/test_resuming.py and test_saving.py.
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import LengthGroupedSampler
from trl.trainer.utils import RepeatSampler

from rlhf_exp import processes
from rlhf_exp.callbacks.compute import ComputeMeter
from rlhf_exp.errors import ConfigError, say
from rlhf_exp.runs.checkpoints import PROGRESS, REFERENCE, WORK, name_of_rank, rotate
from rlhf_exp.runs.files import write_json
from rlhf_exp.runs.manifest import staged

Progress = dict[str, Any]
"""What a checkpoint keeps of a trainer besides what transformers saves."""

AnyTrainer: Any = object  # the base of a class that comes before a TRL trainer among the bases; checkers take any


class Resumable(AnyTrainer):
    """Comes before a TRL trainer among the bases."""

    args: Any  # each algorithm has a class of its own
    model: Any

    meter: ComputeMeter | None = None
    """Counts what is computed, and knows the run's budget of tokens; its `watch` sets it here."""

    _staging: Path | None = None

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Train, from a checkpoint or from the first step.

        Raises:
            ConfigError: a file of the checkpoint holds more than numbers. (torch's message advises to run it.)
        """
        try:
            return super().train(resume_from_checkpoint, *args, **kwargs)
        except torch.serialization.pickle.UnpicklingError:
            line = "one of its files (optimizer.pt, scheduler.pt, rng_state.pth) holds more than numbers, such as code,"
            line += " or is damaged; it is not read; remove this checkpoint to resume from the one before"
            raise ConfigError([f"{resume_from_checkpoint}: {line}"]) from None

    def is_over(self) -> bool:
        """Whether no step is left to take."""
        spent = self.meter is not None and self.meter.is_spent()
        return spent or self.state.global_step >= self.state.max_steps

    def place_in_schedule(self) -> float:
        """How many of `max_steps` the schedule has behind it: as many as were taken, or their share by the budget of
        tokens, where that ends the run earlier."""
        return max(self.state.global_step, (self.meter.share if self.meter else 0) * self.state.max_steps)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> LRScheduler:
        """transformers' own, which warms up and falls by tokens where their budget ends the run: runs with one budget
        are then at the same place of their schedules when they end. The checkpoint's count of tokens resumes it."""
        scheduler = super().create_scheduler(num_training_steps, optimizer)
        if self.meter is not None and self.meter.train_tokens is not None and isinstance(scheduler, LambdaLR):
            scheduler.lr_lambdas = [partial(self._follow_tokens, rate) for rate in scheduler.lr_lambdas]
        return scheduler

    def _follow_tokens(self, rate: Callable[[Any], float], step: int) -> float:
        return rate(max(step, self.place_in_schedule()))

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        """Take no step if none is left: transformers takes one more when it resumes a run that ended in mid-epoch."""
        if self.is_over():
            self.control.should_training_stop = True
            return
        super()._run_epoch(*args, **kwargs)

    def _get_train_sampler(self, *args: Any, **kwargs: Any) -> Any:
        return order_by_epoch(super()._get_train_sampler(*args, **kwargs), self.args.seed)

    def policy_alone(self) -> AbstractContextManager[None]:
        """Inside, the policy has nothing that only its training needs, such as PPO's critic."""
        return nullcontext()

    def _get_output_dir(self, trial: Any) -> str:
        return str(self._staging) if self._staging else super()._get_output_dir(trial)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write none: TRL's names no figures or data, and would lie beside the checkpoints. The card of
        the trained model comes with the report (report/card.py)."""

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Of finite weights alone, so that the last good checkpoint stays."""
        folder, name = Path(self.args.output_dir), f"checkpoint-{self.state.global_step}"
        # Saved after the last step, then again at the end of the epoch.
        if processes.on_main((folder / name).exists):
            return
        # What this process holds of the trained weights.
        held = (getattr(one, "_local_tensor", one) for one in self.model.parameters() if one.requires_grad)
        if not all(processes.gather(all(one.isfinite().all().item() for one in held))):
            processes.on_main(say, f"{name} is not written: the weights are not finite")
            return
        with processes.enter_on_main(staged(folder, name)) as self._staging:
            try:
                super()._save_checkpoint(model, trial)
                (self._staging / name / "training_args.bin").unlink(missing_ok=True)  # a pickle that nothing reads
                if self.meter is not None:
                    write_json(self._staging / name / WORK, self.meter.counts)
            finally:
                self._staging = None
        processes.on_main(rotate, folder, self.args.save_total_limit)

    # Together with the random state, since transformers loads that last, after it has reset the counters.

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        text = json.dumps(self._take_progress(), default=float)
        (Path(output_dir) / name_of_rank(PROGRESS)).write_text(text, encoding="utf-8")
        if (follower := self._follower()) is not None and processes.is_main():
            save_model(follower, str(Path(output_dir) / REFERENCE))

    def _load_rng_state(self, checkpoint: Any) -> None:
        super()._load_rng_state(checkpoint)
        self.state.compute_steps(self.args, self.state.max_steps)  # transformers takes the saved ones
        path = Path(checkpoint) / name_of_rank(PROGRESS)
        self._set_progress(json.loads(path.read_text(encoding="utf-8")))
        if (follower := self._follower()) is not None:
            load_model(follower, str(Path(checkpoint) / REFERENCE))

    def _take_progress(self) -> Progress:
        return {
            "tokens": self._total_train_tokens,
            "loss": self._tr_loss.item(),
            "logged": self._globalstep_last_logged,
            "metrics": self._metrics["train"],
        }

    def _set_progress(self, progress: Progress) -> None:
        self._total_train_tokens = progress["tokens"]
        self._tr_loss = torch.tensor(progress["loss"], device=self.args.device)
        self._globalstep_last_logged = progress["logged"]
        self._metrics["train"].update(progress["metrics"])

    def _follower(self) -> nn.Module | None:
        """The reference if it follows the policy (sync_ref_model), so that it differs from the start model; or None."""
        return self.ref_model if getattr(self.args, "sync_ref_model", False) else None


class RepeatOrder(RepeatSampler):
    """TRL's sampler, in the order of an uninterrupted run: each epoch draws one more permutation."""

    def set_epoch(self, epoch: int) -> None:
        """Be ready to draw the permutation of `epoch`, counted from 0; accelerate and transformers call this."""
        if self.shuffle and self.seed is not None:
            self.generator.manual_seed(self.seed)
            for _ in range(epoch):
                torch.randperm(self.num_samples, generator=self.generator)


class LengthOrder(LengthGroupedSampler):
    """Rows of similar length next to each other, in another order in each epoch."""

    def __init__(self, batch_size: int, lengths: list[int], seed: int) -> None:
        super().__init__(batch_size, lengths=lengths, generator=torch.Generator().manual_seed(seed))
        self.seed = seed

    def set_epoch(self, epoch: int) -> None:
        """Draw the order of `epoch`, counted from 0."""
        self.generator.manual_seed(self.seed + epoch)


def order_by_epoch(sampler: Sampler | None, seed: int) -> Sampler | None:
    """A sampler of the same rows whose order depends on seed and epoch alone: those of TRL and transformers draw from a
    generator that starts anew with each process, so that one that resumes in the second epoch would draw the first
    epoch's order. A plain random order needs no change: accelerate seeds it by the epoch. Rows of similar length are
    those of a step of all processes."""
    if isinstance(sampler, RepeatSampler):
        names = ("data_source", "mini_repeat_count", "batch_size", "repeat_count", "shuffle", "seed")
        return RepeatOrder(**{name: getattr(sampler, name) for name in names})
    if isinstance(sampler, LengthGroupedSampler):
        return LengthOrder(sampler.batch_size * processes.count(), lengths=sampler.lengths, seed=seed)
    return sampler
