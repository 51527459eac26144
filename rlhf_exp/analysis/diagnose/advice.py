"""Chooses what a run is told to change: remedies that fit its findings together, and none that contradicts another.

    advise(run, [["algo.args.init_kl_coef=1", "algo.args.learning_rate=2e-4"], ["algo.args.learning_rate=1e-4"]])
    ->  a change to algo.args.learning_rate=2e-4, which answers both findings

First comes the remedy that most findings share, and of several that of the first finding; then, of each finding in turn
that it does not answer, the first remedy that agrees with those before. A setting that lies far from its default, on
the side that does the harm, goes before any other; and no remedy moves a setting further away from a default that it is
far from already.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple

import yaml

from rlhf_exp.analysis.diagnose.foreign import name_argument
from rlhf_exp.analysis.diagnose.signals import Signals
from rlhf_exp.config import ROOT
from rlhf_exp.config.checks import apply, join_remedies
from rlhf_exp.config.keys import name_key
from rlhf_exp.runs.settings import read_number

FURTHER = {
    "algo.args.learning_rate": 1, "algo.args.warmup_steps": -1, "algo.args.beta": -1, "algo.args.init_kl_coef": -1,
    "algo.args.epsilon": 1, "algo.args.num_iterations": 1,
}  # fmt: skip
"""Settings that let a policy go further from its start model (1) or less far (-1), the larger they are."""
LONGER = dict.fromkeys(("algo.args.max_steps", "algo.args.num_train_epochs", "train_tokens", "algo.args.target_kl"), 1)
"""Others, whose default says little of a run."""
PRICES = ("algo.args.beta", "algo.args.init_kl_coef")
"""Far too high a price of the KL holds a policy, and also makes its gradients jump."""
CRITIC = ("algo.args.critic_learning_rate", "algo.args.vf_coef", "algo.args.cliprange_value")
FAR, FAR_RATE = 10, 2
"""So many times its default, or one of so many parts of it; of the policy's rate."""


class Change(NamedTuple):
    """What an override does to its key: raises it (1), lowers it (-1) or neither. `why`: of one that sets a key back
    to its default, how far it is from that."""

    override: str
    key: str
    way: int
    why: str = ""

    @property
    def what(self) -> tuple[str, int]:
        return self.key, self.way

    @property
    def further(self) -> int:
        """Whether it lets the policy go further (1) or less far (-1) than it went."""
        return self.way * (FURTHER | LONGER).get(self.key, 0)


def advise(run: Signals, findings: Sequence[Sequence[str]]) -> tuple[list[Change], list[Change | None]]:
    """What the run is told, in the order in which to try it, and what of that answers each finding.

    Args:
        findings: the remedies of each, the best first.
    """
    options = [list_changes(run, remedies) for remedies in findings]
    shared = Counter(what for changes in options for what in {change.what for change in changes})
    every = sorted((change for changes in options for change in changes), key=lambda change: -shared[change.what])
    chosen = list(islice((change for change in every if _agrees(run, change, [])), 1))
    for changes in options:
        for change in changes:
            if (change.why or _find(changes, chosen) is None) and _agrees(run, change, chosen):
                chosen.append(change)
    return chosen, [_find(changes, chosen) for changes in options]


def list_changes(run: Signals, remedies: Sequence[str]) -> list[Change]:
    """What a finding's remedies change: before them what sets back a setting that lies far from its default on the side
    that they work against; without those that move such a setting further away."""
    is_ours = not run.config.get("foreign")
    changes = [_read(run, text) for text in remedies if is_ours or name_argument(text, run.config)]
    wanted = {change.further for change in changes if change.key in FURTHER or change.further > 0} - {0}
    critic, back = any(change.key in CRITIC for change in changes), list_far(run)
    first = [change for change in back if change.further in wanted or critic and change.key in CRITIC]
    first += [change for change in back if wanted and change.key in PRICES and change.way < 0 and change not in first]
    closed = {(change.key, way) for change in first for way in (-1, 0, 1)} | {(far.key, -far.way) for far in back}
    return [*first, *(one for one in changes if one.what not in closed and not _is_above_usual(run, one))]


def list_far(run: Signals) -> list[Change]:
    """What sets back each setting that lies far from its default."""
    found = []
    for key in (*CRITIC, *FURTHER):
        value, usual = run.setting(key), _find_default(run, key)
        if not usual or not isinstance(value, int | float) or value <= 0:
            continue  # a 0 is a choice
        times = max(value / usual, usual / value)
        if times >= (FAR_RATE if key == "algo.args.learning_rate" else FAR):
            of = "a tenth of the steps," if key == "algo.args.warmup_steps" else "its default"
            than = "" if value > usual else "smaller than "
            why = f"{key}={value:g} is {f'{times:,.0f}' if times >= 10 else f'{times:.2g}'} times {than}{of} {usual:g}"
            found.append(Change(f"{key}={usual:g}", key, -1 if value > usual else 1, why))
    return found


def _is_above_usual(run: Signals, change: Change) -> bool:
    """Whether it raises the policy's rate to over twice its default."""
    rises = change.key == "algo.args.learning_rate" and change.way > 0 and run.usual_rate is not None
    return rises and float(change.override.partition("=")[2]) > FAR_RATE * (run.usual_rate or 0.0)


def _find(changes: Sequence[Change], chosen: Sequence[Change]) -> Change | None:
    """Which of those chosen does what one of a finding's changes does."""
    found = {change.what for change in changes}
    return next((change for change in chosen if change.what in found), None)


def _agrees(run: Signals, change: Change, chosen: Sequence[Change]) -> bool:
    """Whether it changes anything, works against none of those chosen, and the program takes all together."""
    if any(change.further * other.further < 0 or change.key == other.key for other in chosen):
        return False
    told = [*(other.override for other in chosen), change.override]
    return apply(run.config, change.override) != run.config and join_remedies(run.config, told) == told


def _read(run: Signals, override: str) -> Change:
    key, _, text = override.partition("=")
    key = name_key(key)
    value, before = read_number(text), read_number(run.setting(key) or 0)
    if value is None or before is None:
        return Change(override, key, 0)
    untold = {"algo.args.max_steps": run.last_step, "algo.args.learning_rate": run.learning_rate}
    before = before if before > 0 else untold.get(key, before)
    return Change(override, key, (value > before) - (value < before))


def _find_default(run: Signals, key: str) -> float | None:
    """None if it is not known, or is no number."""
    if key == "algo.args.learning_rate":
        return run.usual_rate
    if key == "algo.args.critic_learning_rate":
        return run.setting(f"model.learning_rate.{run.setting('algo.args.critic')}_critic")
    if key == "algo.args.warmup_steps":  # a tenth of training, of which a warm-up that is as long is far above
        return max(1, run.whole_steps // 10) if run.arg("warmup_steps", 0) >= run.whole_steps > 0 else None
    default = _load_defaults(run.algorithm.online, run.algo).get(key)
    return default if isinstance(default, int | float) else None


@cache
def _load_defaults(online: bool, algo: str) -> dict[str, object]:
    """The values in conf/ of an algorithm's keys."""
    texts = [(ROOT / "conf" / file).read_text(encoding="utf-8") for file in (f"algo/{algo}.yaml", "online.yaml")]
    own, shared = map(yaml.safe_load, texts)
    args = (shared if online else {}) | own.pop("args", {})
    return {f"algo.{name}": value for name, value in own.items()} | {
        f"algo.args.{name}": value for name, value in args.items()
    }
