"""The part of a report that shows completions before and after training, chosen by a fixed rule.

describe_samples(run)  ->  [Heading("Samples"), Table(...), Text(...), Pair(...), ...]
"""

from rlhf_exp.evaluation.metrics import OUTCOMES
from rlhf_exp.report.page import Block, Heading, Pair, Table, Text
from rlhf_exp.report.tables import Column, at, fill
from rlhf_exp.runs.load import Run

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
SHOWN_ALONE = 5
UNSORTED, UNSORTED_NOTE = {None: ("Before and after", 5)}, "Shown are the first five held-out rows."


def describe_samples(run: Run) -> list[Block]:
    """The first completion of each row, and a table of changes if the task grades them."""
    if not run.trains:
        return _show_alone(run.samples)
    pairs = run.paired_samples()
    blocks: list[Block] = [Heading("Samples before and after training")]
    if not pairs:
        return [*blocks, Text("No samples from before and after were recorded.")]
    note, rule, kinds = UNSORTED_NOTE, UNSORTED, [None] * len(pairs)
    if all("outcome" in sample for pair in pairs for sample in pair):
        note, rule = OUTCOME_NOTE, BY_OUTCOME
        kinds = [tuple(sample["outcome"] == "correct" for sample in pair) for pair in pairs]
        if changes := run.evaluation.get("paired", {}).get("changes"):  # folders of earlier versions have none
            blocks.append(_changes_table(changes))
    elif all(sample.get("reward") is not None for pair in pairs for sample in pair):
        note, rule = REWARD_NOTE, BY_REWARD
        kinds = [(after["reward"] > before["reward"]) - (after["reward"] < before["reward"]) for before, after in pairs]
    return [*blocks, Text(note), *_show(pairs, kinds, rule)]


def _show_alone(samples: list[dict]) -> list[Block]:
    """The first completion of the first rows of a model that was measured alone."""
    first = [row for row in samples if row["decoding"] == "sampled" and row["sample"] == 0][:SHOWN_ALONE]
    blocks = [Pair(row["id"], row["prompt"], (_caption("Completion", row),), (row["completion"],)) for row in first]
    return [Heading("Samples"), Text(f"Shown are the first {len(first)} held-out rows."), *blocks]


def _show(pairs: list[tuple[dict, dict]], kinds: list, rule: dict) -> list[Block]:
    return [
        Pair(
            title,
            before["prompt"],
            (_caption("Before", before), _caption("After", after)),
            (before["completion"], after["completion"]),
        )
        for kind, (title, shown) in rule.items()
        for before, after in [pair for pair, its in zip(pairs, kinds, strict=True) if its == kind][:shown]
    ]


def _changes_table(changes: dict[str, dict[str, int]]) -> Table:
    """How many rows went from each outcome to each."""
    counts = [Column(f"{after} after", lambda before, after=after: at(before, after)(changes)) for after in OUTCOMES]
    return fill([Column("", "{} before".format), *counts], OUTCOMES)


def _caption(when: str, sample: dict) -> str:
    parts = [sample["outcome"]] if "outcome" in sample else []
    parts += [f"reward {sample['reward']:.3g}"] if sample.get("reward") is not None else []
    parts.append(f"{sample['tokens']} tokens{', cut off' if sample['truncated'] else ''}")
    return f"{when}: {', '.join(parts)}"
