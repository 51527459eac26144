"""Measures trivial policies made of the start model's weights (`task.baselines`): what a trained model has to beat.

    chosen = measure_policies(experiment, start_model)      # the best policy of each family
    section = describe_policies(chosen)                     # `baselines` of evaluation.json

Of each family the policy with the highest accuracy on validation rows is measured on the held-out rows. Every policy is
tried alone, and with the words forbidden whose absence helps most.
"""

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlhf_exp.config.schema import Config
from rlhf_exp.evaluation.cache import sample_cached
from rlhf_exp.evaluation.completions import HeldOut
from rlhf_exp.evaluation.metrics import Sample
from rlhf_exp.models.policies import FORBIDDEN, OF_EVERY_TASK, Policy
from rlhf_exp.stats import DIFFERENCES, mean_interval, paired_interval, share_interval
from rlhf_exp.tasks import Row, find_rows, load_task
from rlhf_exp.tasks.tokens import encode_prompts

if TYPE_CHECKING:
    from rlhf_exp.experiment import Experiment

VALIDATION_ROWS = 256
"""At most so many rows for choosing: a family's best policy differs from the others by more than their error of three
points, or it does not matter which is taken."""


@dataclass(frozen=True)
class Chosen:
    """The best policy of a family.

    Attributes:
        tried: accuracy on the validation rows by policy, in [0, 1].
        figures: of the best one on the held-out rows, each with its interval.
        correct: (rows,) float64, the share of each held-out row's completions that are correct.
    """

    name: str
    tried: dict[str, float]
    figures: dict[str, Any]
    correct: np.ndarray


def measure_policies(experiment: "Experiment", model: PreTrainedModel) -> dict[str, Chosen]:
    """The best policy of each family, by the family's name. `model` is the start model."""
    cfg, task, tokenizer = experiment.cfg, experiment.task, experiment.tokenizer
    validation = _load_validation(cfg, tokenizer)

    def try_all(policies: list[Policy]) -> dict[Policy, float]:
        samples = {policy: _sample(experiment, model, policy, validation, 1, "validation") for policy in policies}
        return {policy: float(_grade(experiment, found, validation).mean()) for policy, found in samples.items()}

    (start,) = try_all([Policy("start model", "as it is")]).values()
    forbidden: list[Policy] = []
    chosen = {}
    for family, members in groupby([*_list_own(cfg, tokenizer), *OF_EVERY_TASK], key=lambda policy: policy.family):
        alone = list(members)
        tried = try_all([*alone, *(policy.combine(other) for other in forbidden for policy in alone)])
        best = max(tried, key=tried.__getitem__)
        if family == FORBIDDEN and tried[best] > start:
            forbidden = [best]
        completions = 1 if best.temperature == 0 else cfg.eval.completions
        held_out = _sample(experiment, model, best, task.eval, completions, "evaluation")
        correct = _grade(experiment, held_out, task.eval)
        accuracies = {policy.name: accuracy for policy, accuracy in tried.items()}
        chosen[family] = Chosen(best.name, accuracies, _summarise(held_out, correct), correct)
    return chosen


def describe_policies(chosen: dict[str, Chosen], trained: list[Sample] | None = None) -> dict[str, Any]:
    """`baselines` of evaluation.json, by family: the policy, its figures, and what was tried on validation rows. With
    the samples of the trained model also `trained_minus`, the accuracy that it is ahead by."""
    section = {}
    for family, best in chosen.items():
        section[family] = {"policy": best.name, "n": len(best.correct), **best.figures, "validation": best.tried}
        if trained is not None:
            right = [s["outcome"] == "correct" for s in trained if s["decoding"] == "sampled"]
            by_row = np.array(right, dtype=np.float64).reshape(len(best.correct), -1).mean(1)
            section[family]["trained_minus"] = paired_interval(best.correct, by_row, DIFFERENCES)
    return section


def _list_own(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> list[Policy]:
    """The task's own policies, if it has any."""
    find = getattr(find_rows(cfg.task), "list_policies", None)
    return find(cfg, tokenizer) if find else []


def _load_validation(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> list[Row]:
    """Prompts of the validation split, whatever the algorithm learns from: no other row is made."""
    rows = min(cfg.eval.limit, VALIDATION_ROWS)
    chosen_on = replace(cfg.eval, split="validation", rows=None, most_rows=rows, every=None, best=False)
    prompts = replace(cfg, algo=replace(cfg.algo, name="grpo"), task=replace(cfg.task, train_rows=1), eval=chosen_on)
    return load_task(prompts, tokenizer).eval


def _sample(
    experiment: "Experiment", model: PreTrainedModel, policy: Policy, rows: list[Row], completions: int, purpose: str
) -> HeldOut:
    sampling = replace(experiment.cfg.eval, greedy=False, completions=completions)
    if policy.temperature is not None:
        sampling = replace(sampling, temperature=policy.temperature)
    prompt_ids, title = encode_prompts(experiment.tokenizer, rows), f"{policy.family}, {policy.name}"
    cfg = replace(experiment.cfg, eval=sampling)
    return sample_cached(experiment, cfg, prompt_ids, title, model, purpose, policy.processors)[0]


def _grade(experiment: "Experiment", held_out: HeldOut, rows: list[Row]) -> np.ndarray:
    """(rows,) the share of each row's completions that are correct."""
    texts = experiment.tokenizer.batch_decode(held_out.completion_ids, skip_special_tokens=True)
    k = len(texts) // len(rows)
    right = [experiment.task.grade(text, rows[i // k]).outcome == "correct" for i, text in enumerate(texts)]
    return np.array(right, dtype=np.float64).reshape(len(rows), k).mean(1)


def _summarise(held_out: HeldOut, correct: np.ndarray) -> dict[str, Any]:
    tokens = np.array([len(ids) for ids in held_out.completion_ids], dtype=np.float64)
    completions = len(tokens) // len(correct)
    truncated = np.array(held_out.truncated, dtype=np.float64)
    return {
        "accuracy": share_interval(correct, completions),
        "mean_tokens": mean_interval(tokens.reshape(len(correct), -1).mean(1)),
        "truncation_rate": share_interval(truncated.reshape(len(correct), -1).mean(1), completions),
    }
