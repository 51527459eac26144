"""Checks of the task's grader and the rewards, on right answers, broken ones, and the start model's completions.

    checks = check_grader(experiment, completions)

The task's grader and the weighted sum of the rewards are checked apart. Only what is certainly wrong fails, and only
where training or its samples depend on it; the rest is a warning.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from statistics import fmean, mode
from typing import Any

import numpy as np

from rlhf_exp.analysis.stats import Interval, as_interval, correlation_interval, mean_interval, share_interval, wilson
from rlhf_exp.experiment import Experiment
from rlhf_exp.preflight.answers import CORRUPTED, NOTHING, OTHER, PROMPT, RIGHT, Texts, write_texts
from rlhf_exp.preflight.check import Check, judge
from rlhf_exp.preflight.judged import check_judge
from rlhf_exp.preflight.signal import expect_signal
from rlhf_exp.rewards import MESSAGES, score_completions
from rlhf_exp.rewards.table import REWARDS
from rlhf_exp.runs.figures import number, percent
from rlhf_exp.runs.records import Completion

ROWS, FEWEST = 32, 8
TEXTS, LIMIT_S = 20, 5.0
"""About so many texts are graded for each row, of so few rows that it takes no longer than this."""
SMALL = 0.1
"""A share of rows that chance, or a few broken rows, may explain."""
ENOUGH = 0.5
"""Warned if fewer groups carry a signal."""


@dataclass
class Bench:
    """What the checks work on.

    Attributes:
        texts: for some held-out rows, by what writes them.
        demonstrated: whether the task says that its right answers are right.
        start: the start model's completions by the number of their held-out row; empty in an audit.
    """

    experiment: Experiment
    texts: dict[str, Texts]
    demonstrated: bool
    start: dict[int, list[Completion]]

    def mark(self, texts: Texts) -> list[bool]:
        """Whether each text gets full marks on its row."""
        grade: Any = self.experiment.task.grade
        return [grade(self.read_back(text), row).outcome == "correct" for text, row in texts]

    def read_back(self, text: str) -> str:
        """What encoding and decoding leave of a text, as of a completion: a special token in it is lost."""
        tokenizer = self.experiment.tokenizer
        ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return str(tokenizer.decode(ids, skip_special_tokens=True))

    def reward(self, texts: Texts) -> list[float]:
        """The weighted sum of the rewards of each text."""
        if not texts:
            return []
        weights, tokenizer = self.experiment.cfg.reward.weights, self.experiment.tokenizer
        ids = [[*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text, _ in texts]
        read = [self.read_back(text) for text, _ in texts]
        scores = score_completions(self.experiment.rewards, [row for _, row in texts], read, ids)
        return [sum((weights[name] or 0.0) * value for name, value in one.items()) for one in scores]

    @property
    def attacks(self) -> dict[str, Texts]:
        """The texts that know nothing of their row's answer: one for each row."""
        return {what: texts for what, texts in self.texts.items() if what not in (RIGHT, CORRUPTED, OTHER)}

    @property
    def rewards(self) -> dict[int, list[float]]:
        """The rewards of the start model's completions, by the row's number."""
        return {row: [one.reward or 0.0 for one in group] for row, group in self.start.items()}

    @property
    def right(self) -> list[list[bool]]:
        """Which of the start model's completions of each row are right."""
        return [[one.is_correct for one in group] for group in self.start.values()]


def check_grader(experiment: Experiment, completions: Sequence[Completion], strict: bool = False) -> list[Check]:
    """Every check of this module, in the order of CHECKS.

    Args:
        completions: of the start model, judged; none in an audit.
        strict: whether a broken grader fails although nothing is trained on it.
    """
    cfg, task, bench = experiment.cfg, experiment.task, _set_up(experiment, completions)
    trains_on_it = strict or cfg.algo.row.by_rewards or cfg.learns_from_samples
    lacks = {
        "rows": not task.eval and "no prompts are held out",
        "grader": task.grade is None and "the task has no grader",
        "rewards": not (experiment.rewards and (strict or cfg.algo.row.by_rewards)) and "no reward is trained on",
        "start": not bench.start and "the start model was not measured",
    }
    if "environment" in cfg.reward.weights:
        lacks["rewards"] = "an environment pays for what is done, and not for a text"
    checks = []
    for check, needs in CHECKS.items():
        missing = next((lacks[need] for need in ("rows", *needs) if lacks[need]), None)
        found = Check(check.__name__, "skipped", missing) if missing else check(bench)
        checks.append(found if trains_on_it or found.status != "failed" else found._replace(status="warned"))
    texts = [(group[0].completion, task.eval[row]) for row, group in bench.start.items()]
    return checks + check_judge(experiment, texts or bench.texts.get(RIGHT, []) or bench.texts[PROMPT])


def _set_up(experiment: Experiment, completions: Sequence[Completion]) -> Bench:
    rows, start = experiment.task.eval[:ROWS], dict[int, list[Completion]]()
    grade = experiment.task.grade if rows else None
    for one in completions:
        if one.decoding == "sampled":
            start.setdefault(one.row, []).append(one)
    if grade is not None:
        began = time.perf_counter()
        grade("1", rows[0])
        rows = rows[: max(FEWEST, int(LIMIT_S / TEXTS / max(time.perf_counter() - began, 1e-9)))]
    if experiment.cfg.reward.asks_model:  # each text is a forward pass
        rows = rows[:FEWEST]
    return Bench(experiment, *write_texts(experiment.cfg, experiment.tokenizer, rows, grade), start)


def oracle_max(bench: Bench) -> Check:
    """Right answers get full marks, as encoding and decoding leave them. Of those that this package writes itself only
    a warning is given."""
    if not (texts := bench.texts.get(RIGHT)):
        why = "no right answers are known" if texts is None else "the answers get full marks in no form"
        said = f"{why}; demonstrations would show how they are read"
        return Check("oracle_max", "skipped" if texts is None else "warned", said)
    right = bench.mark(texts)
    share = wilson(sum(right), len(right))
    said = f"{sum(right)} of {len(right)} right answers get full marks"
    lost = [bench.read_back(text) for (text, _), ok in zip(texts, right, strict=True) if not ok]
    said += "".join(f", not {text[-60:]!r}" for text in lost)[:100]
    if lost and sum(bench.experiment.task.grade(*one).outcome == "correct" for one in texts) > sum(right):  # type: ignore[misc]
        said += "; more do before the tokenizer encodes and decodes them: it changes or leaves out a part"
    is_broken = bench.demonstrated and (share["high"] or 0) < 1 - SMALL
    status = judge(is_broken and not all(right), not all(right))
    return Check("oracle_max", status, said, {"full_marks": share})


def floor_gap(bench: Bench) -> Check:
    """No marks for an empty answer, the prompt alone, or a corrupted right answer. For another row's answer a warning:
    several answers may be right."""
    marks = {
        what: bench.mark(texts) for what in (NOTHING, PROMPT, CORRUPTED, OTHER) if (texts := bench.texts.get(what))
    }
    shares = {what: wilson(sum(right), len(right)) for what, right in marks.items()}
    failed = [what for what, share in shares.items() if what != OTHER and _is_above(share, SMALL)]
    status = judge(failed, any(map(any, marks.values())))
    worst = max(failed or shares, key=lambda what: shares[what]["value"])
    said = f"full marks for {worst} on {sum(marks[worst])} of {len(marks[worst])} rows"
    said = f"full marks for none of: {', '.join(shares)}" if status == "passed" else said
    return Check("floor_gap", status, said, {"full_marks": shares})


def verifier_determinism(bench: Bench) -> Check:
    """The same completion gets the same verdict again, and in another order; so do the rewards."""
    experiment, twice = bench.experiment, dict[str, list[list[Any]]]()
    texts = bench.texts.get(RIGHT, []) + bench.texts[PROMPT]
    texts += [(group[0].completion, experiment.task.eval[row]) for row, group in list(bench.start.items())[:ROWS]]
    order = Random(0).sample(range(len(texts)), len(texts))
    shuffled = [texts[i] for i in order]
    if (grade := experiment.task.grade) is not None:
        twice["grades"] = [[grade(*one) for one in given] for given in (texts, shuffled)]
    if experiment.rewards and not experiment.cfg.reward.asks_model:  # its last digits follow its batch
        twice["rewards"] = [[round(value, 6) for value in bench.reward(given)] for given in (texts, shuffled)]
    others = set()  # places of texts
    for first, again in twice.values():
        others |= {i for i, one in zip(order, again, strict=True) if first[i] != one}
    changed, share = len(others), wilson(len(others), len(texts))
    said = f"{changed} of {len(texts)} texts, {percent(share)}, get other {' or '.join(twice)} the second time, in"
    said += " another order"
    said = said if twice else "there is no grader, and no reward that a model does not give"
    status = judge(changed) if twice else "skipped"
    return Check("verifier_determinism", status, said, {"changed": changed, "n": len(texts), "share": share})


def reward_reachability(bench: Bench) -> Check:
    """Some completions earn more than others: among those of the start model, right answers, and texts that know
    nothing."""
    name, weights = "reward_reachability", bench.experiment.cfg.reward.weights
    is_control = {reward for reward, weight in weights.items() if weight} == {"constant"}
    start, gold = [*chain(*bench.rewards.values())], bench.reward(bench.texts.get(RIGHT, []))
    every = [*start, *gold, *(value for texts in bench.attacks.values() for value in bench.reward(texts))]
    groups = [*bench.rewards.values()] or [[value] for value in every]
    usual = mode(chain(*groups))
    other = share_interval([fmean(value != usual for value in group) for group in groups], max(map(len, groups)))
    figures = dict[str, object](start=len({*start}), gold=len({*gold}), all=len({*every}))  # different values
    figures["other"], told = other, f"{percent(other)} earn other than the most frequent, {usual:g}"
    if len({*(start or every)}) > 1:
        return Check(name, "passed", f"rewards from {min(every):g} to {max(every):g}; {told}", figures)
    if len({*every}) > 1:
        said = f"all {len(start)} completions of the start model earn {start[0]:g} ({told}), other texts other rewards"
        return Check(name, "warned", said + _tell_ways(ways := _teach_first(bench)), figures, [*ways])
    said = f"all {len(every)} texts earn {every[0]:g}{', right answers too' * bool(gold)}{' (a control)' * is_control}"
    said += f"; {told}"
    if bench.experiment.cfg.reward.functions and not isinstance(bench.experiment.task.eval[0]["prompt"], str):
        said += f"; {MESSAGES}"
    return Check(name, "failed" if gold and not is_control else "warned", said, figures, _reward_outcome(bench))


def adversarial_floor(bench: Bench) -> Check:
    """No text without work on its row gets full marks on more than a small share of the rows."""
    shares = {what: share_interval(bench.mark(texts)) for what, texts in bench.attacks.items()}
    best = max(shares, key=lambda what: shares[what]["value"])
    said = f"of {len(shares)} texts without work the best, {best!r}, is right on {percent(shares[best])}"
    return _warn("adversarial_floor", _is_above(shares[best], SMALL), said, {"full_marks": shares})


def gameability_gap(bench: Bench) -> Check:
    """What the best text without work earns beyond the start model: chosen on every second row, measured on the others.
    A start model that is cut off earns less than a lucky guess: where right answers are known, the text is a goal for
    training only if it earns at least half of what they do, both beyond the start model."""
    earned = {what: bench.reward(texts) for what, texts in bench.attacks.items()}
    best = max(earned, key=lambda what: fmean(earned[what][::2]))
    start = {row: fmean(values) for row, values in bench.rewards.items() if row % 2 and row < len(earned[best])}
    if not start:
        return Check("gameability_gap", "skipped", "too few rows were measured")
    gap = mean_interval([earned[best][row] - value for row, value in start.items()])
    said = f"the best text without work, {best!r}, earns {number('+.3g')(gap)} beyond the start model's"
    said += f" {fmean(start.values()):.3g}"
    is_goal, right = _is_above(gap, 0), bench.reward(bench.texts.get(RIGHT, []))
    if right:
        said += f"; right answers earn {fmean(right):.3g}"
        is_goal &= gap["value"] >= ENOUGH * (fmean(right) - fmean(start.values()))
    elif is_goal:
        said += ": this is what the reward says, and training goes there"
        is_goal = not {name for name, weight in bench.experiment.cfg.reward.weights.items() if weight} <= {"brevity"}
    return _warn("gameability_gap", is_goal, said, {"gap": gap, "text": best}, _reward_outcome(bench))


def reward_follows_outcome(bench: Bench) -> Check:
    """Right answers explain at least half of the variance of the rewards of the start model's completions: the square
    of the correlation, with an interval by Fisher's z."""
    rewards, right = [*chain(*bench.rewards.values())], [*map(float, chain(*bench.right))]
    if len({*rewards}) < 2 or len({*right}) < 2 or len(right) < 4:
        return Check("reward_follows_outcome", "skipped", "rewards, or which answers are right, do not differ")
    r = correlation_interval(rewards, right)
    said = f"rewards and right answers have a correlation of {number('.2f')(r)} among {len(right)} completions"
    is_apart = (r["high"] or 0.0) < math.sqrt(0.5)
    return _warn("reward_follows_outcome", is_apart, said, {"correlation": r}, _reward_outcome(bench))


def headroom(bench: Bench) -> Check:
    """What the start model's accuracy leaves to gain."""
    left, n = share_interval([1 - fmean(row) for row in bench.right], max(map(len, bench.right))), len(bench.right)
    said = f"the start model is wrong on {percent(left)} of {n} rows"
    if not left["value"]:
        said = f"the start model is right on all of {n} rows; more eval.rows, or harder rows, would show what is left"
    return _warn("headroom", not left["value"] or (left["high"] or 0) < SMALL, said, {"headroom": left})


def variance(bench: Bench) -> Check:
    """The spread of the rewards within the completions of a prompt: the mean over prompts of the standard deviation."""
    spreads = [float(np.std(values, ddof=1)) for values in bench.rewards.values() if len(values) > 1]
    if not spreads:
        return Check("variance", "skipped", "one completion per row; eval.start_completions=8 would show it")
    spread = mean_interval(spreads)
    if spread["low"] is not None:  # Student's t interval of a mean that is never below 0
        spread = as_interval(spread["value"], max(0.0, spread["low"]), spread["high"])
    said = f"rewards of a prompt's completions have a standard deviation of {number('.3g')(spread)}"
    return _warn("variance", spread["value"] == 0, said, {"std": spread}, [*_teach_first(bench)])


def training_signal(bench: Bench) -> Check:
    """The share of groups that hold a right and a wrong completion: mean over rows of 1 - p^G - (1-p)^G with the pass
    rate p of the start model on a row. At G = 8 half of the groups carry none at p = 0.083."""
    cfg, right = bench.experiment.cfg, bench.right
    size = cfg.algo.args.get("num_generations", 1) if cfg.algo.row.online else 1
    if size < 2:
        return Check("training_signal", "skipped", f"algo={cfg.algo.name} compares no completions of a prompt")
    share, is_bound = expect_signal([sum(row) for row in right], [len(row) for row in right], size)
    never, always = not any(map(any, right)), all(map(all, right))
    said = f"{'at most ' * is_bound}{percent(share)} of groups of {size} will hold right and wrong completions"
    remedy = [f"algo.args.num_generations={2 * size}"]
    if never:
        remedy = [*(ways := _teach_first(bench))]
        said = f"the start model is right on none of {sum(map(len, right))} completions; {said}{_tell_ways(ways)}"
    if always:
        remedy, which = [], f"the start model is right on all {sum(map(len, right))} completions"
        said = f"{which}, so that {percent(share)} of groups of {size} will hold a wrong one too; use harder rows"
    is_low = never or always or (share["high"] or 0) < ENOUGH
    return _warn("training_signal", is_low, said, {"share": share, "G": size}, remedy)


CHECKS: dict[Callable[[Bench], Check], tuple[str, ...]] = {
    oracle_max: ("grader",),
    floor_gap: ("grader",),
    verifier_determinism: (),
    reward_reachability: ("rewards",),
    adversarial_floor: ("grader",),
    gameability_gap: ("rewards", "start"),
    reward_follows_outcome: ("rewards", "grader", "start"),
    headroom: ("grader", "start"),
    variance: ("rewards", "start"),
    training_signal: ("rewards", "grader", "start"),
}
"""Each check, and what it needs besides held-out prompts."""


def _warn(name: str, is_sick: bool, said: str, figures: Mapping[str, object], remedy: Sequence[str] = ()) -> Check:
    return Check(name, "warned" if is_sick else "passed", said, figures, list(remedy))


def _teach_first(bench: Bench) -> dict[str, str]:
    """What makes rewards differ where the start model never succeeds: overrides, each with what it does."""
    cfg = bench.experiment.cfg
    graded = REWARDS["graduated"].is_readable(cfg.task) and "graduated" not in cfg.reward.weights
    shown = getattr(cfg.task, "demonstrates", False) and bench.experiment.task.grade is not None
    ways = {"algo=sft": "demonstrations first, then model.path=RUN/model"} if shown else {}
    ways |= {"reward=graduated": "a graded reward"} if graded else {}
    return ways | dict.fromkeys(cfg.task.easier, "easier rows")


def _tell_ways(ways: dict[str, str]) -> str:
    named = [f"{override} ({what})" for override, what in ways.items()]
    return f"; what helps: {', '.join(named + ['easier rows'] * ('easier rows' not in ways.values()))}"


def _reward_outcome(bench: Bench) -> list[str]:
    cfg = bench.experiment.cfg
    return ["reward=outcome"] * (cfg.task.graded and "outcome" not in cfg.reward.weights)


def _is_above(share: Interval, limit: float) -> bool:
    return share["low"] is not None and share["low"] > limit
