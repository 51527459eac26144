"""Checks that the run fits into memory: by an estimate, and on an accelerator by a step as large as any.

    check_memory(experiment)                # before training
    try_longest_step(trainer, experiment)   # forward and backward of the longest rows, when training begins

On a CPU a process that needs too much memory is killed, and nothing can be raised: there the estimate alone decides.
"""

from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

import torch

from rlhf_exp.config.schema import Config, Lora
from rlhf_exp.dry_run.cost import MARGIN, estimate_memory, find_memory
from rlhf_exp.dry_run.load import build_on_meta, measure_lengths
from rlhf_exp.experiment import Experiment
from rlhf_exp.preflight.check import Check
from rlhf_exp.tasks.tokens import encode_prompts

SEARCHED = 4096
"""Rows among which the longest are searched."""
ADAPTER = Lora(r=8, lora_alpha=16, lora_dropout=0.0, target_modules="all-linear")
"""Of conf/peft/qlora.yaml."""


def check_memory(experiment: Experiment) -> Check:
    """Whether the estimated peak fits into what is free; else what it would be after each change that lowers it."""
    needed, (free, place) = estimate_peaks(experiment), find_memory(experiment.cfg)
    said, peak = f"about {needed[''] / 1e9:.2f} GB at the peak, of {place}", needed[""]
    if peak <= free:
        return Check("memory", "passed", said, {"needed": peak, "free": free})
    return _refuse("memory", "failed" if peak > MARGIN * free else "warned", said, needed)


def estimate_peaks(experiment: Experiment, phase: str | None = None) -> dict[str, float]:
    """Bytes at the peak, or that of a phase: by each override that would lower it, the smallest first, and of the run
    as it is ("")."""
    cfg, lengths = experiment.cfg, measure_lengths(experiment.cfg, experiment.tokenizer, experiment.task)
    half, budget = max(1, experiment.args.per_device_train_batch_size // 2), max(1, cfg.max_tokens // 2)
    four, lora = {"load_in_4bit": True}, cfg.peft.lora or ADAPTER
    qlora: Any = replace(cfg.peft, name="qlora", lora=lora, own_reference=False, quantization=four)  # type: ignore[arg-type]
    changes: dict[str, tuple[Config, dict[str, Any]]] = {
        "": (cfg, {}),
        f"algo.args.per_device_train_batch_size={half}": (cfg, {"per_device_train_batch_size": half}),
        "algo.args.activation_checkpointing=true": (cfg, {"activation_checkpointing": True}),
        f"max_tokens={budget}": (replace(cfg, max_tokens=budget), {}),
        "peft=qlora": (replace(cfg, peft=qlora), {}),
    }
    found = {}
    for change, (changed, of_args) in changes.items():
        args, row = copy(experiment.args), lengths.longest
        vars(args).update(of_args)
        row -= (cfg.max_tokens - changed.max_tokens) * cfg.algo.row.online
        model, trained = build_on_meta(changed, deepcopy(experiment.model.config))
        phases = estimate_memory(changed, args, model, trained, lengths.longest_prompt, row)
        found[change] = max(sum(parts.values()) for name, parts in phases.items() if phase in (name, None))
    return {change: found[change] for change in sorted(found, key=found.__getitem__)
            if not change or found[change] < found[""]}  # fmt: skip


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
        return _refuse("longest_step", "failed", f"{what} does not fit", estimate_peaks(experiment, "training"))
    finally:
        moments.clear()
        model.zero_grad(set_to_none=True)
        model.train(was_training)
        vars(trainer).clear()
        vars(trainer).update(kept)
    return Check("longest_step", "passed", f"{what} fits into memory", {"rows": rows})


def _refuse(name: str, status: Any, said: str, needed: dict[str, float]) -> Check:
    """The check with what each change is estimated to need."""
    peak = needed.pop("")
    said += f"; as it is needs {peak / 1e9:.2f} GB"
    said += "".join(f"; {change} needs {size / 1e9:.2f} GB" for change, size in needed.items())
    return Check(name, status, said, {"needed": peak, "changes": needed}, [*needed])


def _collate_longest(trainer: Any, rows: int) -> Any:
    """A batch of the rows with the most tokens."""
    found = trainer.train_dataset[:SEARCHED]
    sizes = [sum(map(len, row)) for row in zip(*(v for v in found.values() if isinstance(v[0], list)), strict=True)]
    longest = sorted(range(len(sizes)), key=sizes.__getitem__)[-rows:]
    return trainer._prepare_inputs(trainer.data_collator([trainer.train_dataset[i] for i in longest]))


def _make_rollout(trainer: Any, rows: int) -> dict[str, torch.Tensor]:
    """A batch of completions of the whole budget, each after the longest prompt."""
    texts = [{"prompt": text} for text in trainer.train_dataset[:SEARCHED]["prompt"]]
    prompts = encode_prompts(trainer._tokenizer, texts)
    width = trainer.max_completion_length
    ids, zeros = torch.tensor([max(prompts, key=len)] * rows), torch.zeros(rows, width)
    advantages = zeros if hasattr(trainer, "critic") else zeros[:, 0]  # PPO's are of tokens
    found = {"prompt_ids": ids, "completion_ids": ids[:, :1].repeat(1, width), "advantages": advantages}
    found |= {f"{part}_mask": torch.ones_like(found[f"{part}_ids"]) for part in ("prompt", "completion")}
    found |= dict.fromkeys(("old_per_token_logps", "ref_per_token_logps", "returns", "values"), zeros)
    found |= {"old_logps": zeros[:, 0], "num_items_in_batch": torch.tensor(float(rows * width))}
    return {name: tensor.to(trainer.args.device) for name, tensor in found.items()}
