"""Checks that the run fits into memory: by an estimate, and on an accelerator by a step as large as any.

    check_memory(experiment)                # before training
    try_longest_step(trainer, experiment)   # forward and backward of the longest rows, when training begins

On a CPU a process that needs too much memory is killed, and nothing can be raised: there the estimate alone decides.
"""

from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

import torch

from rlhf_exp.config.schema import Lora
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
    said = f"about {needed[''] / 1e9:.2f} GB at the peak, of {place}"
    if needed[""] <= free:
        return Check("memory", "passed", said, {"needed": needed[""], "free": free})
    return _refuse("memory", "failed" if needed[""] > MARGIN * free else "warned", said, needed)


def estimate_peaks(experiment: Experiment, phase: str | None = None) -> dict[str, float]:
    """Bytes at the peak, or that of a phase: of the run as it is (""), and by each override that would lower it, the
    smallest first."""
    cfg, args, batch = experiment.cfg, experiment.args, experiment.args.per_device_train_batch_size
    lengths = measure_lengths(cfg, experiment.tokenizer, experiment.task)
    model, trained = build_on_meta(cfg, deepcopy(experiment.model.config))

    def estimate(changed: Any = cfg, trained: int = trained, **of_args: Any) -> float:
        own, shorter = copy(args), (cfg.max_tokens - changed.max_tokens) * cfg.algo.row.online
        vars(own).update(of_args)
        phases = estimate_memory(changed, own, model, trained, lengths.prompt, lengths.longest - shorter)
        return max(sum(parts.values()) for name, parts in phases.items() if phase in (name, None))

    half, budget = max(1, batch // 2), max(1, cfg.max_tokens // 2)
    four: dict[str, bool | str] = {"load_in_4bit": True}
    peft = replace(cfg.peft, name="qlora", lora=cfg.peft.lora or ADAPTER, own_reference=False, quantization=four)
    in_4_bits = replace(cfg, peft=peft)
    adapters = build_on_meta(in_4_bits, deepcopy(experiment.model.config))[1]
    found = {
        f"algo.args.per_device_train_batch_size={half}": estimate(per_device_train_batch_size=half),
        "algo.args.activation_checkpointing=true": estimate(activation_checkpointing=True),
        f"max_tokens={budget}": estimate(replace(cfg, max_tokens=budget)),
        "peft=qlora": estimate(in_4_bits, adapters),
    }
    peak = estimate()
    return {"": peak} | {change: size for size, change in sorted((s, c) for c, s in found.items()) if size < peak}


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
    said += "".join(f"; {change or 'as it is'} needs {size / 1e9:.2f} GB" for change, size in needed.items())
    peak = needed.pop("")
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
