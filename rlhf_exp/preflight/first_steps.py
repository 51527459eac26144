"""Checks the first optimizer steps as they are taken: does training change what it should, and nothing else?

    trainer.add_callback(FirstSteps(trainer, experiment))     # adds its checks to preflight.json

Nothing that is computed changes: no random number is drawn, and the passes of these checks do not count as training's.
A tensor that stays as it was is judged by the steps since others of the policy, or of PPO's critic, have changed:
warm-ups begin at a rate of 0, a LoRA's A has no gradient while its B is 0, nor has the policy while only the critic
learns.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from transformers import TrainerCallback, TrainerState

from rlhf_exp.algorithms import PAIRS
from rlhf_exp.config.rules.machine import SHARDED
from rlhf_exp.errors import FailedCheck
from rlhf_exp.experiment import Experiment
from rlhf_exp.preflight import record_checks
from rlhf_exp.preflight.check import Check
from rlhf_exp.preflight.memory import try_longest_step
from rlhf_exp.preflight.texts import check_held_rows
from rlhf_exp.trainers.rollouts import DIFFERENCE

MOST_STEPS = 20
"""Of steps after which some tensors of a model have changed, so many until those that have not are reported."""
ROLLOUTS = 6
"""Rollouts whose log-probabilities are compared."""
AT_START = {"kl": 0.0, "kl_k1": 0.0, "ppo/kl": 0.0, "ppo/ratio": 1.0, "ratio/mean": 1.0, "rewards/margins": 0.0}
"""Logged figures that compare the policy with its reference, or with what it was at the rollout, and their values as
long as both are the start model."""
REFERENCE = "reference."
"""Before the names of its tensors."""


class FirstSteps(TrainerCallback):
    """Watches a run from its first step on. A resumed run was watched before, and weights of which each process has a
    part are not compared."""

    def __init__(self, trainer: Any, experiment: Experiment) -> None:
        self._trainer, self._experiment, self._cfg = trainer, experiment, experiment.cfg
        self._checks: dict[str, Check] = {}
        self._open: set[str] = set()  # checks that are not decided yet
        self._before: dict[str, list[float]] = {}
        self._live = {"policy": 0, "critic": 0}  # steps after which tensors of it had changed
        self._differences: list[float] = []  # of log-probabilities when sampled and when scored
        device = self._cfg.device
        is_exact = device.use_cpu and self._cfg.model.dtype == "float32" and not device.bf16
        self._rounding = 1e-3 if is_exact else 0.05

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.global_step:
            return
        row = self._cfg.algo.row
        found = [] if row.online else [check_held_rows(self._trainer, len(self._experiment.task.train))]
        if self._cfg.scale.name in SHARDED:
            record_checks(self._experiment, found)
            return
        found += [] if self._cfg.device.use_cpu else [try_longest_step(self._trainer, self._experiment)]
        record_checks(self._experiment, found)
        self._before = sum_tensors(self._trainer)
        modules = self._trainer.model.modules()
        compared = ["policy_is_reference", *["sampling_is_the_policy"] * row.online]
        self._open = {"parameters_change", *compared}
        if any(isinstance(module, torch.nn.Dropout) and module.p > 0 for module in modules):
            for name in compared:
                self._close(name, "skipped", "dropout changes what is compared")

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        """What failed in a step ends the run here, when that step's metrics are written."""
        if failed := [check for check in self._checks.values() if check.status == "failed"]:
            said = "; ".join(f"{check.name}: {check.evidence}" for check in failed)
            raise FailedCheck(f"preflight, {said}; preflight=off skips the checks")

    def on_pre_optimizer_step(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if self._open and not self._cfg.algo.args.get("fp16"):  # its loss scale is found by gradients that overflow
            self._look_at_gradients(state.global_step + 1)

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """The trainer's figures of this step are still there, since it logs them later."""
        if "policy_is_reference" in self._open:
            self._compare_start()
        if "parameters_change" in self._open:
            self._compare_tensors()
        if "sampling_is_the_policy" in self._open:
            self._compare_sampling()

    def on_train_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        for name in sorted(self._open):
            self._close(name, "skipped", f"the run ended after {state.global_step} steps, before this was decided")
        self.on_step_begin()

    def _close(self, name: str, status: Any, said: str, figures: Any = None, remedy: Any = ()) -> None:
        """Decide a check. All are recorded together, as soon as none is open or one has failed."""
        self._checks[name] = Check(name, status, said, figures or {}, list(remedy))
        self._open = set() if status == "failed" else self._open - {name}
        if not self._open:
            finite = Check("gradients_are_finite", "passed", "all gradients of the first steps are finite")
            self._checks.setdefault(finite.name, finite)
            record_checks(self._experiment, list(self._checks.values()), "preflight: the first steps are fine")

    def _compare_start(self) -> None:
        """KL 0 and ratio 1 before the first update, and dpo's loss ln 2."""
        metrics, row = self._trainer._metrics["train"], self._cfg.algo.row
        found = {name: float(metrics[name][0]) for name in AT_START if metrics.get(name)}
        wanted, other = AT_START | {"loss": math.log(2)}, row.find_other_loss(self._cfg.algo.args)
        if row.learns_from == PAIRS and row.held_out_loss and other in (None, "max_length"):
            found["loss"] = self._trainer._tr_loss.item()
        if not found:
            why = "no figure compares the policy with another one"
            return self._close("policy_is_reference", "skipped", why)
        off = [name for name in found if not abs(found[name] - wanted[name]) <= self._rounding]
        shown = ", ".join(f"{name} is {found[name]:.4g} and should be {wanted[name]:.4g}" for name in off or found)
        self._close("policy_is_reference", "failed" if off else "passed", f"before the first update {shown}", found)

    def _look_at_gradients(self, step: int) -> None:
        named = [(name, p.grad) for name, p in self._trainer.model.named_parameters() if p.grad is not None]
        if bad := [name for name, gradient in named if not gradient.isfinite().all()]:
            lower = f"algo.args.learning_rate={self._cfg.algo.args['learning_rate'] / 10:g}"
            said = f"at step {step} {_list(bad)} of {len(named)} are not finite; try {lower}"
            self._close("gradients_are_finite", "failed", said, {"step": step}, [lower])

    def _compare_tensors(self) -> None:
        """Exactly the tensors that should change have changed."""
        now, tensors = sum_tensors(self._trainer), dict(_name_tensors(self._trainer))
        wanted = {name for name in now if self._should_change(name)}
        changed = {name for name in now if now[name] != self._before[name]}
        self._live = {part: n + any(_part(name) == part for name in changed) for part, n in self._live.items()}
        trained = {id(p) for group in self._trainer.optimizer.param_groups for p in group["params"] if p.requires_grad}
        said = f"{len(changed)} of {len(now)} tensors changed, and {len(wanted)} should"
        if wrong := changed - wanted:
            self._close("parameters_change", "failed", f"{said}: {_list(wrong)} must not")
        elif left_out := {name for name in wanted if id(tensors[name]) not in trained}:
            self._close("parameters_change", "failed", f"{said}: the optimizer does not train {_list(left_out)}")
        elif wanted <= changed:
            self._close("parameters_change", "passed", said)
        elif min(self._live[_part(name)] for name in wanted - changed) >= MOST_STEPS:
            said += f": {_list(wanted - changed)} did not, as they have no gradient, or steps are below the precision"
            self._close("parameters_change", "warned", said, None, ["model.dtype=float32"])

    def _should_change(self, name: str) -> bool:
        """Of an adapter's model its own tensors and those that are saved with it, else all; never the reference."""
        is_own = "lora_" in name or ".modules_to_save." in name or _part(name) == "critic"
        return not name.startswith(REFERENCE) and (self._cfg.peft.lora is None or is_own)

    def _compare_sampling(self) -> None:
        """Scoring must give the tokens of a rollout the log-probabilities that sampling gave them. A sampler with older
        weights, other positions or another mask gives others."""
        self._differences += self._trainer._metrics["train"].get(f"{DIFFERENCE}/mean", [])
        rollouts, largest = self._trainer.rollouts, max(self._differences, default=math.nan)
        said = f"log-probabilities of sampling and scoring differ by {largest:.2g} nats a token in {rollouts} rollouts"
        if largest > self._rounding:
            said += ": sampling has other weights, positions or another mask than training"
            self._close("sampling_is_the_policy", "failed", said, {"difference": largest})
        elif rollouts >= ROLLOUTS and not self._differences:
            self._close("sampling_is_the_policy", "skipped", "this sampler tells no log-probabilities")
        elif rollouts >= ROLLOUTS:
            self._close("sampling_is_the_policy", "passed", said, {"difference": largest})


def sum_tensors(trainer: Any) -> dict[str, list[float]]:
    """The sum and the norm of each tensor of the policy, and of its teacher or of a reference that does not follow it,
    in float64: the norm too, since equal steps up and down can cancel in the sum."""
    norm, found, kind = torch.linalg.vector_norm, {}, torch.float64
    for name, p in _name_tensors(trainer):
        p = p.detach()
        is_float = p.is_floating_point()
        found[name] = torch.stack([p.sum(dtype=kind), norm(p, dtype=kind)] if is_float else [p.sum().to(kind)])
    return {name: values.tolist() for name, values in found.items()}


def _name_tensors(trainer: Any) -> Iterator[tuple[str, torch.Tensor]]:
    yield from trainer.model.named_parameters()
    reference = getattr(trainer, "teacher_model", None) or getattr(trainer, "ref_model", None)
    if reference is not None and not getattr(trainer.args, "sync_ref_model", False):
        yield from ((f"{REFERENCE}{name}", tensor) for name, tensor in reference.named_parameters())


def _part(name: str) -> str:
    return "critic" if name.startswith("critic.") else "policy"


def _list(names: Any) -> str:
    first, *more = sorted(names)
    return f"{first} and {len(more)} more" if more else first
