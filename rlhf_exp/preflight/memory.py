"""Checks that the run fits into memory: by an estimate, and on an accelerator by a step as large as any.

    check_memory(experiment)                # before anything is measured or sampled
    try_longest_step(trainer, experiment)   # forward and backward of the longest rows, when training begins

On a CPU a process that needs too much memory is killed, and nothing can be raised: there the estimate alone decides.
"""

from copy import deepcopy
from typing import Any

import torch

from rlhf_exp.dry_run.cost import MARGIN, estimate_memory, find_memory, list_smaller, write_bytes
from rlhf_exp.dry_run.load import Lengths, build_on_meta, measure_lengths
from rlhf_exp.experiment import Experiment
from rlhf_exp.preflight.check import Check
from rlhf_exp.tasks.tokens import encode_prompts

SEARCHED = 4096
"""Rows among which the longest are searched."""


def check_memory(experiment: Experiment) -> Check:
    """Whether the estimated peak fits into what is free; else what needs less."""
    needed, (free, place) = estimate_phases(experiment), find_memory(experiment.cfg)
    phase = max(needed, key=needed.__getitem__)
    said, peak = f"{phase} needs about {write_bytes(needed[phase])}, of {place}", needed[phase]
    figures = {"needed": peak, "free": free}
    if peak <= free:
        return Check("memory", "passed", said, figures)
    smaller = list_smaller(experiment.cfg, phase)
    return Check("memory", "failed" if peak > MARGIN * free else "warned", said, figures, smaller)


def estimate_phases(experiment: Experiment) -> dict[str, float]:
    """Bytes of each phase."""
    cfg, lengths = experiment.cfg, _measure(experiment)
    model, trained = build_on_meta(cfg, deepcopy(experiment.model.config))
    phases = estimate_memory(cfg, experiment.args, model, trained, lengths.longest_prompt, lengths.longest)
    return {phase: sum(parts.values()) for phase, parts in phases.items()}


def try_longest_step(trainer: Any, experiment: Experiment) -> Check:
    """Forward and backward of a batch of the longest rows, with room for the optimizer's moments. Weights, gradients,
    random state and figures are then as before, and no step is taken."""
    model, device, rows = trainer.model_wrapped, trainer.args.device, trainer.args.per_device_train_batch_size
    kept, was_training, moments = dict(vars(trainer)), model.training, []
    trainer._metrics = deepcopy(trainer._metrics)
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    what = f"a step of {rows} of the longest rows"
    try:
        batch = (_make_rollout if experiment.cfg.algo.row.online else _collate_longest)(trainer, rows)
        with torch.random.fork_rng([] if device.type == "cpu" else [device]):
            model.train()
            with trainer.compute_loss_context_manager():
                loss = trainer.compute_loss(model, batch)
            trainer.accelerator.backward(loss)
            moments += [torch.empty_like(p) for p in model.parameters() if p.requires_grad for _ in range(2)]
    except torch.cuda.OutOfMemoryError:
        return Check("longest_step", "failed", f"{what} does not fit", remedy=list_smaller(experiment.cfg))
    finally:
        moments.clear()
        model.zero_grad(set_to_none=True)
        model.train(was_training)
        vars(trainer).clear()
        vars(trainer).update(kept)
    return Check("longest_step", "passed", f"{what} fits into memory", {"rows": rows})


def _measure(experiment: Experiment) -> Lengths:
    return measure_lengths(experiment.cfg, experiment.tokenizer, experiment.task)


def _collate_longest(trainer: Any, rows: int) -> Any:
    """A batch of the rows with the most tokens."""
    found = trainer.train_dataset[:SEARCHED]
    sizes = [sum(map(len, row)) for row in zip(*(v for v in found.values() if isinstance(v[0], list)), strict=True)]
    longest = sorted(range(len(sizes)), key=sizes.__getitem__)[-rows:]
    return trainer._prepare_inputs(trainer.data_collator([trainer.train_dataset[i] for i in longest]))


def _make_rollout(trainer: Any, rows: int) -> dict[str, torch.Tensor]:
    """A batch of completions of the whole budget, each after a prompt of its own that is as long as the longest."""
    texts = [{"prompt": text} for text in trainer.train_dataset[:SEARCHED]["prompt"]]
    prompts = encode_prompts(trainer._tokenizer, texts)
    width = trainer.max_completion_length
    ids, zeros = torch.tensor([max(prompts, key=len)] * rows), torch.zeros(rows, width)
    ids[:, 0] = torch.arange(rows)
    advantages = zeros if hasattr(trainer, "critic") else zeros[:, 0]  # PPO's are of tokens
    found = {"prompt_ids": ids, "completion_ids": ids[:, :1].repeat(1, width), "advantages": advantages}
    found |= {f"{part}_mask": torch.ones_like(found[f"{part}_ids"]) for part in ("prompt", "completion")}
    found |= dict.fromkeys(("old_per_token_logps", "ref_per_token_logps", "returns", "values"), zeros)
    found |= {"old_logps": zeros[:, 0], "num_items_in_batch": torch.tensor(float(rows * width))}
    return {name: tensor.to(trainer.args.device) for name, tensor in found.items()}
