"""Measures sampling baselines (`task.baselines`): the start model's weights, sampled in other ways than the run does.

    best = measure_baselines(cfg, of, source, start_model)
    best.describe(cfg.max_tokens, trained)        # `baselines` of evaluation.json
    best.list_rows(task.eval)                     # policies.jsonl

What training gains has to be compared with the best of them. They are sifted on validation rows by successive halving,
each alone and with the words forbidden that its task lists; only the best one is measured on the held-out rows. All are
sampled by transformers, since vLLM has no processors that read what was sampled so far.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pkgutil import resolve_name

import numpy as np
from transformers import PreTrainedTokenizerBase

from rlhf_exp.analysis.stats import DIFFERENCES, paired_interval
from rlhf_exp.config.schema import Config
from rlhf_exp.evaluation.cache import sample_cached
from rlhf_exp.evaluation.completions import EvalSet, judge
from rlhf_exp.evaluation.metrics import average_rows, summarise
from rlhf_exp.models.generation import FORBIDDEN, OF_EVERY_TASK, Policy, choose_method
from rlhf_exp.models.scoring import Model
from rlhf_exp.models.source import ModelSource
from rlhf_exp.progress import progress
from rlhf_exp.runs import records
from rlhf_exp.runs.records import Completion
from rlhf_exp.tasks import Row, load_held_out, wants_chat

FIGURES = ("n", "accuracy", "mean_tokens", "truncation_rate")

FEW_ROWS, MOST_ROWS = 64, 256
"""Validation rows of the first and of the last round of sifting."""


@dataclass(frozen=True)
class BestBaseline:
    """The sampling baseline that is best on validation rows.

    Attributes:
        tried: of each one its accuracy on the most validation rows that it was sampled on, in [0, 1].
        completions: of the best one on the held-out rows.
    """

    policy: Policy
    tried: dict[str, float]
    completions: list[Completion]

    @property
    def correct(self) -> np.ndarray:
        """(rows,) float64, the share of each held-out row's completions that are correct."""
        return average_rows(self.completions)["accuracy"]

    def describe(self, max_tokens: int, trained: list[Completion] | None = None) -> dict[str, records.Baseline]:
        """`baselines` of evaluation.json, by family. With the completions of the trained model also `trained_minus`,
        the accuracy that it is ahead by."""
        figures = summarise(self.completions, max_tokens)
        known = {name: figures[name] for name in FIGURES}
        section = records.Baseline(policy=self.policy.name, validation=self.tried, **known)
        if trained is not None:
            section.trained_minus = paired_interval(self.correct, average_rows(trained)["accuracy"], DIFFERENCES)
        return {self.policy.family: section}

    def list_rows(self, rows: list[Row]) -> records.Policy:
        """The accuracy on each held-out row."""
        ids, correct = [row["id"] for row in rows], self.correct.tolist()
        return records.Policy(family=self.policy.family, policy=self.policy.name, id=ids, accuracy=correct)


def measure_baselines(cfg: Config, of: EvalSet, source: ModelSource, model: Model | None) -> BestBaseline:
    """The best sampling baseline on the rows of `of`; `model` is the start model."""
    validation = load_held_out(cfg, of.tokenizer, "validation", min(cfg.eval.limit, MOST_ROWS)).eval

    def sample(policy: Policy, rows: list[Row], purpose: str, completions: int = 1) -> list[Completion]:
        """Graded completions."""
        draws = replace(
            of.draws, sampling=policy.change(of.draws.sampling), key=(purpose, cfg.eval.seed), completions=completions,
            greedy=False, method=choose_method(cfg),
        )  # fmt: skip
        asked, title = replace(of, rows=rows, draws=draws, rewards=()), f"{policy.family}, {policy.name}"
        return judge(asked, sample_cached(asked, source, cfg.eval.cache_dir, title, model)[0])

    def measure(policy: Policy, rows: int) -> float:
        found = sample(policy, validation[:rows], "validation")
        bar.update()
        return float(average_rows(found)["accuracy"].mean())

    candidates = list_candidates(cfg, of.tokenizer)
    total = sum(policies for policies, _ in plan_rounds(len(candidates), len(validation)))
    with progress(total + 1, "baselines", "policy") as bar:
        best, tried = sift(candidates, measure, len(validation))
        k = 1 if best.temperature == 0 else cfg.eval.completions
        return BestBaseline(best, tried, sample(best, of.rows, "evaluation", k))


def sift(
    candidates: list[Policy], measure: Callable[[Policy, int], float], most: int
) -> tuple[Policy, dict[str, float]]:
    """The best policy, and the last accuracy of each by its name: all are measured on few rows, the better half of them
    on twice as many, and so on, up to `most` rows.

    Source: successive halving, Jamieson & Talwalkar 2016 (arXiv:1502.07943), with rows as the resource.
    """
    tried: dict[str, float] = {}
    for policies, rows in plan_rounds(len(candidates), most):
        found = {policy: measure(policy, rows) for policy in candidates[:policies]}
        tried |= {policy.name: accuracy for policy, accuracy in found.items()}
        candidates = sorted(found, key=found.__getitem__, reverse=True)
    return candidates[0], tried


def plan_rounds(policies: int, most: int) -> list[tuple[int, int]]:
    """How many policies each round of sifting measures, and on how many rows."""
    rounds = [(policies, min(FEW_ROWS, most))]
    while (rows := rounds[-1][1]) < most:
        rounds.append(((rounds[-1][0] + 1) // 2, min(2 * rows, most)))
    return rounds


def list_candidates(cfg: Config, tokenizer: PreTrainedTokenizerBase) -> list[Policy]:
    """The task's own policies and those of every task; each also with the words forbidden, if the task lists any."""
    place = None if wants_chat(cfg, tokenizer) else cfg.task.own_policies  # a chat model has other words
    alone = [*(resolve_name(place)(tokenizer) if place else []), *OF_EVERY_TASK]
    forbidden = [policy for policy in alone if policy.family == FORBIDDEN]
    others = [policy for policy in alone if policy.family != FORBIDDEN]
    return [*alone, *(policy.combine(never) for never in forbidden for policy in others)]
