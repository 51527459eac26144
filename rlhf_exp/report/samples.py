"""The part of a report that shows completions before and after training, chosen by a fixed rule.

describe_samples(run)  ->  [Heading("Samples"), Table(...), Text(...), Pair(...), ...]
"""

from rlhf_exp.evaluation.metrics import OUTCOMES
from rlhf_exp.report.columns import Column, at, fill
from rlhf_exp.report.page import NOTES, Block, Heading, Pair, Text
from rlhf_exp.runs.load import Run

# Kind of change, and how many are shown. By outcome: whether the completions before and after are correct.
BY_OUTCOME = {
    (False, True): ("Became correct", 3),
    (True, False): ("No longer correct", 2),
    (True, True): ("Correct before and after", 1),
    (False, False): ("Not correct before or after", 1),
}
BY_REWARD = {1: ("Reward rose", 3), -1: ("Reward fell", 2), 0: ("Equal reward", 1)}  # by the sign of the change
IN_ORDER = {None: ("Before and after", 5)}
SHOWN_ALONE = 5


def describe_samples(run: Run) -> list[Block]:
    """The first completion of each row, and a table of changes if the task grades them."""
    if not run.trains:
        first = [row for row in run.samples if row["decoding"] == "sampled" and row["sample"] == 0][:SHOWN_ALONE]
        shown = [Pair(row["id"], row["prompt"], (_caption("Completion", row),), (row["completion"],)) for row in first]
        return [Heading("Samples"), Text(f"Shown are the first {len(first)} held-out rows."), *shown]
    pairs = run.paired_samples()
    blocks: list[Block] = [Heading("Samples before and after training")]
    if not pairs:
        return [*blocks, Text("No samples from before and after were recorded.")]
    note, rule, kinds = "shown in order", IN_ORDER, [None] * len(pairs)
    if all("outcome" in sample for pair in pairs for sample in pair):
        note, rule = "shown by outcome", BY_OUTCOME
        kinds = [tuple(sample["outcome"] == "correct" for sample in pair) for pair in pairs]
        if changes := run.evaluation.get("paired", {}).get("changes"):  # folders of earlier versions have none
            after = [Column(f"{name} after", lambda before, name=name: at(before, name)(changes)) for name in OUTCOMES]
            blocks.append(fill([Column("", "{} before".format), *after], OUTCOMES))
    elif all(sample.get("reward") is not None for pair in pairs for sample in pair):
        note, rule = "shown by reward", BY_REWARD
        kinds = [(after["reward"] > before["reward"]) - (after["reward"] < before["reward"]) for before, after in pairs]
    blocks.append(Text(NOTES[note]))
    for kind, (title, most) in rule.items():
        for before, after in [pair for pair, its in zip(pairs, kinds, strict=True) if its == kind][:most]:
            captions = _caption("Before", before), _caption("After", after)
            blocks.append(Pair(title, before["prompt"], captions, (before["completion"], after["completion"])))
    return blocks


def _caption(when: str, sample: dict) -> str:
    parts = [sample["outcome"]] if "outcome" in sample else []
    parts += [f"reward {sample['reward']:.3g}"] if sample.get("reward") is not None else []
    parts.append(f"{sample['tokens']} tokens{', cut off' if sample['truncated'] else ''}")
    return f"{when}: {', '.join(parts)}"
