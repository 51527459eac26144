"""What the trainers that sample have in common: GRPO, PPO, RLOO and distillation.

    class VariantGRPOTrainer(Rollouts, GRPOTrainer): ...

`Rollouts` overrides TRL's methods once each, and calls these seams, which a trainer overrides:
    begin_rollout()         before anything is sampled
    finish_rollout(batch)   of TRL's rollout, with advantages: what the loss gets
    score_chunk(model, ...) log-probabilities and entropies of a chunk of rows; perhaps further figures
    count_passes()          forward and backward passes that learn from a rollout
    find_shared(model)      the backbone that computes prompts once for several completions, if there are such
    policy_alone()          inside, the policy has nothing that only its training needs

A completion's key is the run's seed, the number of the rollout, and the completion's place in it: it stays the same if
the rollout is split otherwise over batches or processes, or the run is resumed. The key does not name the problem,
which may be drawn twice in a rollout: the second completion would be a copy. vLLM and transformers' continuous batching
draw from generators of their own, as the batch comes. A checkpoint holds no rollout, so one that is due within a
rollout is written at its end. Rows are scored without their padding (trimmed.py).

Logged besides TRL's figures, without another forward pass. Of a rollout, over the completions of all ranks:
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

What this relies on in TRL is held by tests/test_trl_seam.py, test_row_random.py and test_trimmed.py.
"""

from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from rlhf_exp import processes
from rlhf_exp.forms import Row
from rlhf_exp.models.generation import sample_rollout
from rlhf_exp.models.row_random import Key, give_row_random
from rlhf_exp.models.scoring import find_backbone
from rlhf_exp.trainers.resuming import Progress, Resumable
from rlhf_exp.trainers.trimmed import Figures, can_continue, choose_rows, cpu_head, score_trimmed

Batch = dict[str, Any]
"""What TRL keeps of a rollout: tensors of (batch, time) and of (batch,) by their names, and counts."""

DIFFERENCE = "sampling/sampling_logp_difference"


def own_tokens(batch: Batch) -> torch.Tensor:
    """(batch, time) 1 for the tokens that the policy wrote, 0 for padding and for what tools returned."""
    mask = batch["completion_mask"]
    return mask * batch["tool_mask"] if "tool_mask" in batch else mask


class Rollouts(Resumable):
    """Comes before a TRL trainer that samples among the bases."""

    max_completion_length: Any

    rollouts = 0
    """How many have begun."""

    row_keys: list[Key]
    """One for each completion of the rollout that is being sampled on this process, for our own decoding loop; TRL's
    call of `generate` gets them in its generation config."""

    newest_rows: list[Row]
    """The rows of the newest rollout on this process, in the order of `row_keys`."""

    newest_rollout: tuple[list[list[int]], list[list[int]]]
    """The token ids of its prompts and completions."""

    sampled_logps: torch.Tensor | None = None
    """(batch, time) of it, with zeros after a completion's end; models/generation.py sets it."""

    first_pass: Any = None
    """Of the policy's first pass since the rollout or the loss began: log-probabilities (batch, width) without their
    gradient, and the further figures of `score_chunk`."""

    _save_is_due = False

    # The seams

    def begin_rollout(self) -> None:
        """Called before a rollout is sampled."""

    def finish_rollout(self, batch: Batch) -> Batch:
        """The batch that is learned from."""
        return batch

    def score_chunk(self, model: nn.Module, *args: Any, **kwargs: Any) -> Figures:
        """TRL's own pass, and perhaps figures after its three."""
        return super()._get_per_token_logps_and_entropies(model, *args, **kwargs)

    def count_passes(self) -> int:
        """Forward and backward passes that learn from a rollout."""
        return self.args.steps_per_generation * self.num_iterations

    # Rollouts

    def _generate_and_score_completions(self, inputs: list[Row]) -> Batch:
        self.begin_rollout()
        self.newest_rows, self.first_pass, self.sampled_logps = inputs, None, None
        self.give_keys(len(inputs))
        batch = super()._generate_and_score_completions(inputs)
        if self.sampled_logps is not None:
            missing = batch["completion_ids"].shape[1] - self.sampled_logps.shape[1]
            batch["sampled_logps"] = pad(self.sampled_logps, (0, missing))  # a negative number cuts
        return self.finish_rollout(batch)

    def give_keys(self, count: int) -> None:
        """Name the completions of this process's next rollout."""
        first = self.accelerator.process_index * count
        self.row_keys = [("training", self.args.seed, self.rollouts, first + i) for i in range(count)]
        if not (self.use_vllm or self.use_transformers_continuous_batching):
            give_row_random(self.generation_config, self.row_keys)
        self.rollouts += 1

    def _generate(self, prompts: list) -> tuple:
        with self.policy_alone():  # also vLLM's copy of the weights
            generated = super()._generate(prompts)
        self.newest_rollout = generated[:2]
        if self.meter is not None:
            self.meter.count_rollout(*self.newest_rollout)
        completions, metrics = generated[1], self._metrics["train"]
        ended = sum(ids[-1] in self.eos_token_ids for ids in completions)
        own = len(completions), ended, sum(map(len, completions)), set().union(*map(pairwise, completions))
        rows, ended, tokens, pairs = zip(*processes.gather(own), strict=True)
        metrics["completions/eos_rate"].append(sum(ended) / sum(rows))
        metrics["completions/distinct_2"].append(len(set().union(*pairs)) / max(sum(tokens) - sum(rows), 1))
        return generated

    # Passes

    def _get_per_token_logps_and_entropies(self, model: nn.Module, *args: Any, **kwargs: Any) -> tuple:
        found = self.score_rows(model, *args, **kwargs)
        if self.first_pass is None and model is not self.ref_model:
            self.first_pass = found[0].detach(), *found[3:]
        return found[:3]

    def score_rows(
        self, model: nn.Module, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int,
        batch_size: int | None = None, compute_entropy: bool = False, compute_aux_loss: bool = False, **others: Any,
    ) -> Figures:  # fmt: skip
        """TRL's figures, from trimmed chunks of at most `batch_size` rows. All ranks have equally many chunks, since
        they take part in each other's forward passes.

        From TRL's own pass instead if there are images, if `pad_to_multiple_of` asks for certain widths, or for the
        load-balancing loss of a mixture of experts, which is not a mean over chunks.
        """
        batch = input_ids, attention_mask, logits_to_keep
        wanted = {"compute_entropy": compute_entropy, "compute_aux_loss": compute_aux_loss}
        is_more_than_text = any(value is not None for value in others.values())
        if is_more_than_text or compute_aux_loss or self.pad_to_multiple_of is not None:
            return self.score_chunk(model, *batch, batch_size=batch_size, **wanted, **others)
        rows = choose_rows(input_ids.device, self.max_completion_length, batch_size)

        def score(model: nn.Module, *chunk: Any) -> Figures:
            return self.score_chunk(model, *chunk, **wanted)

        backbone = self.find_shared(model)
        autocast = nullcontext() if backbone is None else self.accelerator.autocast()
        with autocast, cpu_head(input_ids.device):
            return score_trimmed(score, model, *batch, rows, backbone)

    def find_shared(self, model: nn.Module) -> Any:
        """The backbone that computes the prompt of a group of completions once; None where each computes its own."""
        if self.num_generations == 1 or self.is_fsdp_enabled or self.args.torch_compile:
            return None
        backbone = find_backbone(self.accelerator.unwrap_model(model))
        return backbone if can_continue(backbone) else None

    # The loss

    def _compute_loss(self, model: nn.Module, inputs: Batch, *others: Any) -> Any:
        self.first_pass = None
        loss = super()._compute_loss(model, inputs, *others)
        if self.first_pass is None:  # distillation computes the loss without it
            return loss
        old, figures = inputs.get("old_per_token_logps", self.first_pass[0]), dict[str, torch.Tensor]()
        if "old_per_token_logps" in inputs:
            figures["ratio"] = (self.first_pass[0] - old).exp()
        if "ref_per_token_logps" in inputs:
            figures["kl_k1"] = old - inputs["ref_per_token_logps"]
        if "sampled_logps" in inputs:
            figures[DIFFERENCE] = (old - inputs["sampled_logps"]).abs()
        self._log_figures(figures, own_tokens(inputs).bool())
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

    # Checkpoints

    def _take_progress(self) -> Progress:
        return super()._take_progress() | {"rollouts": self.rollouts}

    def _set_progress(self, progress: Progress) -> None:
        super()._set_progress(progress)
        self.rollouts = progress["rollouts"]

    def _maybe_log_save_evaluate(self, *args: Any, **kwargs: Any) -> None:
        """Postpone a save that a callback asked for to the rollout's end. The run's last step saves even within a
        rollout, since no training continues from there."""
        self._save_is_due |= self.control.should_save
        in_rollout = self._step % self.count_passes() != 0
        self.control.should_save = self._save_is_due and (self.is_over() or not in_rollout)
        self._save_is_due &= not self.control.should_save
        super()._maybe_log_save_evaluate(*args, **kwargs)


class OwnSampling(Rollouts):
    """Comes before a TRL trainer that takes no `rollout_func`; if it is given one, our decoding loop samples, and TRL's
    own step of sampling is the seam."""

    def __init__(self, *args: Any, rollout_func: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._drops_ended = rollout_func is not None

    def _generate_single_turn(self, prompt_ids: list[list[int]], *multimodal: Any) -> list[list[int]]:
        if self._drops_ended:
            return sample_rollout(self, prompt_ids)
        return super()._generate_single_turn(prompt_ids, *multimodal)
