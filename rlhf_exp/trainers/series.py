"""Logs figures of rollouts and losses that TRL does not, for its trainers that sample, without another forward pass.

    class VariantGRPOTrainer(LoggedSeries, TrimmedPasses, ResumableRollouts, GRPOTrainer): ...

Of a rollout, over the completions of all ranks:
    completions/distinct_2: different token bigrams / token bigrams. More tokens have a lower share.
    completions/eos_rate: the share that ended with an end token.
Of a loss, over the completion tokens of all ranks:
    ratio/mean, ratio/max: the policy's probability of a token / that at the rollout, before any clipping. Not logged by
        GRPO if each rollout is one optimizer step, where the ratio is always 1.
    kl_k1: log policy - log reference at the rollout, in nats per token, if there is a reference. The estimate k1 can be
        negative, where TRL's `kl` of GRPO, k3, cannot; RLOO's `kl` is k1 too. PPO logs ppo/kl, per completion.
    sampling/sampling_logp_difference/mean, .../max: |log-probability of a token when it was sampled - when it was first
        scored|, in nats, TRL's name of the same figure with vLLM. Both are at the sampling's temperature and
        before top-p and top-k. Only from our own decoding loop. More than rounding (1e-5 in float32) means that
        sampling has other weights, other positions or another mask than training, or that training uses dropout.
"""

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from rlhf_exp import processes
from rlhf_exp.trainers.resuming import AnyTrainer

DIFFERENCE = "sampling/sampling_logp_difference"


class LoggedSeries(AnyTrainer):
    """Comes first among the bases of a TRL trainer that samples."""

    sampled_logps: torch.Tensor | None = None
    """(batch, time) of this process's newest rollout, with zeros after a completion's end; models/generation.py sets
    it."""

    _first_pass: Any = None
    """(batch, width): log-probabilities of the first pass since the rollout or the loss began."""

    def _get_per_token_logps_and_entropies(self, model: nn.Module, *args: Any, **kwargs: Any) -> tuple:
        found = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        if self._first_pass is None:
            self._first_pass = found[0].detach()
        return found

    def _generate(self, prompts: list) -> tuple:
        generated = super()._generate(prompts)
        completions = generated[1]
        metrics = self._metrics["train"]
        ended = sum(ids[-1] in self.eos_token_ids for ids in completions)
        own = len(completions), ended, sum(map(len, completions)), set().union(*map(pairwise, completions))
        rows, ended, tokens, pairs = zip(*processes.gather(own), strict=True)
        metrics["completions/eos_rate"].append(sum(ended) / sum(rows))
        metrics["completions/distinct_2"].append(len(set().union(*pairs)) / max(sum(tokens) - sum(rows), 1))
        return generated

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._first_pass = self.sampled_logps = None
        batch = super()._generate_and_score_completions(inputs)
        if self.sampled_logps is not None:
            missing = batch["completion_ids"].shape[1] - self.sampled_logps.shape[1]
            batch["sampled_logps"] = pad(self.sampled_logps, (0, missing))  # a negative number cuts
        return batch

    def _compute_loss(self, model: nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        self._first_pass = None
        loss = super()._compute_loss(model, inputs)
        if self._first_pass is None:  # TRL's liger kernel computes the loss without it
            return loss
        old, figures = inputs.get("old_per_token_logps", self._first_pass), dict[str, torch.Tensor]()
        if "old_per_token_logps" in inputs:
            figures["ratio"] = (self._first_pass - old).exp()
        if "ref_per_token_logps" in inputs:
            figures["kl_k1"] = old - inputs["ref_per_token_logps"]
        if "sampled_logps" in inputs:
            figures[DIFFERENCE] = (old - inputs["sampled_logps"]).abs()
        self._log_figures(figures, inputs["completion_mask"].bool())
        return loss

    def _log_figures(self, figures: dict[str, torch.Tensor], mask: torch.Tensor) -> None:
        """The mean of each, and but for `kl_k1` the maximum, over the tokens of all ranks; 0 without a token."""
        metrics = self._metrics["train"]
        kept = torch.stack([mask.double(), *(values.double().masked_fill(~mask, 0.0) for values in figures.values())])
        count, *sums = self.accelerator.reduce(kept.sum((1, 2)), reduction="sum").tolist()
        _, *most = self.accelerator.gather(kept.amax((1, 2))[None]).amax(0).tolist()
        for name, total, highest in zip(figures, sums, most, strict=True):
            metrics[name if name == "kl_k1" else f"{name}/mean"].append(total / max(count, 1))
            if name != "kl_k1":
                metrics[f"{name}/max"].append(highest)
