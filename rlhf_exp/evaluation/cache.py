"""Caches the start model's completions of held-out rows, or of rows to learn from, by all that they depend on.

A sweep over training settings and seeds measures its baseline once. Only what was sampled is cached: grades, rewards
and intervals are always computed anew, so that a changed grader or reward cannot meet an outdated entry.

    completions = sample_start_model(experiment, prompt_ids, title="baseline")
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
from rlhf_exp.errors import name_error, say
from rlhf_exp.evaluation.completions import Completion, sample_held_out
from rlhf_exp.models.generation import choose_method
from rlhf_exp.models.loading import load_policy
from rlhf_exp.models.policies import Processor
from rlhf_exp.models.vllm import choose_engine, choose_sampler, find_vllm_version
from rlhf_exp.runs.folder import write_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from rlhf_exp.experiment import Experiment

SAMPLER_VERSION = 5
"""Raise it when sampling itself or the form of an entry changes, so that earlier entries are no longer found."""


def sample_start_model(
    experiment: "Experiment",
    prompt_ids: list[list[int]],
    title: str,
    model: "PreTrainedModel | None" = None,
    purpose: str = "evaluation",
) -> list[Completion]:
    """`eval.start_completions` completions of each prompt by the start model: from the cache, or sampled and cached.

    `model` is the start model if the caller has loaded it. `baseline_cached` in run.json says whether the cache was
    used.
    """
    cfg = experiment.cfg
    cfg = replace(cfg, eval=replace(cfg.eval, completions=cfg.eval.start_completions))
    completions, cached = sample_cached(experiment, cfg, prompt_ids, title, model, purpose)
    experiment.folder.record["baseline_cached"] = cached
    return completions


def sample_cached(
    experiment: "Experiment",
    cfg: Config,
    prompt_ids: list[list[int]],
    title: str,
    model: "PreTrainedModel | None" = None,
    purpose: str = "evaluation",
    processors: Sequence[Processor] = (),
) -> tuple[list[Completion], bool]:
    """The same for another config than the experiment's and with changed logits, and whether it was in the cache."""
    path = None
    if cfg.eval.cache_dir is not None:
        key = hash_sampling(cfg, experiment.model.identify(), prompt_ids, purpose, processors)
        path = Path(cfg.eval.cache_dir) / f"{key}.json"
        if (completions := processes.on_main(lambda: read_entry(path))) is not None:
            return completions, True
    model = load_policy(experiment.model) if model is None else model
    sampler = None if processors else choose_sampler(cfg, experiment.model)
    how = {"title": title, "purpose": purpose, "processors": processors, "sampler": sampler}
    completions = sample_held_out(model, experiment.tokenizer, prompt_ids, cfg, **how)
    if path is not None and processes.is_main():
        write_entry(path, completions)
    return completions, False


def hash_sampling(
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
    return _hash(facts)


def read_entry(path: Path) -> list[Completion] | None:
    """The cached completions; None if there are none. A damaged entry is reported and replaced by new samples."""
    if not path.exists():
        return None
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
        if entry["sha256"] != _hash(entry["completions"]):
            raise ValueError("its content does not have its hash")
        return [Completion(**one) for one in entry["completions"]]
    except (ValueError, TypeError, KeyError) as error:
        say(f"{path}: damaged ({name_error(error)}); sampled anew")
        return None


def write_entry(path: Path, completions: list[Completion]) -> None:
    """Cache completions; two runs that write the same entry at the same time write the same content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = [asdict(one) for one in completions]
    write_json(path, {"sha256": _hash(content), "completions": content})


def _hash(content: Any) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
