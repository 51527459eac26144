"""Measuring a model on held-out rows: sample, grade, and compare with the start model.

    held_out = sample_held_out(model, tokenizer, task.eval, cfg)
    samples = describe_samples("baseline", cfg, task, tokenizer, rewards, held_out)
    section = summarise(samples, cfg.max_tokens)
    paired = compare(baseline_samples, trained_samples, seed=0)

The same rows, budget and sampling serve the baseline and the trained model, so that their difference is paired.
"""

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlhf_exp.generation import Sampling, choose_method, sample_completions
from rlhf_exp.monitor import completion_logps, token_kl
from rlhf_exp.rewards import RewardFunction, score_completions
from rlhf_exp.stats import mean_interval, paired_bootstrap, wilson, win_rate

if TYPE_CHECKING:
    from rlhf_exp.config import Config
    from rlhf_exp.tasks import Row, Task

KL_BATCH_TOKENS = 2**26
"""Completion positions times vocabulary in one batch of the KL measurement: 256 MiB of float32 logits a model."""


@dataclass(frozen=True)
class HeldOut:
    """One completion for each held-out row, in their order: token ids, whether the budget cut it, and the sum over its
    tokens of KL(policy || start), in nats."""

    completion_ids: list[list[int]]
    truncated: list[bool]
    kl: list[float]


def encode_prompts(tokenizer: PreTrainedTokenizerBase, rows: "list[Row]") -> list[list[int]]:
    """Token ids of each row's prompt, through the chat template where the prompt is a list of messages."""
    if isinstance(rows[0]["prompt"], str):
        return tokenizer([row["prompt"] for row in rows])["input_ids"]
    return [
        tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]
        for row in rows
    ]


def list_eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Every token that ends a completion: the tokenizer's and the model's own."""
    declared = model.generation_config.eos_token_id
    declared = declared if isinstance(declared, list) else [declared]
    return sorted({t for t in [*declared, tokenizer.eos_token_id] if t is not None})


def sample_held_out(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: "list[Row]",
    cfg: "Config",
    start_model: PreTrainedModel | None = None,
    title: str = "evaluate",
) -> HeldOut:
    """Sample one completion for each row, in batches sorted by prompt length, from `cfg.eval.seed`.

    Torch's random state is put back afterwards: measuring does not change training. Without `start_model` the model is
    the start model, and its KL is 0.
    """
    sampling = Sampling(cfg.max_tokens, cfg.eval.temperature, cfg.eval.top_p, cfg.eval.top_k)
    prompt_ids, eos_ids = encode_prompts(tokenizer, rows), list_eos_ids(model, tokenizer)
    order = sorted(range(len(rows)), key=lambda i: len(prompt_ids[i]))
    completions: list[list[int]] = [[] for _ in rows]
    training = model.training
    model.eval()
    devices = [] if model.device.type == "cpu" else [model.device]
    with torch.random.fork_rng(devices), tqdm(total=len(rows), desc=title, unit="row", leave=False) as bar:
        torch.manual_seed(cfg.eval.seed)
        for start in range(0, len(order), cfg.eval.batch_size):
            batch = order[start : start + cfg.eval.batch_size]
            found = sample_completions(
                model, [prompt_ids[i] for i in batch], sampling, eos_ids, tokenizer.pad_token_id, choose_method(cfg)
            )
            for i, completion in zip(batch, found, strict=True):
                completions[i] = completion
            bar.update(len(batch))
    kl = [0.0] * len(rows)
    if start_model is not None:
        kl = measure_kl(model, start_model, list(zip(prompt_ids, completions, strict=True)), tokenizer.pad_token_id)
    model.train(training)
    return HeldOut(completions, [ids[-1] not in eos_ids for ids in completions], kl)


@torch.no_grad()
def measure_kl(
    model: PreTrainedModel, start_model: PreTrainedModel, rows: list[tuple[list[int], list[int]]], pad_id: int
) -> list[float]:
    """KL(policy || start) of each (prompt ids, completion ids) row, in nats per completion.

    The sum over the completion's positions of the exact KL over the vocabulary, at temperature 1: never negative, and
    an unbiased estimate of the sequence KL with less variance than the sampled log-ratio (its Rao-Blackwellised form,
    Amini et al. 2025, arXiv:2504.10637).
    """
    longest = max(len(p) + len(c) for p, c in rows)
    size = max(1, KL_BATCH_TOKENS // (longest * model.config.vocab_size))
    order = sorted(range(len(rows)), key=lambda i: len(rows[i][0]) + len(rows[i][1]))
    found = [0.0] * len(rows)
    for start in range(0, len(order), min(size, 128)):
        batch = order[start : start + min(size, 128)]
        picked = [rows[i] for i in batch]
        kl = token_kl(completion_logps(model, picked, pad_id), completion_logps(start_model, picked, pad_id))
        for i, part in zip(batch, kl.split([len(c) for _, c in picked]), strict=True):
            found[i] = part.sum().item()
    return found


def describe_samples(
    which: str,
    cfg: "Config",
    task: "Task",
    tokenizer: PreTrainedTokenizerBase,
    rewards: list[RewardFunction],
    held_out: HeldOut,
) -> list[dict[str, Any]]:
    """The rows of samples.jsonl: each completion with its grade, every reward component, and the weighted reward."""
    texts = tokenizer.batch_decode(held_out.completion_ids, skip_special_tokens=True)
    components = score_completions(rewards, task.eval, texts)
    samples = []
    for row, text, ids, cut, kl, parts in zip(
        task.eval, texts, held_out.completion_ids, held_out.truncated, held_out.kl, components, strict=True
    ):
        grade = task.grade(text, row)
        prompt = row["prompt"] if isinstance(row["prompt"], str) else row["prompt"][-1]["content"]
        samples.append(
            {
                "which": which,
                "id": row["id"],
                "prompt": prompt,
                "completion": text,
                "tokens": len(ids),
                "truncated": cut,
                "outcome": grade.outcome,
                "extracted": grade.extracted,
                "rewards": parts,
                "reward": sum(cfg.reward.weights[name] * value for name, value in parts.items()),
                "kl": kl,
            }
        )
    return samples


def summarise(samples: list[dict[str, Any]], max_tokens: int) -> dict[str, Any]:
    """One section of evaluation.json, from its samples."""
    n = len(samples)
    counts = {kind: sum(s["outcome"] == kind for s in samples) for kind in ("correct", "partial", "failed")}
    tokens, rewards, kl = ([float(s[key]) for s in samples] for key in ("tokens", "reward", "kl"))
    return {
        "n": n,
        "max_tokens": max_tokens,
        "accuracy": wilson(counts["correct"], n),
        "counts": counts,
        "mean_tokens": mean_interval(tokens),
        "utilisation": statistics.fmean(tokens) / max_tokens,
        "truncation_rate": wilson(sum(s["truncated"] for s in samples), n),
        "reward": {"mean": mean_interval(rewards), "std": _std(rewards)},
        "kl": {"mean": mean_interval(kl), "std": _std(kl)},
    }


def compare(baseline: list[dict[str, Any]], trained: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """`paired` of evaluation.json: trained minus baseline on the same rows. A win is a higher reward."""
    correct = [[float(s["outcome"] == "correct") for s in samples] for samples in (baseline, trained)]
    rewards = [[s["reward"] for s in samples] for samples in (baseline, trained)]
    return {"difference": paired_bootstrap(*correct, seed), **win_rate(*rewards, seed)}


def _std(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0
