"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347) on TRL's GRPOTrainer.

    trainer = PPOTrainer(model=path, args=PPOConfig(...), reward_funcs=[...], train_dataset=..., processing_class=...)

GRPOTrainer takes advantages of shape (batch, time) from subclasses; sampling, rewards, the clipped policy loss, the
entropy bonus, logging and checkpoints are its own. What is here: rewards per token with the KL to the reference in
them, a critic, GAE, the clipped value loss, and minibatches that are shuffled anew each epoch. What differs from TRL
1.12's PPOTrainer: ratios, KL and entropy count no padding, and the gradients of the policy and of the critic's own
parameters are clipped apart, so that a large value loss does not shrink the policy's step by way of the critic.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from safetensors.torch import load_model, save_model
from torch import nn
from trl import GRPOTrainer
from trl.trainer.utils import disable_dropout_in_model, shuffle_sequence_dict, split_tensor_dict

from rlhf_exp.models.generation import Sampling
from rlhf_exp.trainers.ppo.advantages import (
    estimate_advantages,
    explain_variance,
    measure_moments,
    shape_rewards,
    sum_rewards,
    whiten,
)
from rlhf_exp.trainers.ppo.critic import SeparateCritic, SharedCritic
from rlhf_exp.trainers.ppo.kl_controller import KLController
from rlhf_exp.trainers.ppo.rollout_kl import measure_rollout_kl
from rlhf_exp.trainers.resuming import ResumableRollouts

CRITIC = "critic"
"""The critic's name as a submodule of the policy, and its folder in what is saved."""


class PPOTrainer(ResumableRollouts, GRPOTrainer):
    """GRPOTrainer with a critic. Arguments as its own; `model` is a path, `args` a PPOConfig."""

    _tag_names = ["trl", "ppo"]
    _name = "PPO"

    def __init__(self, model: str, args: Any, **kwargs: Any) -> None:
        args.beta = float(args.init_kl_coef > 0 or args.target_kl is not None)  # the parent then has a reference
        super().__init__(model=model, args=args, **kwargs)
        self._has_reference = bool(args.beta)
        args.beta = self.beta = 0.0  # its KL is in the reward, not in the loss as well
        self.controller = KLController(args.init_kl_coef, args.target_kl, args.kl_horizon)
        self.critic = self._build_critic(model)
        self.model.add_module(CRITIC, self.critic)
        self._scores: torch.Tensor | None = None
        self._values: list[torch.Tensor] = []
        self._logps: list[torch.Tensor] = []

    def _build_critic(self, path: str) -> nn.Module:
        policy = self.model.get_base_model() if isinstance(self.model, PeftModel) else self.model
        if self.args.critic == "shared":
            critic = SharedCritic(policy.base_model)
        else:
            critic = SeparateCritic(path, **(self.args.model_init_kwargs or {}))
            if self.args.gradient_checkpointing:
                critic.model.gradient_checkpointing_enable()
        disable_dropout_in_model(critic)
        return critic.to(policy.device)

    # Rollouts

    def _calculate_rewards(self, inputs: list, prompts: list, completions: list, ids: list) -> torch.Tensor:
        found = super()._calculate_rewards(inputs, prompts, completions, ids)
        scores = (found * self.reward_weights.to(found.device)).nansum(dim=1)
        first = self.accelerator.process_index * len(prompts)
        self._scores = scores[first : first + len(prompts)]
        return found

    def _generate(self, prompts: list) -> Any:
        """Sampling, and vLLM's copy of the weights, see the policy alone."""
        with _without(self.model, CRITIC):
            return super()._generate(prompts)

    def _generate_and_score_completions(self, inputs: list) -> dict[str, Any]:
        """A rollout, with advantages and returns per token in place of one advantage a completion."""
        mode = "train" if self.model.training else "eval"
        self._values, self._logps = [], []
        self.beta = float(self._has_reference)
        try:
            rollout = super()._generate_and_score_completions(inputs)
        finally:
            self.beta = 0.0
        self._metrics[mode].pop("frac_reward_zero_std", None)  # of groups of one
        with torch.no_grad():
            if "old_per_token_logps" not in rollout:  # the parent scores with the policy only where it must
                self._values = []
                rollout["old_per_token_logps"] = self._score(rollout)
            values = self._values[0] if self.args.critic == "shared" else self._judge(rollout)
            self._values, self._logps = [], []
            self._add_advantages(rollout, values, mode)
        return rollout

    def _add_advantages(self, rollout: dict[str, Any], values: torch.Tensor, mode: str) -> None:
        mask, logps = rollout["completion_mask"].float(), rollout["old_per_token_logps"]
        log_ratio = torch.zeros_like(logps)
        if self._has_reference:
            log_ratio = (logps - rollout.pop("ref_per_token_logps")) * mask
        ended = torch.isin(rollout["completion_ids"], torch.tensor(self.eos_token_ids, device=mask.device))
        ended = (ended & mask.bool()).any(dim=1)
        scores = self._scores.to(mask.dtype)
        if self.args.missing_eos_penalty is not None:
            scores = scores - self.args.missing_eos_penalty * ~ended
        rewards = shape_rewards(scores, log_ratio, mask, self.controller.coef)
        values = values * mask
        advantages, returns = estimate_advantages(rewards, values, mask, self.args.gamma, self.args.lam)
        if self.args.whiten_advantages:
            advantages = whiten(advantages, mask, self._sum)
        received = sum_rewards(rewards, mask, self.args.gamma)
        rollout |= {"advantages": advantages, "returns": returns, "values": values}
        self._log_means(
            mode,
            kl_coef=self.controller.coef,
            eos_rate=self._mean(ended.float()),
            explained_variance=explain_variance(values, received, mask, self._sum),
            value_mean=measure_moments(values, mask, self._sum)[0].item(),
            return_mean=measure_moments(received, mask, self._sum)[0].item(),
        )
        self._follow_kl(rollout, log_ratio, mask, mode)

    def _follow_kl(self, rollout: dict[str, Any], log_ratio: torch.Tensor, mask: torch.Tensor, mode: str) -> None:
        """Log KL(policy || reference) in nats per completion, and steer its price in training.

        `kl` and `kl_k3` are estimates from the sampled tokens' log-probabilities, which are at the sampling's
        temperature but know nothing of top-p and top-k: where these cut tokens away, the samples are not of the
        distribution that is compared, both are biased, and `kl` can be negative. `kl_exact` is of the distributions
        that are sampled from, over the whole vocabulary, and `kl_outside` the probability of a token that the
        reference, sampled in the same way, cannot draw. They take two forward passes: without a target, and where
        nothing is cut, `kl` has the same expectation and has to do.
        """
        k3 = torch.expm1(-log_ratio) + log_ratio
        kls = {name: self._mean((value * mask).sum(1)) for name, value in (("kl", log_ratio), ("kl_k3", k3))}
        sampling = Sampling(self.max_completion_length, self.temperature, self.top_p, self.top_k or 0)
        if self._has_reference and (self.controller.target is not None or sampling.truncates):
            exact = measure_rollout_kl(self, rollout, sampling)
            kls |= {name: self._mean(values) for name, values in exact.items()}
        self._log_means(mode, **kls)
        if mode == "train" and "kl_exact" in kls:
            self.controller.update(kls["kl_exact"], len(mask) * self.accelerator.num_processes)

    def _mean(self, values: torch.Tensor) -> float:
        """Over the completions of all ranks."""
        return self.accelerator.gather(values).mean().item()

    def _sum(self, values: torch.Tensor) -> torch.Tensor:
        """Add up over all ranks."""
        return self.accelerator.reduce(values, reduction="sum")

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """Each epoch over a rollout sees other minibatches."""
        rounds = self.args.steps_per_generation
        if self.model.training and self._buffered_inputs is not None and self._step % rounds == 0:
            if self._step % (rounds * self.num_iterations):
                whole = {
                    key: torch.cat([part[key] for part in self._buffered_inputs]) if value.ndim else value
                    for key, value in self._buffered_inputs[0].items()
                }
                self._buffered_inputs = split_tensor_dict(shuffle_sequence_dict(whole), rounds)
        return super()._prepare_inputs(generation_batch)

    # Passes of the policy and the critic

    def _get_per_token_logps_and_entropies(self, model: nn.Module, *args: Any, **kwargs: Any) -> tuple:
        """The parent's; the shared critic reads along wherever the policy scores."""
        shared = self.args.critic == "shared" and model is not self.ref_model
        if shared:
            self.critic.start_reading()
        found = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        if model is not self.ref_model:
            self._logps.append(found[0])
        if shared:
            hidden = self.critic.stop_reading()[:, -found[0].shape[1] - 1 : -1]
            self._values.append(self.critic(hidden.detach() if self._warming_up() else hidden))
        return found

    def _score(self, rollout: dict[str, Any]) -> torch.Tensor:
        ids, mask = _join(rollout)
        return self._get_per_token_logps_and_entropies(
            self.model, ids, mask, rollout["completion_ids"].shape[1], batch_size=self.args.per_device_train_batch_size
        )[0]

    def _judge(self, batch: dict[str, Any]) -> torch.Tensor:
        """The separate critic's values of the state before each completion token, (batch, time) float32."""
        ids, mask = _join(batch)
        size, width = self.args.per_device_train_batch_size, batch["completion_ids"].shape[1]
        found = []
        for start in range(0, len(ids), size):
            with self.accelerator.autocast():
                found.append(self.critic(ids[start : start + size], mask[start : start + size])[:, -width - 1 : -1])
        return torch.cat(found)

    # The loss

    def _compute_loss(self, model: nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        """Policy loss and entropy bonus by the parent, and `vf_coef` times the value loss.

        Both are sums over tokens divided by the tokens of a mean minibatch, so that a batch may be split for
        accumulation in any way.
        """
        mode = "train" if self.model.training else "eval"
        self._values, self._logps = [], []
        loss = super()._compute_loss(model, inputs)
        values = self._values[0] if self.args.critic == "shared" else self._judge(inputs)
        mask = inputs["completion_mask"].float()
        errors, clipped = clip_value_errors(values, inputs["values"], inputs["returns"], self.args.cliprange_value)
        normalizer = inputs["num_items_in_batch"].clamp(min=1.0) / self.accelerator.num_processes
        accumulated = self.current_gradient_accumulation_steps if mode == "train" else 1
        if mode == "train":
            normalizer = normalizer * accumulated / self.args.steps_per_generation
        value_loss = 0.5 * (errors * mask).sum() / normalizer
        self._log_update(mode, inputs, mask, loss.detach() * accumulated, value_loss.detach() * accumulated, clipped)
        if self._warming_up():
            loss = 0.0 * loss.detach()  # no gradient at all: Adam would count steps with gradients of 0
        return loss + self.args.vf_coef * value_loss

    def _log_update(
        self,
        mode: str,
        inputs: dict[str, Any],
        mask: torch.Tensor,
        policy_loss: torch.Tensor,
        value_loss: torch.Tensor,
        value_clipped: torch.Tensor,
    ) -> None:
        log_ratio = (self._logps[0].detach() - inputs["old_per_token_logps"]) * mask
        ratio, advantages = log_ratio.exp(), inputs["advantages"]
        low, high = 1 - self.epsilon_low, 1 + self.epsilon_high
        clipped = (ratio < low) & (advantages < 0) | (ratio > high) & (advantages > 0)
        a_token = {
            "clip_fraction": clipped,
            "value_clip_fraction": value_clipped,
            "ratio": ratio,
            "approx_kl": torch.expm1(log_ratio) - log_ratio,
        }
        losses = {"policy_loss": policy_loss, "value_loss": value_loss}  # a rank's share times the ranks
        self._log_means(mode, **{name: self.accelerator.gather(loss).mean().item() for name, loss in losses.items()})
        kept = mask.bool()
        count, *sums = self._sum(torch.stack([value[kept].double().sum() for value in (mask, *a_token.values())]))
        self._log_means(mode, **{name: (s / count).item() for name, s in zip(a_token, sums, strict=True)})

    def _warming_up(self) -> bool:
        return self.state.global_step < self.args.critic_warmup_steps

    def _log_means(self, mode: str, **figures: float) -> None:
        for name, value in figures.items():
            self._metrics[mode][f"ppo/{name}"].append(value)

    # The optimizer

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        """The parent's, with the critic in a group of its own at `critic_learning_rate`, without weight decay."""
        optimizer = super().create_optimizer(*args, **kwargs)
        own = {id(parameter) for parameter in self.critic.parameters()}
        for group in optimizer.param_groups:
            group["params"] = [parameter for parameter in group["params"] if id(parameter) not in own]
        parameters = [parameter for parameter in self.critic.parameters() if parameter.requires_grad]
        optimizer.add_param_group({"params": parameters, "lr": self.args.critic_learning_rate, "weight_decay": 0.0})
        return optimizer

    def _clip_grad_norm(self, model: nn.Module) -> torch.Tensor:
        """Clip the policy's and the critic's gradients apart; returns the policy's norm."""
        own = {id(parameter) for parameter in self.critic.parameters()}
        policy = [parameter for parameter in model.parameters() if id(parameter) not in own]
        policy_norm = self.accelerator.clip_grad_norm_(policy, self.args.max_grad_norm)
        norm = nn.utils.clip_grad_norm_(self.critic.parameters(), self.args.max_grad_norm)  # unscaled by the line above
        self._log_means("train", critic_grad_norm=float(norm))
        return policy_norm

    # Saving

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        """A clean policy, and in the folder `critic` the critic and the controller."""
        folder = Path(output_dir or self.args.output_dir) / CRITIC
        with _without(self.model, CRITIC):
            state_dict = {k: v for k, v in state_dict.items() if not k.startswith(f"{CRITIC}.")} if state_dict else None
            super()._save(output_dir, state_dict)
        if self.args.should_save:
            folder.mkdir(exist_ok=True)
            save_model(self.critic, str(folder / "model.safetensors"))
            (folder / "kl_controller.json").write_text(json.dumps({"coef": self.controller.coef}), encoding="utf-8")

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        with _without(self.model, CRITIC):
            super()._load_from_checkpoint(resume_from_checkpoint, model)
        folder = Path(resume_from_checkpoint) / CRITIC
        load_model(self.critic, str(folder / "model.safetensors"))
        self.controller.coef = json.loads((folder / "kl_controller.json").read_text(encoding="utf-8"))["coef"]


def clip_value_errors(
    values: torch.Tensor, old_values: torch.Tensor, returns: torch.Tensor, cliprange: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Squared errors of the critic, the larger of the plain one and the one of values that may have moved by at most
    `cliprange` since the rollout; and where the latter was taken. All (batch, time). None clips nothing."""
    plain = (values - returns).square()
    if cliprange is None:
        return plain, torch.zeros_like(plain)
    clipped = (old_values + (values - old_values).clamp(-cliprange, cliprange) - returns).square()
    return torch.maximum(plain, clipped), (clipped > plain).float()


def _join(batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask of prompts and completions together, (batch, time)."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    return ids, torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)


@contextmanager
def _without(model: nn.Module, name: str) -> Iterator[None]:
    """The model without one of its submodules."""
    taken = model._modules.pop(name)
    try:
        yield
    finally:
        model._modules[name] = taken
