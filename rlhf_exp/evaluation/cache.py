"""Caches the start model's completions of held-out rows, or of rows to learn from, by all that they depend on.

A sweep over training settings and seeds measures its baseline once. Only token ids are cached: grades, rewards and
intervals are always computed anew, so that a changed grader or reward cannot meet an outdated entry.

    held_out = sample_start_model(experiment, prompt_ids, title="baseline")
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlhf_exp import processes
from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import show
from rlhf_exp.errors import name_error, say
from rlhf_exp.evaluation.completions import HeldOut, sample_held_out
from rlhf_exp.models.generation import choose_method
from rlhf_exp.models.loading import load_policy
from rlhf_exp.models.policies import Processor
from rlhf_exp.models.vllm import choose_engine, choose_sampler, find_vllm_version
from rlhf_exp.runs.folder import write_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from rlhf_exp.experiment import Experiment

SAMPLER_VERSION = 4
"""Raise it when sampling itself changes, so that earlier entries are no longer found."""

HASH = "sha256"
"""Of the rest of an entry; those of earlier versions have none."""


def sample_start_model(
    experiment: "Experiment",
    prompt_ids: list[list[int]],
    title: str,
    model: "PreTrainedModel | None" = None,
    purpose: str = "evaluation",
) -> HeldOut:
    """`eval.start_completions` completions of each prompt by the start model: from the cache, or sampled and cached.

    `model` is the start model if the caller has loaded it. `baseline_cached` in run.json says whether the cache was
    used.
    """
    cfg = experiment.cfg
    cfg = replace(cfg, eval=replace(cfg.eval, completions=cfg.eval.start_completions))
    held_out, cached = sample_cached(experiment, cfg, prompt_ids, title, model, purpose)
    experiment.folder.record["baseline_cached"] = cached
    return held_out


def sample_cached(
    experiment: "Experiment",
    cfg: Config,
    prompt_ids: list[list[int]],
    title: str,
    model: "PreTrainedModel | None" = None,
    purpose: str = "evaluation",
    processors: Sequence[Processor] = (),
) -> tuple[HeldOut, bool]:
    """The same for another config than the experiment's and with changed logits, and whether it was in the cache."""
    key = baseline_key(cfg, experiment.model.identify(), prompt_ids, purpose, processors)
    held_out = processes.on_main(lambda: read_baseline(cfg, key, len(prompt_ids)))
    if held_out is not None:
        return held_out, True
    model = load_policy(experiment.model) if model is None else model
    sampler = None if processors else choose_sampler(cfg, experiment.model)
    held_out = sample_held_out(
        model, experiment.tokenizer, prompt_ids, cfg, title=title, purpose=purpose, processors=processors,
        sampler=sampler,
    )  # fmt: skip
    write_baseline(cfg.eval.cache_dir, key, held_out)
    return held_out, False


def baseline_key(
    cfg: Config,
    weights: str,
    prompt_ids: list[list[int]],
    purpose: str = "evaluation",
    processors: Sequence[Processor] = (),
) -> str:
    """A hash of what the completions depend on: weights, prompts, budget, sampling, seed, numerics. Batches and the
    method are numerics: they change the last digits of the logits."""
    facts = {
        "sampler": [SAMPLER_VERSION, purpose],
        "weights": weights,
        "prompt_ids": prompt_ids,
        "max_tokens": cfg.max_tokens,
        "sampling": [cfg.eval.temperature, cfg.eval.top_p, cfg.eval.top_k, cfg.eval.seed, cfg.eval.batch_size],
        "completions": [cfg.eval.completions, cfg.eval.greedy],
        "method": choose_method(cfg),
        "numerics": [cfg.model.dtype, cfg.model.attn_implementation, cfg.peft.quantization, cfg.device.use_cpu],
        "versions": [version("torch"), version("transformers")],
    }
    if processors:
        facts["processors"] = list(map(repr, processors))
    elif choose_engine(cfg) == "vllm":
        facts |= {"method": "vllm", "vllm": find_vllm_version()}
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def read_baseline(cfg: Config, key: str, rows: int) -> HeldOut | None:
    """The cached completions of `rows` prompts; None if there are none, or without a cache. A damaged entry is reported
    and replaced by new samples."""
    if cfg.eval.cache_dir is None or not (path := Path(cfg.eval.cache_dir) / f"{key}.json").exists():
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept.pop(HASH, None) not in (None, _hash(kept)):
            raise ValueError("its content does not have its hash")
        greedy = kept.pop("greedy")
        held_out = HeldOut(**kept, greedy=HeldOut(**greedy) if greedy else None)
        _check(held_out, rows * cfg.eval.completions, cfg.max_tokens)
        if cfg.eval.greedy:
            _check(held_out.greedy, rows, cfg.max_tokens)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        say(f"{path}: damaged ({name_error(error)}); sampled anew")
        return None
    return held_out


def _check(held_out: HeldOut, count: int, max_tokens: int) -> None:
    """Raise ValueError or TypeError unless it holds `count` completions and figures of the right types."""
    for name in ("completion_ids", "truncated", "kl", "kl_sampled", "kl_outside"):
        values = getattr(held_out, name)
        if values is None and name in ("kl_sampled", "kl_outside"):
            continue
        if not isinstance(values, list) or len(values) != count:
            raise ValueError(f"{name} is not a list of {count}")
        for value in values:
            if name == "completion_ids":
                fits = len(value) <= max_tokens and all(type(token) is int and token >= 0 for token in value)
            else:
                fits = type(value) is bool if name == "truncated" else type(value) in (int, float)
            if not fits:
                raise ValueError(f"{name} holds {show(value, 40)}")


def write_baseline(cache_dir: str | None, key: str, baseline: HeldOut) -> None:
    """Cache the completions; two runs that write the same key at the same time write the same content."""
    if cache_dir is not None and processes.is_main():
        Path(cache_dir).mkdir(parents=True, exist_ok=True)
        content = asdict(baseline)
        write_json(Path(cache_dir) / f"{key}.json", {HASH: _hash(content), **content})


def _hash(content: dict[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
