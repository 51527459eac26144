"""The part of a report that shows completions before and after training, chosen by a fixed rule.

describe_samples(run)  ->  [Heading("Samples"), Table(...), Text(...), Pair(...), ...]
"""

from collections.abc import Callable

from rlhf_exp.report.page import Block, Heading, Pair, Table, Text
from rlhf_exp.report.summary import OUTCOMES
from rlhf_exp.report.tables import Column, at, fill
from rlhf_exp.runs.load import Run

SamplePair = tuple[dict, dict]
"""The same row's completion before and after."""

# Kind of change, and how many are shown. By outcome: whether the completions before and after are correct.
BY_OUTCOME = {
    (False, True): ("Became correct", 3),
    (True, False): ("No longer correct", 2),
    (True, True): ("Correct before and after", 1),
    (False, False): ("Not correct before or after", 1),
}
OUTCOME_NOTE = (
    "Shown are the first of each kind in the order of the held-out rows: three that became correct, two that "
    "no longer are, one that is correct before and after, one that is neither."
)
# By the sign of the change in reward.
BY_REWARD = {1: ("Reward rose", 3), -1: ("Reward fell", 2), 0: ("Equal reward", 1)}
REWARD_NOTE = (
    "Shown are the first of each kind in the order of the held-out rows: three whose reward rose, two whose reward "
    "fell, one whose reward is the same."
)
UNSORTED, UNSORTED_NOTE = ("Before and after", 5), "Shown are the first five held-out rows."


def describe_samples(run: Run) -> list[Block]:
    """The first completion of each row, and a table of changes if the task grades them."""
    pairs = run.paired_samples()
    blocks: list[Block] = [Heading("Samples before and after training")]
    if not pairs:
        return [*blocks, Text("No samples from before and after were recorded.")]
    if all("outcome" in sample for pair in pairs for sample in pair):
        if changes := run.evaluation.get("paired", {}).get("changes"):  # folders of earlier versions have none
            blocks.append(_changes_table(changes))
        blocks.append(Text(OUTCOME_NOTE))
        return blocks + _show(pairs, lambda pair: tuple(s["outcome"] == "correct" for s in pair), BY_OUTCOME)
    if all(sample.get("reward") is not None for pair in pairs for sample in pair):
        return [*blocks, Text(REWARD_NOTE), *_show(pairs, _reward_change, BY_REWARD)]
    return [*blocks, Text(UNSORTED_NOTE), *_show(pairs, lambda pair: None, {None: UNSORTED})]


def _show(pairs: list[SamplePair], kind_of: Callable[[SamplePair], object], rule: dict) -> list[Block]:
    return [
        Pair(
            title,
            pair[0]["prompt"],
            (_caption("Before", pair[0]), _caption("After", pair[1])),
            (pair[0]["completion"], pair[1]["completion"]),
        )
        for kind, (title, shown) in rule.items()
        for pair in [pair for pair in pairs if kind_of(pair) == kind][:shown]
    ]


def _reward_change(pair: SamplePair) -> int:
    before, after = (sample["reward"] for sample in pair)
    return (after > before) - (after < before)


def _changes_table(changes: dict[str, dict[str, int]]) -> Table:
    """How many rows went from each outcome to each."""
    counts = [Column(f"{after} after", lambda before, after=after: at(before, after)(changes)) for after in OUTCOMES]
    return fill([Column("", "{} before".format), *counts], OUTCOMES)


def _caption(when: str, sample: dict) -> str:
    parts = [sample["outcome"]] if "outcome" in sample else []
    parts += [f"reward {sample['reward']:.3g}"] if sample.get("reward") is not None else []
    parts.append(f"{sample['tokens']} tokens{', cut off' if sample['truncated'] else ''}")
    return f"{when}: {', '.join(parts)}"
