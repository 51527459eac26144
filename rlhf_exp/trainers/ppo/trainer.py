"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347) on TRL's GRPOTrainer.

    trainer = PPOTrainer(model=path, args=PPOConfig(...), reward_funcs=[...], train_dataset=..., processing_class=...)

GRPOTrainer takes advantages of shape (batch, time) from subclasses; sampling, rewards, the clipped policy loss, the
entropy bonus, logging and checkpoints are the parent's. Added here: rewards per token that include the KL to the
reference, GAE with a critic (actor_critic.py), the clipped value loss, and minibatches that are reshuffled each epoch.
Differences to TRL 1.12's PPOTrainer: ratios, KL and entropy count no padding, and the gradients of the policy and of
the critic's own parameters are clipped separately, so that a large value loss does not shrink the policy's step.
"""

from typing import Any

import torch
from torch import nn
from trl import GRPOTrainer
from trl.trainer.utils import shuffle_sequence_dict, split_tensor_dict, use_adapter

from rlhf_exp import processes
from rlhf_exp.models.generation import Sampling
from rlhf_exp.models.kl import measure_states
from rlhf_exp.models.scoring import read_out
from rlhf_exp.trainers.ppo.actor_critic import ActorCritic
from rlhf_exp.trainers.ppo.advantages import (
    estimate_advantages,
    explain_variance,
    measure_moments,
    shape_rewards,
    sum_rewards,
    whiten,
)
from rlhf_exp.trainers.ppo.critic import clip_value_errors
from rlhf_exp.trainers.rollouts import Batch


class PPOTrainer(ActorCritic, GRPOTrainer):
    """GRPOTrainer with a critic. Same arguments; `model` is a path, `args` a PPOConfig."""

    _buffered_inputs: Any
    _scores: torch.Tensor
    """(batch,) float32: the weighted sum of the rewards of each completion of this process's rollout."""

    def __init__(self, model: str, args: Any, **kwargs: Any) -> None:
        args.beta = float(args.init_kl_coef > 0 or args.target_kl is not None)  # the parent then has a reference
        super().__init__(model=model, args=args, **kwargs)
        self._has_reference = bool(args.beta)
        args.beta = self.beta = 0.0  # the KL is in the reward, and must not be in the loss as well

    # Rollouts

    def _calculate_rewards(self, inputs: list, prompts: list, completions: list, ids: list) -> torch.Tensor:
        found = super()._calculate_rewards(inputs, prompts, completions, ids)
        scores = (found * self.reward_weights.to(found.device)).nansum(dim=1)
        first = self.accelerator.process_index * len(prompts)
        self._scores = scores[first : first + len(prompts)]
        return found

    def begin_rollout(self) -> None:
        self.beta, self.states = float(self._has_reference), []
        self.sampling = Sampling(self.max_completion_length, self.temperature, self.top_p, self.top_k or 0)
        self.keeps_states = self._has_reference and (self.controller.target is not None or self.sampling.truncates)

    def finish_rollout(self, rollout: Batch) -> Batch:
        """Advantages and returns per token instead of one advantage per completion."""
        self.beta, policy_is_last = 0.0, "old_per_token_logps" not in rollout
        self._metrics["train"].pop("frac_reward_zero_std", None)  # of groups of one
        with torch.no_grad():
            if policy_is_last:  # the parent scores with the policy only where it must
                self.first_pass = None
                rollout["old_per_token_logps"] = self._score(rollout)
            self.keeps_states, self.states = False, self.states[:: -1 if policy_is_last else 1]
            self._add_advantages(rollout, self._value(rollout))
        return rollout

    def _add_advantages(self, rollout: Batch, values: torch.Tensor) -> None:
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
        raw_mean, raw_variance = measure_moments(advantages, mask, self._sum)
        if self.args.whiten_advantages:
            advantages = whiten(advantages, mask, self._sum)
        received = sum_rewards(rewards, mask, self.args.gamma)
        error_mean, error_variance = measure_moments(values - received, mask, self._sum)
        rollout |= {"advantages": advantages, "returns": returns, "values": values}
        self._log_means(
            kl_coef=self.controller.coef,
            eos_rate=self._mean(ended.float()),
            advantage_mean=raw_mean.item(),
            advantage_std=raw_variance.sqrt().item(),
            value_error=(error_mean.square() + error_variance).item(),
            explained_variance=explain_variance(values, received, mask, self._sum),
            value_mean=measure_moments(values, mask, self._sum)[0].item(),
            return_mean=measure_moments(received, mask, self._sum)[0].item(),
        )
        self._follow_kl(rollout, log_ratio, mask)

    def _follow_kl(self, rollout: Batch, log_ratio: torch.Tensor, mask: torch.Tensor) -> None:
        """Log KL(policy || reference) in nats per completion, and update its price.

        `kl` and `kl_k3` are estimates from the sampled tokens' log-probabilities, which are at the sampling's
        temperature but ignore top-p and top-k. If these cut tokens away, the samples do not come from the distributions
        that are compared: both estimates are biased, and `kl` can be negative. `kl_exact` is of the distributions that
        are sampled from, over the whole vocabulary; `kl_outside` is the probability of a token that the reference,
        sampled in the same way, cannot draw. Without a target, and if nothing is cut, these two are not measured, since
        `kl` has the same expectation.
        """
        k3 = torch.expm1(-log_ratio) + log_ratio
        kls = {name: self._mean((value * mask).sum(1)) for name, value in (("kl", log_ratio), ("kl_k3", k3))}
        if self.states:
            heads, size = (self._read_policy, self._read_reference), self.model.config.get_text_config().vocab_size
            with self.accelerator.autocast():
                exact = measure_states(heads, self.states, mask.bool(), size, self.sampling)
            kls |= {name: self._mean(values) for name, values in zip(("kl_exact", "kl_outside"), exact, strict=True)}
            self.states = []
        self._log_means(**kls)
        if "kl_exact" in kls:
            self.controller.update(kls["kl_exact"], len(mask) * self.accelerator.num_processes)

    def _read_policy(self, states: torch.Tensor) -> torch.Tensor:
        return read_out(self.accelerator.unwrap_model(self.model, keep_torch_compile=False), states)

    def _read_reference(self, states: torch.Tensor) -> torch.Tensor:
        """As in TRL: of an adapter, the base, or the adapter that training began with."""
        if self.ref_model is not None:
            return read_out(self.accelerator.unwrap_model(self.ref_model, keep_torch_compile=False), states)
        policy = self.accelerator.unwrap_model(self.model, keep_torch_compile=False)
        with use_adapter(policy, adapter_name="ref" if "ref" in policy.peft_config else None):
            return self._read_policy(states)

    def _prepare_inputs(self, generation_batch: Any) -> Batch:
        """Each epoch over a rollout sees other minibatches."""
        rounds = self.args.steps_per_generation
        if self._step % rounds == 0 and self._step % (rounds * self.num_iterations) != 0:
            whole: Any = {
                key: torch.cat([part[key] for part in self._buffered_inputs]) if value.ndim else value
                for key, value in self._buffered_inputs[0].items()
            }
            self._buffered_inputs = split_tensor_dict(shuffle_sequence_dict(whole), rounds)  # type: ignore[arg-type]
        return super()._prepare_inputs(generation_batch)

    # The loss

    def _compute_loss(self, model: nn.Module, inputs: Batch) -> torch.Tensor:
        """Policy loss and entropy bonus by the parent, and `vf_coef` times the value loss.

        Both are sums over tokens divided by the mean number of tokens in a minibatch, so that the result does not
        depend on how a batch is split for accumulation.
        """
        loss = super()._compute_loss(model, inputs)
        values = self._value(inputs)
        mask = inputs["completion_mask"].float()
        errors, clipped = clip_value_errors(values, inputs["values"], inputs["returns"], self.args.cliprange_value)
        tokens = inputs["num_items_in_batch"].clamp(min=1.0) / self.accelerator.num_processes
        accumulated = self.current_gradient_accumulation_steps
        value_loss = 0.5 * (errors * mask).sum() / (tokens * accumulated / self.args.steps_per_generation)
        losses = {"policy_loss": loss.detach() * accumulated, "value_loss": value_loss.detach() * accumulated}
        self._log_means(**{name: self._mean(value) for name, value in losses.items()})  # a share times the ranks
        self._log_tokens(inputs, mask, clipped)
        if self._is_warming_up():
            # No gradient at all: Adam would count steps with gradients of 0. Several processes wait for one of each
            # parameter, which is then dropped (actor_critic.py).
            loss = 0.0 * (loss if processes.count() > 1 else loss.detach())
        return loss + self.args.vf_coef * value_loss

    def _log_tokens(self, inputs: Batch, mask: torch.Tensor, value_clipped: torch.Tensor) -> None:
        """Log the update's figures that are means over the tokens of all ranks."""
        log_ratio = (self.first_pass[0] - inputs["old_per_token_logps"]) * mask
        ratio, advantages = log_ratio.exp(), inputs["advantages"]
        low, high = 1 - self.epsilon_low, 1 + self.epsilon_high
        figures = {
            "clip_fraction": (ratio < low) & (advantages < 0) | (ratio > high) & (advantages > 0),
            "value_clip_fraction": value_clipped,
            "ratio": ratio,
            "approx_kl": torch.expm1(log_ratio) - log_ratio,
        }
        kept = mask.bool()
        count, *sums = self._sum(torch.stack([value[kept].double().sum() for value in (mask, *figures.values())]))
        self._log_means(**{name: (s / count).item() for name, s in zip(figures, sums, strict=True)})

    def _mean(self, values: torch.Tensor) -> float:
        """The mean over the values of all ranks."""
        return self.accelerator.gather(values).mean().item()

    def _sum(self, values: torch.Tensor) -> torch.Tensor:
        """Add up over all ranks."""
        return self.accelerator.reduce(values, reduction="sum")

    def _log_means(self, **figures: float) -> None:
        for name, value in figures.items():
            self._metrics["train"][f"ppo/{name}"].append(value)
