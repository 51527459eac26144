"""Measures trivial policies made of the start model's weights (`task.baselines`): what a trained model has to beat.

    chosen = measure_policies(experiment, start_model)      # the best policy of each family
    section = describe_policies(chosen)                     # `baselines` of evaluation.json
    lines = list_rows(chosen, task.eval)                    # policies.jsonl

Of each family the policy with the highest accuracy on validation rows is measured on the held-out rows; which family is
the best is decided on the validation rows too (report/policies.py). Every policy is tried alone, and with the words
forbidden whose absence helps most. All are sampled by transformers, since vLLM has no processors that read what was
sampled so far.
"""

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlhf_exp.algorithms import load_object
from rlhf_exp.config.schema import Config
from rlhf_exp.evaluation.cache import sample_cached
from rlhf_exp.evaluation.completions import HeldOut, make_samples
from rlhf_exp.evaluation.metrics import Sample, average_rows, summarise
from rlhf_exp.models.policies import FORBIDDEN, OF_EVERY_TASK, Policy
from rlhf_exp.stats import DIFFERENCES, paired_interval
from rlhf_exp.tasks import Row, load_validation, wants_chat
from rlhf_exp.tasks.tokens import encode_prompts

if TYPE_CHECKING:
    from rlhf_exp.experiment import Experiment

FIGURES = ("accuracy", "mean_tokens", "truncation_rate")

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
    cfg, tokenizer = experiment.cfg, experiment.tokenizer
    graded = replace(experiment, rewards=[])
    rows = load_validation(cfg, tokenizer, min(cfg.eval.limit, VALIDATION_ROWS))
    on_validation = replace(graded, task=replace(graded.task, eval=rows))

    def try_all(policies: list[Policy]) -> dict[Policy, float]:
        samples = {policy: _sample(on_validation, model, policy, 1, "validation")[1] for policy in policies}
        return {policy: float(average_rows(found)["accuracy"].mean()) for policy, found in samples.items()}

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
        held_out, samples = _sample(graded, model, best, completions, "evaluation")
        section = summarise(samples, cfg.max_tokens, held_out)
        figures = {name: section[name] for name in FIGURES}
        accuracies = {policy.name: accuracy for policy, accuracy in tried.items()}
        chosen[family] = Chosen(best.name, accuracies, figures, average_rows(samples)["accuracy"])
    return chosen


def describe_policies(chosen: dict[str, Chosen], trained: list[Sample] | None = None) -> dict[str, Any]:
    """`baselines` of evaluation.json, by family: the policy, its figures, and what was tried on validation rows. With
    the samples of the trained model also `trained_minus`, the accuracy that it is ahead by."""
    section = {}
    for family, best in chosen.items():
        section[family] = {"policy": best.name, "n": len(best.correct), **best.figures, "validation": best.tried}
        if trained is not None:
            correct = average_rows(trained)["accuracy"]
            section[family]["trained_minus"] = paired_interval(best.correct, correct, DIFFERENCES)
    return section


def list_rows(chosen: dict[str, Chosen], rows: list[Row]) -> list[dict[str, Any]]:
    """The lines of policies.jsonl: of each family's best policy the accuracy on each held-out row."""
    ids = [row["id"] for row in rows]
    return [
        {"family": family, "policy": best.name, "id": ids, "accuracy": best.correct.tolist()}
        for family, best in chosen.items()
    ]


def _list_own(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> list[Policy]:
    """The task's own policies, if it has any."""
    if cfg.task.own_policies is None or wants_chat(cfg, tokenizer):  # a chat model has other words
        return []
    return load_object(cfg.task.own_policies)(tokenizer)


def _sample(
    experiment: "Experiment", model: PreTrainedModel, policy: Policy, completions: int, purpose: str
) -> tuple[HeldOut, list[Sample]]:
    """Completions of the experiment's held-out rows, and their grades."""
    sampling = replace(experiment.cfg.eval, greedy=False, completions=completions, engine="transformers")
    if policy.temperature is not None:
        sampling = replace(sampling, temperature=policy.temperature)
    cfg, title = replace(experiment.cfg, eval=sampling), f"{policy.family}, {policy.name}"
    prompt_ids = encode_prompts(experiment.tokenizer, experiment.task.eval)
    held_out, _ = sample_cached(experiment, cfg, prompt_ids, title, model, purpose, policy.processors)
    return held_out, make_samples(title, replace(experiment, cfg=cfg), held_out)
