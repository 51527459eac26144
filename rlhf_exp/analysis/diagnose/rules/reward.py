"""The reward: flat and why, falling, or rising without what it stands for."""

import math
from statistics import correlation

from rlhf_exp.algorithms import DEMONSTRATIONS
from rlhf_exp.analysis.diagnose.courses import (
    START_ROWS,
    Course,
    angle,
    combine,
    last_quarter,
    log,
    mean,
    recent,
    worst,
)
from rlhf_exp.analysis.diagnose.rule import ONLINE, Suspicion, rule
from rlhf_exp.analysis.diagnose.rules.answers import CORRECT, less_right
from rlhf_exp.analysis.diagnose.signals import Signals, show
from rlhf_exp.tasks.task import find_task

NONE = 1e-6  # a spread of rewards
RARE = 0.1  # a correct share
RARELY, MOSTLY, NEARLY_ALL = 0.01, 0.5, 0.9  # of completions: shares that tell one cause from another
MANY_ROWS = 10  # three rows of the few groups of a small batch say little
Why = tuple[str, list[str]]


def find_hopeless(run: Signals) -> Why | None:
    """Cause and remedies where the start model has no right held-out answer and hardly any in training: a reward for
    right answers then prefers none of its completions to another, and more steps or larger groups teach nothing."""
    counts = run.side("baseline").counts or {}
    correct = run.series("outcome/correct")
    if not run.algorithm.by_rewards or counts.get("correct") != 0 or correct and mean(correct) > RARELY:
        return None
    task = run.setting("task", {})
    shown = task.get("name") and DEMONSTRATIONS in find_task(task["name"]).provides
    cause = f"the start model has none of {sum(counts.values())} held-out completions right"
    cut = run.measured("baseline/truncation_rate")
    if cut is not None and cut["value"] > MOSTLY:
        budget = run.setting("max_tokens", 0)
        return f"{cause}, and most are cut off: max_tokens={budget} is too small", [f"max_tokens={2 * budget}"]
    cause += ": there is nothing to"
    cause += " reinforce. First train it by algo=sft and go on from that model (model.path=RUN/model), or reward steps"
    cause += " towards an answer (a graded reward), or begin with easier rows"
    return cause, ["algo=sft"] if shown and task.get("completion_column", "") is not None else []


def _explain_silence(run: Signals) -> Why:
    """Why most groups have equal rewards."""
    correct = last_quarter(run.series("outcome/correct"))
    if correct and mean(correct) > NEARLY_ALL:
        silent = last_quarter(run.series("frac_reward_zero_std")) or correct
        cause = "training problems are nearly all solved: more steps cannot teach more"
        return cause, run.scale_length(silent[0][0] / run.last_step)
    if hopeless := find_hopeless(run):
        return hopeless
    if (spreads := run.series("reward_std")) and max(std for _, std in spreads) < NONE:
        return "no two rewards ever differed: what the reward looks for is in no completion", ["reward=outcome"]
    silent, cold = run.series("frac_reward_zero_std"), run.arg("temperature", 1.0) < MOSTLY
    if not silent or not cold and mean(silent[:START_ROWS]) < MOSTLY:
        return "the policy does one thing only, which always earns the same", [run.lower_rate(4), *run.hold_policy()]
    group = int(run.arg("num_generations", 8))
    sizes = (max(2 * group, 8), *range(group + 1, 8 * group))
    remedies = [run.set_arg("temperature", 1.0)] if cold else []
    remedies += [run.set_arg("num_generations", size) for size in sizes]
    remedies.append(run.set_arg("per_device_train_batch_size", 2 * run.arg("per_device_train_batch_size", 8)))
    hard = "" if correct and mean(correct) > 1 - NEARLY_ALL else "the problems are too hard, or "
    return f"{hard}the completions of a group are too similar for one to do better", remedies


@rule("warning", "frac_reward_zero_std|reward_std", of=ONLINE)
def no_reward_variance(run: Signals) -> Suspicion | None:
    """Minus the log of the recent share of groups whose rewards differ, over that which the correct share and the size
    of the groups let expect, less a rise of the correct share, with which more groups are all right, or where there is
    none of the reward; the others have advantage 0 and teach nothing. Of few groups the share counts as two standard
    errors less. Without groups it is whether the rewards of a step differ at all."""
    if run.is_control:
        return None
    of_groups = run.series("frac_reward_zero_std")
    silent = of_groups or [(step, float(std < NONE)) for step, std in run.series("reward_std")]
    quarter, correct = last_quarter(silent), last_quarter(run.series("outcome/correct"))
    which = "{:.0%} of the groups had equal rewards" if of_groups else "in {:.0%} of the steps all rewards were equal"
    evidence = which.format(mean(quarter))
    evidence += f", with {mean(correct):.0%} of the completions correct" if correct else ""
    chance = _expect_silence(run) if of_groups else {}
    groups = MANY_ROWS * run.completions / run.arg("num_generations", 8)
    course: Course = [
        (step, log(1.01 - chance.get(step, 0.0)) - log(1.01 - share + 2 * math.sqrt(share * (1 - share) / groups)))
        for step, share in recent(silent, least=MANY_ROWS)
    ]
    if not run.series(CORRECT):
        gained = run.rise("reward", lambda value: value / run.spread)
        course = combine(lambda score, rise: score - max(rise, 0.0), course, gained)
    return Suspicion(less_right(run, course), *_explain_silence(run), evidence)


def _expect_silence(run: Signals) -> dict[int | None, float]:
    """The share of groups whose completions are all right or all wrong by chance, at each step (arXiv:2606.18487): many
    if groups are small. A correct share below RARE is no chance, but the fault itself."""
    group = run.arg("num_generations", 8)
    shares = recent(run.series("outcome/correct"), least=MANY_ROWS)
    return {step: (1 - max(share, RARE)) ** group + share**group for step, share in shares}


@rule("warning", "reward", of=ONLINE)
def reward_fell(run: Signals) -> Suspicion:
    """The fall of the reward from the start, in halves of its standard deviation at the start, as far as it is sure."""
    course = run.sure("reward", lambda value: 2 * value / run.spread, sign=-1)
    cause = "steps are too large, or another term (KL, entropy, values) outweighs the reward"
    return Suspicion(course, cause, [run.lower_rate(4), *run.hold_policy()])


@rule("info", of=ONLINE)
def control_arm(run: Signals) -> Suspicion | None:
    """The reward is constant or random: nothing can be learned, so that a flat reward is no fault."""
    if not run.is_control or not run.metrics:
        return None
    evidence = f"the reward is {' and '.join(run.weights)}"
    if change := run.measured("paired/difference"):
        low, high = 100 * change["low"], 100 * change["high"]
        evidence += f"; held-out accuracy changed by {100 * change['value']:+.1f} points ({low:+.1f} to {high:+.1f})"
    cause = "a control arm: accuracy that moves here is no effect of a reward (arXiv:2506.10947)"
    return Suspicion([(run.metrics[0]["step"], 0.0), (run.last_step, 0.0)], cause, [], evidence)


@rule("warning", "reward", "evaluation/paired/win_rate", of=ONLINE)
def reward_without_gain(run: Signals) -> Suspicion:
    """Log of one and the larger of two scores: the rise of the training reward less that of the held-out reward, both
    in standard deviations; and twice the rise, but at most half the standard errors by which held-out rows were lost or
    accuracy fell."""
    rise, rewards = run.rise("reward")[-1][1] / run.spread, run.side("baseline").reward
    held_out, gain = rise, run.measured("paired/reward/mean")
    if gain is not None and rewards is not None and rewards.std:
        held_out = gain["value"] / rewards.std
    falls = [run.errors_above("paired/win_rate", 0.5)]
    if run.measured("paired/difference"):
        falls.append(run.errors_above("paired/difference"))
    evidence = f"{run.tell('reward')}; held-out rows are won in {run.read('paired/win_rate')['value']:.0%}"
    cause = "the policy learned what the reward pays on the training rows, not what it stands for"
    wrong = show(row for row in run.trained_samples if row.outcome not in ("correct", None))
    score = max(min(rise, rise - held_out), min(2 * rise, -min(falls) / 2))
    return Suspicion([(None, math.log1p(max(score, 0.0)))], cause, run.hold_policy(), evidence, wrong)


@rule("warning", "outcome/correct", of=ONLINE)
def one_component_carries_the_reward(run: Signals) -> Suspicion | None:
    """The rise of one weighed component in standard deviations of the reward, less that of the correct share; of the
    component for which it is largest."""
    correct = run.rise("outcome/correct", angle)
    courses = {
        name: combine(
            lambda rise, right, weight=weight: min(weight * rise, weight * rise - right) / run.spread,
            run.rise(f"rewards/{name}/mean"),
            [(step, run.spread * score) for step, score in correct],
        )
        for name, weight in run.weights.items()
        if name != "outcome" and run.has(f"rewards/{name}/mean")
    }
    if not courses:
        return None
    name = max(courses, key=lambda name: max((score for _, score in courses[name]), default=0.0))
    evidence = f"{run.tell(f'rewards/{name}/mean')}; {run.tell('outcome/correct')}"
    cause = f"the reward {name} is easier to earn than a right answer"
    return Suspicion(worst(*courses.values()), cause, [f"reward.weights.{name}={run.weights[name] / 4:g}"], evidence)


@rule("warning", of=ONLINE)
def reward_apart_from_outcome(run: Signals) -> Suspicion | None:
    """The angle whose cosine is the correlation of reward and right answers among the start model's held-out
    completions: 0 if the reward is the outcome, 1.6 if it knows nothing of it. Not of a learned reward, which is judged
    by what becomes of it."""
    samples = [sample for sample in run.samples if sample.which == "baseline"]
    scored = [(sample.reward, float(sample.is_correct)) for sample in samples if sample.reward is not None]
    rewards, right = [reward for reward, _ in scored], [is_right for _, is_right in scored]
    if "model" in run.weights or run.is_control or len(set(rewards)) < 2 or len(set(right)) < 2:
        return None
    share = min(max(correlation(rewards, right), -1.0), 1.0)
    evidence = f"among {len(scored)} completions of the start model, reward and right answers have a correlation of"
    cause = "the reward pays for something else than right answers, or its rows are mixed up"
    return Suspicion([(None, math.acos(share))], cause, ["reward=outcome"], f"{evidence} {share:.2f}")


@rule("warning", "reward", "outcome/correct", of=ONLINE)
def over_optimisation(run: Signals) -> Suspicion:
    """Log of one more than the standard errors by which the correct share is below its own peak (Gao et al. 2022,
    arXiv:2210.10760), and validation accuracy, where it is measured, below its start, weighed alike (Stouffer); less
    what the reward has fallen since the peak, in standard deviations."""
    proxy, fall = dict(recent(run.series("reward"))), dict(run.fall_in_errors())
    course: list[tuple[int | None, float]] = []
    peak, at_peak, validation, errors = -1.0, 0.0, 0.0, run.errors_per_angle
    for step, share in recent(run.series("outcome/correct")):
        validation = fall.get(step, validation)
        if angle(share) > peak:
            peak, at_peak = angle(share), proxy.get(step, 0.0)
        lost = errors[step] * min(proxy.get(step, at_peak) - at_peak, 0.0) / run.spread
        score = (errors[step] * (peak - angle(share)) + validation) / math.sqrt(2) + lost
        course.append((step, math.log1p(max(score, 0.0))))
    cause = "the reward does not see that answers become wrong: the policy left what it measures"
    if run.rise("reward")[-1][1] < 0:
        cause = "the policy loses right answers, and its reward with them: steps that are too large"
    return Suspicion(course, cause, [*run.hold_policy(), *run.scale_length(0.5)])
