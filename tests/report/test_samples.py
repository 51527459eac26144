import json
import re

from rlhf_exp.report.page import Pair, Table, Text
from rlhf_exp.report.samples import OUTCOME_NOTE, REWARD_NOTE, UNSORTED_NOTE, describe_samples
from rlhf_exp.runs.load import load_run


def edit_samples(run_dir, edit):
    rows = [json.loads(line) for line in (run_dir / "samples.jsonl").read_text().splitlines()]
    for row in rows:
        edit(row)
    (run_dir / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def shown(run_dir):
    """The note, and the title and row of each pair."""
    blocks = describe_samples(load_run(run_dir))
    pairs = [block for block in blocks if isinstance(block, Pair)]
    note = next(block.text for block in blocks if isinstance(block, Text))
    return note, [(pair.title, int(re.search(r"8 7 (\d+)", pair.prompt)[1])) for pair in pairs]


def test_samples_are_the_first_of_each_kind_in_the_order_of_the_rows(run_dir):
    order = {"baseline": "pppcccpcp", "trained": "ccccpppcp"}
    names = {"c": "correct", "p": "partial"}

    def edit(row):
        place = int(row["id"].removeprefix("row-"))
        row["outcome"] = names[order[row["which"]][place]] if place < 9 else "failed"

    edit_samples(run_dir, edit)
    assert shown(run_dir) == (OUTCOME_NOTE, [
        ("Became correct", 0), ("Became correct", 1), ("Became correct", 2),
        ("No longer correct", 4), ("No longer correct", 5),
        ("Correct before and after", 3), ("Not correct before or after", 6),
    ])  # fmt: skip


def test_without_outcomes_the_reward_sorts_them(run_dir):
    rewards = {"baseline": [1, 1, 1, 2, 2, 2, 3], "trained": [1, 2, 2, 1, 1, 1, 4]}

    def edit(row):
        place = int(row["id"].removeprefix("row-"))
        row["reward"] = rewards[row["which"]][place] if place < 7 else 0
        del row["outcome"]

    edit_samples(run_dir, edit)
    assert shown(run_dir) == (REWARD_NOTE, [
        ("Reward rose", 1), ("Reward rose", 2), ("Reward rose", 6),
        ("Reward fell", 3), ("Reward fell", 4), ("Equal reward", 0),
    ])  # fmt: skip


def test_without_outcomes_and_rewards_the_first_are_shown(dpo_dir):
    assert shown(dpo_dir) == (UNSORTED_NOTE, [("Before and after", row) for row in range(5)])
    caption = next(b for b in describe_samples(load_run(dpo_dir)) if isinstance(b, Pair)).captions[0]
    assert re.fullmatch(r"Before: \d+ tokens(, cut off)?", caption)


def test_a_folder_without_counts_of_changes_shows_no_empty_table(run_dir):
    evaluation = json.loads((run_dir / "evaluation.json").read_text())
    assert any(isinstance(block, Table) for block in describe_samples(load_run(run_dir)))
    del evaluation["paired"]["changes"]
    (run_dir / "evaluation.json").write_text(json.dumps(evaluation))
    assert not any(isinstance(block, Table) for block in describe_samples(load_run(run_dir)))
    assert shown(run_dir)[0] == OUTCOME_NOTE


def test_of_several_completions_the_first_is_counted_and_shown(tmp_path, make_run):
    [table] = [b for b in describe_samples(load_run(make_run(tmp_path / "run", completions=3))) if isinstance(b, Table)]
    assert sum(int(cell) for row in table.rows for cell in row[1:]) == 128
