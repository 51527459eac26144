import json

import pytest

from rlhf_exp.evaluation.preferences import summarise_preferences
from rlhf_exp.report import write_report
from rlhf_exp.report.page import Callout, Figures, Pair, Table
from rlhf_exp.report.plots import measure_errors
from rlhf_exp.report.preferences import describe_preferences
from rlhf_exp.runs.load import load_run


def blocks_of(run_dir, kind):
    return [block for block in describe_preferences(load_run(run_dir), run_dir) if isinstance(block, kind)]


def edit_json(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def test_accuracy_by_length_and_subset_stands_with_n_and_intervals_on_both_sides(reward_dir):
    by_length, by_subset, _ = blocks_of(reward_dir, Table)
    assert by_length.head == ["chosen is, in tokens", "n", "baseline", "trained"]
    assert by_subset.head == ["subset", "n", "baseline", "trained"]
    assert [row[:2] for row in by_subset.rows] == [["harmless-base", "100"], ["helpful-base", "100"]]
    assert all("[" in cell for row in [*by_length.rows, *by_subset.rows] for cell in row[2:])


def test_a_policy_has_its_own_figures_and_no_baseline(dpo_dir):
    figures, by_length, by_subset, _ = blocks_of(dpo_dir, Table)
    assert [row[0] for row in figures.rows] == [
        "accuracy", "correct / tied / wrong", "loss", "margin", "calibration error",
    ]  # fmt: skip
    assert by_subset.head == ["subset", "n", "trained"]


@pytest.mark.parametrize(
    ("accuracy", "longer", "kind", "title", "rule"),
    [
        ((0.70, 0.80), (0.50, 0.60), "ok", "Better than length alone.", "longer"),
        ((0.55, 0.65), (0.60, 0.70), "warning", "Not clearly better than length alone.", "longer"),
        ((0.40, 0.50), (0.60, 0.70), "warning", "Worse than length alone.", "longer"),
        ((0.55, 0.65), (0.30, 0.40), "warning", "Not clearly better than length alone.", "shorter"),
    ],
)
def test_the_model_is_compared_with_looking_at_the_length(reward_dir, accuracy, longer, kind, title, rule):
    def edit(evaluation):
        for key, (low, high) in (("accuracy", accuracy), ("longer_wins", longer)):
            evaluation["trained"][key] = {"value": (low + high) / 2, "low": low, "high": high}

    edit_json(reward_dir / "evaluation.json", edit)
    [callout] = blocks_of(reward_dir, Callout)
    assert (callout.kind, callout.title) == (kind, title)
    assert callout.text.startswith(f"Always taking the {rule} answer is right in ")


def test_the_shorter_rule_is_the_complement(reward_dir):
    longer = {"value": 0.4, "low": 0.3, "high": 0.45}
    edit_json(reward_dir / "evaluation.json", lambda evaluation: evaluation["trained"].update(longer_wins=longer))
    [callout] = blocks_of(reward_dir, Callout)
    assert callout.text.startswith("Always taking the shorter answer is right in 60.0% [55.0, 70.0], the model in ")


def test_every_error_that_is_recorded_can_be_opened(reward_dir):
    errors = json.loads((reward_dir / "errors.json").read_text())
    pairs = blocks_of(reward_dir, Pair)
    assert len(pairs) == len(errors["shown"]) >= 20
    first = errors["shown"][0]
    assert (pairs[0].texts, pairs[0].prompt, pairs[0].folded) == (
        (first["chosen"].strip(), first["rejected"].strip()),
        first["prompt"].strip(),
        True,
    )
    assert pairs[0].captions[0] == f"Chosen: reward {first['chosen_reward']:.2f}, {first['chosen_tokens']} tokens"
    counts = {row[0]: int(row[2]) for row in blocks_of(reward_dir, Table)[-1].rows}
    assert list(counts.values()) == list(errors["counts"].values())


def test_a_hostile_pair_stays_text(reward_dir):
    hostile = "</pre></details><script>alert(1)</script> ``` <img src=http://example.org/x.png>"

    def edit(errors):
        for error in errors["shown"]:
            error |= {"prompt": hostile, "chosen": hostile, "rejected": hostile, "subset": hostile}

    edit_json(reward_dir / "errors.json", edit)
    html = write_report([reward_dir], reward_dir).read_text()
    assert "<script" not in html
    assert "<img src=http" not in html
    assert html.count("<details>") == html.count("</details>") == 30


def test_the_reliability_curve_is_drawn(reward_dir, drawn):
    [figures] = blocks_of(reward_dir, Figures)
    assert [path.name for path, _ in figures.items] == ["calibration.png"]
    assert figures.items[0][0].exists()


def test_no_pairs_means_no_part(run_dir):
    assert describe_preferences(load_run(run_dir), run_dir) == []


def test_intervals_of_shares_that_are_all_or_nothing_can_be_drawn():
    """By rounding, a bound of Wilson's interval can lie on the wrong side of 0 or 1."""
    row = {"subset": "a", "chosen_reward": 1.0, "rejected_reward": 0.0, "chosen_tokens": 2, "rejected_tokens": 1}
    for n in range(1, 200):
        shares = [summarise_preferences([row | {"margin": margin}] * n)["accuracy"] for margin in (1.0, -1.0)]
        assert [share["value"] for share in shares] == [1, 0]
        assert min(sum(measure_errors(shares), [])) >= 0
