"""Checks of the task's grader and the rewards, on right answers, broken ones, and the start model's completions.

    checks = check_grader(experiment, completions)

The task's grader and the weighted sum of the rewards are checked apart. Only what is certainly wrong fails, and only
where training or its samples depend on it; the rest is a warning.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Any, Literal

import numpy as np

from rlhf_exp.evaluation.completions import Completion
from rlhf_exp.experiment import Experiment
from rlhf_exp.preflight.answers import Answers, corrupt, find_answers, list_attacks
from rlhf_exp.preflight.check import Check
from rlhf_exp.preflight.signal import expect_signal
from rlhf_exp.rewards import score_completions
from rlhf_exp.rewards.table import REWARDS
from rlhf_exp.stats import Interval, mean_interval, share_interval, wilson
from rlhf_exp.tasks import Row

ROWS, FEWEST = 32, 8
TEXTS, LIMIT_S = 20, 5.0
"""About so many texts are graded for each row, of so few rows that it takes no longer than this."""
SMALL = 0.1
"""A share of rows that chance, or a few broken rows, may explain."""
ENOUGH = 0.5
"""Warned if fewer groups carry a signal."""


@dataclass
class Bench:
    """What the checks work on: some held-out rows with their right answers, and the start model's completions.

    Attributes:
        start: completions of all held-out rows, with grades and rewards; empty in an audit.
    """

    experiment: Experiment
    rows: list[Row]
    found: Answers
    start: list[Completion]
    attacks: dict[str, list[str]]

    def grade(self, texts: Sequence[str], rows: Sequence[Row] | None = None) -> list[Any]:
        grade: Any = self.experiment.task.grade
        return [grade(text, row) for text, row in zip(texts, self.rows if rows is None else rows, strict=True)]

    def mark(self, texts: Sequence[str | None]) -> list[bool]:
        """Whether each text gets full marks on its row; rows without a text are left out."""
        given = [(text, row) for text, row in zip(texts, self.rows, strict=True) if text is not None]
        return [one.outcome == "correct" for one in self.grade([t for t, _ in given], [r for _, r in given])]

    def reward(self, texts: Sequence[str], rows: Sequence[Row] | None = None) -> list[float]:
        """The weighted sum of the rewards of each text."""
        if not texts:
            return []
        weights, tokenizer = self.experiment.cfg.reward.weights, self.experiment.tokenizer
        ids = [[*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in texts]
        scores = score_completions(self.experiment.rewards, list(self.rows if rows is None else rows), list(texts), ids)
        return [sum((weights[name] or 0.0) * value for name, value in one.items()) for one in scores]

    @property
    def golds(self) -> tuple[list[str], list[Row]]:
        """Right answers with their rows."""
        known = [(text, row) for text, row in zip(self.found.golds, self.rows, strict=True) if text is not None]
        return [text for text, _ in known], [row for _, row in known]

    def group(self, value: Callable[[Completion], Any]) -> list[list[Any]]:
        """A value of the start model's completions, those of a row together."""
        groups: dict[int, list[Any]] = {}
        for one in self.start:
            groups.setdefault(one.row, []).append(value(one))
        return list(groups.values())


def check_grader(experiment: Experiment, completions: Sequence[Completion], strict: bool = False) -> list[Check]:
    """Every check of this module, in the order of CHECKS.

    Args:
        completions: of the start model, judged; none in an audit.
        strict: whether a broken grader fails although nothing is trained on it.
    """
    cfg, task = experiment.cfg, experiment.task
    bench = _set_up(experiment, [one for one in completions if one.decoding == "sampled"])
    trains_on_it = strict or cfg.algo.row.online or cfg.learns_from_samples
    checks = []
    for name, (check, needs) in CHECKS.items():
        lacks = {
            "grader": task.grade is None and "the task has no grader",
            "rewards": not (experiment.rewards and (strict or cfg.algo.row.online)) and "no reward is trained on",
            "start": not bench.start and "the start model was not measured",
        }
        missing = next((lacks[need] for need in needs if lacks[need]), not bench.rows and "no prompts are held out")
        found = Check(name, "skipped", missing) if missing else check(bench)
        checks.append(found if trains_on_it or found.status != "failed" else found._replace(status="warned"))
    return checks


def _set_up(experiment: Experiment, start: list[Completion]) -> Bench:
    task = experiment.task
    rows, grade = task.eval[:ROWS], task.grade
    found = Answers([None] * len(rows), [None] * len(rows), None, False)
    if grade is not None and rows:
        began = time.perf_counter()
        grade("1", rows[0])
        seconds = time.perf_counter() - began
        rows = rows[: max(FEWEST, int(LIMIT_S / TEXTS / max(seconds, 1e-9)))]
        found = find_answers(
            experiment.cfg, experiment.tokenizer, rows,
            lambda text, row: grade(text, row).outcome == "correct", lambda text, row: grade(text, row).extracted,
        )  # fmt: skip
    if experiment.cfg.reward.path is not None:  # each text is a forward pass
        rows = rows[:FEWEST]
        found = found._replace(golds=found.golds[:FEWEST], answers=found.answers[:FEWEST])
    return Bench(experiment, rows, found, start, list_attacks(rows, found))


def oracle_max(bench: Bench) -> Check:
    """Right answers get full marks. Of those that this module writes itself only a warning is given."""
    name, right = "oracle_max", bench.mark(bench.found.golds)
    if not right:
        known = any(bench.found.answers)
        why = "no form in which the answers were written gets full marks" if known else "no right answers are known"
        return Check(name, "warned" if known else "skipped", f"{why}; demonstrations would show how they are read")
    share = wilson(sum(right), len(right))
    wrong = next((text for text, ok in zip(bench.golds[0], right, strict=True) if not ok), "")
    evidence = f"{sum(right)} of {len(right)} right answers get full marks"
    if wrong:
        evidence += f", not {wrong[-60:]!r}"
    sick = share["high"] is not None and share["high"] < 1 - SMALL
    status: Any = "passed" if all(right) else "failed" if sick and bench.found.demonstrated else "warned"
    return Check(name, status, evidence, {"full_marks": share})


def floor_gap(bench: Bench) -> Check:
    """No marks for an empty answer, the prompt alone, or a corrupted right answer. For another row's answer a warning:
    several answers may be right."""
    form, answers = bench.found.form, bench.found.answers
    broken: dict[str, Sequence[str | None]] = {what: bench.attacks[what] for what in ("nothing", "the prompt")}
    if form is not None:
        others = [b if b != a else None for a, b in zip(answers, [*answers[1:], *answers[:1]], strict=True)]
        broken["a corrupted answer"] = [answer and form.format(corrupt(answer)) for answer in answers]
        broken["another row's answer"] = [answer and form.format(answer) for answer in others]
    marks = {what: bench.mark(texts) for what, texts in broken.items()}
    shares = {what: wilson(sum(right), len(right)) for what, right in marks.items() if right}
    sure = {what: share for what, share in shares.items() if what != "another row's answer"}
    failed = any(_is_above(share, SMALL) for share in sure.values())
    status: Any = "failed" if failed else "warned" if any(map(any, marks.values())) else "passed"
    worst = max(sure if failed else shares, key=lambda what: shares[what]["value"])
    evidence = f"full marks for none of: {', '.join(shares)}"
    if status != "passed":
        evidence = f"full marks for {worst} on {sum(marks[worst])} of {len(marks[worst])} rows"
    return Check("floor_gap", status, evidence, {"full_marks": shares})


def verifier_determinism(bench: Bench) -> Check:
    """The same completion gets the same verdict again, and in another order; so do the rewards."""
    texts, rows = bench.golds
    texts, rows = [*texts, *bench.attacks["the prompt"]], [*rows, *bench.rows]
    for one in bench.start[:ROWS]:
        texts.append(one.text)
        rows.append(bench.experiment.task.eval[one.row])
    order = Random(0).sample(range(len(texts)), len(texts))
    values: dict[str, Callable[[list[str], list[Row]], list[Any]]] = {}
    if bench.experiment.task.grade is not None:
        values["grades"] = bench.grade
    if bench.experiment.rewards and bench.experiment.cfg.reward.path is None:  # a model's last digits follow its batch
        values["rewards"] = lambda texts, rows: [round(value, 6) for value in bench.reward(texts, rows)]
    if not values:
        return Check("verifier_determinism", "skipped", "there is no grader, and no reward that a model does not give")
    changed = 0
    for value in values.values():
        first, again = value(texts, rows), value([texts[i] for i in order], [rows[i] for i in order])
        changed += sum(first[i] != one for i, one in zip(order, again, strict=True))
    n, status = len(values) * len(texts), _choose(changed > 0, "failed")
    evidence = f"{changed} of {n} {' and '.join(values)} differ the second time, in another order"
    return Check("verifier_determinism", status, evidence, {"changed": changed, "n": n})


def reward_reachability(bench: Bench) -> Check:
    """Some completions earn more than others: among those of the start model, right answers, and texts that know
    nothing."""
    name, start, gold = "reward_reachability", [one.reward or 0.0 for one in bench.start], bench.reward(*bench.golds)
    others = [value for texts in bench.attacks.values() for value in bench.reward(texts)]
    figures = {"start": len({*start}), "gold": len({*gold}), "others": len({*others})}  # different values
    own, every = start or [*gold, *others], [*start, *gold, *others]
    if len({*own}) > 1:
        return Check(name, "passed", f"rewards from {min(every):g} to {max(every):g}", figures)
    if len({*every}) > 1:
        evidence = f"all {len(start)} completions of the start model earn {start[0]:g}, other texts other rewards"
        return Check(name, "warned", evidence, figures, _teach_first(bench))
    is_control = set(bench.experiment.cfg.reward.weights) == {"constant"}
    evidence = f"all {len(every)} texts earn {every[0]:g}{', right answers too' * bool(gold)}"
    status: Any = "failed" if gold and not is_control else "warned"
    return Check(name, status, f"{evidence}{' (a control)' * is_control}", figures, _reward_outcome(bench))


def adversarial_floor(bench: Bench) -> Check:
    """No text without work on its row gets full marks on more than a small share of the rows."""
    shares = {what: share_interval(bench.mark(texts)) for what, texts in bench.attacks.items()}
    best = max(shares, key=lambda what: shares[what]["value"])
    status = _choose(_is_above(shares[best], SMALL))
    evidence = f"of {len(shares)} texts without work the best, {best!r}, is right on {_percent(shares[best])}"
    return Check("adversarial_floor", status, evidence, {"full_marks": shares})


def gameability_gap(bench: Bench) -> Check:
    """What the best text without work earns beyond the start model: chosen on every second row, measured on the
    others."""
    start: dict[int, list[float]] = {row: [] for row in range(len(bench.rows))}
    for one in bench.start:
        if one.row in start:
            start[one.row].append(one.reward or 0.0)
    earned = {what: bench.reward(texts) for what, texts in bench.attacks.items()}
    best = max(earned, key=lambda what: fmean(earned[what][::2]))
    measured = [row for row in range(1, len(bench.rows), 2) if start[row]]
    if not measured:
        return Check("gameability_gap", "skipped", "too few rows were measured")
    gap = mean_interval([earned[best][row] - fmean(start[row]) for row in measured])
    earns = fmean(earned[best][row] for row in measured)
    evidence = f"the best text without work, {best!r}, earns {earns:.3g}, the start model {earns - gap['value']:.3g}"
    evidence += f" (difference {_figures(gap)})"
    figures, status = {"gap": gap, "text": best}, _choose(_is_above(gap, 0))
    return Check("gameability_gap", status, evidence, figures, _reward_outcome(bench))


def headroom(bench: Bench) -> Check:
    """What the start model's accuracy leaves to gain."""
    wrong = bench.group(lambda one: not one.is_correct)
    left = share_interval([fmean(row) for row in wrong], max(map(len, wrong)))
    evidence = f"the start model is wrong on {_percent(left)}"
    return Check("headroom", _choose(left["high"] < SMALL), evidence, {"headroom": left})  # type: ignore[operator]


def variance(bench: Bench) -> Check:
    """The spread of the rewards within the completions of a prompt."""
    groups = [row for row in bench.group(lambda one: one.reward) if len(row) > 1]
    if not groups:
        return Check("variance", "skipped", "one completion per row; eval.start_completions=8 would show it")
    spread = mean_interval([float(np.std(row, ddof=1)) for row in groups])
    evidence = f"rewards of a prompt's completions have a standard deviation of {_figures(spread)}"
    return Check("variance", _choose(spread["value"] == 0), evidence, {"std": spread}, _teach_first(bench))


def training_signal(bench: Bench) -> Check:
    """The share of groups that hold a right and a wrong completion: mean over rows of 1 - p^G - (1-p)^G with the pass
    rate p of the start model on a row. At G = 8 half of the groups carry none at p = 0.083."""
    cfg = bench.experiment.cfg
    size = cfg.algo.args.get("num_generations", 1) if cfg.algo.row.online else 1
    if size < 2:
        return Check("training_signal", "skipped", f"algo={cfg.algo.name} compares no completions of a prompt")
    right = bench.group(lambda one: one.is_correct)
    share, is_bound = expect_signal([sum(row) for row in right], [len(row) for row in right], size)
    never = not any(map(any, right))
    few = share["high"] is not None and share["high"] < ENOUGH
    evidence = f"{'at most ' * is_bound}{_percent(share)} of groups of {size} will hold right and wrong completions"
    if never:
        evidence = f"the start model is right on none of {sum(map(len, right))} completions; {evidence}"
    remedy = _teach_first(bench) if never else [f"algo.args.num_generations={2 * size}"]
    return Check("training_signal", _choose(few or never), evidence, {"share": share, "G": size}, remedy)


CHECKS: dict[str, tuple[Callable[[Bench], Check], tuple[str, ...]]] = {
    "oracle_max": (oracle_max, ("grader",)),
    "floor_gap": (floor_gap, ("grader",)),
    "verifier_determinism": (verifier_determinism, ()),
    "reward_reachability": (reward_reachability, ("rewards",)),
    "adversarial_floor": (adversarial_floor, ("grader",)),
    "gameability_gap": (gameability_gap, ("rewards", "start")),
    "headroom": (headroom, ("grader", "start")),
    "variance": (variance, ("rewards", "start")),
    "training_signal": (training_signal, ("rewards", "grader", "start")),
}
"""Each check, and what it needs besides held-out prompts."""


def _teach_first(bench: Bench) -> list[str]:
    """What makes rewards differ where the start model never succeeds."""
    cfg = bench.experiment.cfg
    graded = REWARDS["graduated"].is_readable(cfg.task) and "graduated" not in cfg.reward.weights
    shown = getattr(cfg.task, "demonstrates", False) and bench.experiment.task.grade is not None
    return ["algo=sft"] * shown + ["reward=graduated"] * graded


def _reward_outcome(bench: Bench) -> list[str]:
    cfg = bench.experiment.cfg
    return ["reward=outcome"] * (cfg.task.graded and "outcome" not in cfg.reward.weights)


def _is_above(share: Interval, limit: float) -> bool:
    return share["low"] is not None and share["low"] > limit


def _choose(is_sick: bool, sick: Literal["failed", "warned"] = "warned") -> Literal["passed", "failed", "warned"]:
    return sick if is_sick else "passed"


def _percent(share: Interval) -> str:
    """12% (5 to 25%), the 95% interval in brackets."""
    return f"{share['value']:.0%} ({100 * (share['low'] or 0):.0f} to {share['high'] or 0:.0%})"


def _figures(of: Interval) -> str:
    return f"{of['value']:.3g}" + ("" if of["low"] is None else f", {of['low']:.3g} to {of['high']:.3g}")
