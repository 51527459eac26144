"""Trainers that break one thing each, for algo.trainer=."""

import copy

import torch
from trl import DPOTrainer

from rlhf_exp.trainers.grpo import VariantGRPOTrainer
from rlhf_exp.trainers.ppo.trainer import PPOTrainer


def after(name, change, base=VariantGRPOTrainer):
    """A trainer that calls `change` with itself, and with what that method has returned, whenever it ends."""

    def method(self, *args, **kwargs):
        found = getattr(super(Broken, self), name)(*args, **kwargs)
        change(self, found)
        return found

    Broken = type("Broken", (base,), {name: method})
    return Broken


def leave_out_the_norm(trainer, optimizer):
    for group in optimizer.param_groups:
        group["params"] = [p for p in group["params"] if p is not trainer.model.model.norm.weight]


def scale_the_reference(trainer, _):
    for parameter in trainer.ref_model.parameters():
        parameter.data *= 1.5


def spoil_a_gradient(trainer, _):
    trainer.model.model.norm.weight.grad[0] = torch.inf


def raise_the_ratio(trainer, rollout):
    rollout["old_per_token_logps"] = rollout["old_per_token_logps"] - 0.1


Frozen = after("__init__", lambda self, _: self.model.model.layers[0].mlp.up_proj.weight.requires_grad_(False))
LeftOut = after("create_optimizer", leave_out_the_norm)
Thawed = after("__init__", lambda self, _: self.model.get_base_model().model.norm.weight.requires_grad_(True))
OtherReference = after("__init__", scale_the_reference)
OtherReferenceDPO = after("__init__", scale_the_reference, DPOTrainer)
MovingReference = after("training_step", lambda self, _: next(self.ref_model.parameters()).data.add_(1e-6))
Infinite = after("training_step", spoil_a_gradient)
OtherRatio = after("_generate_and_score_completions", raise_the_ratio, PPOTrainer)


class Stale(VariantGRPOTrainer):
    """Samples from the start model."""

    def _generate(self, prompts):
        if not hasattr(self, "first"):
            self.first = copy.deepcopy(self.model.state_dict())
        now = copy.deepcopy(self.model.state_dict())
        self.model.load_state_dict(self.first)
        try:
            return super()._generate(prompts)
        finally:
            self.model.load_state_dict(now)
