import re

import pytest

from rlhf_exp.evaluation.preferences import summarise_preferences
from rlhf_exp.report.page import Callout
from rlhf_exp.report.plots import Line, Panel, Plot, draw, read_bounds
from rlhf_exp.report.preferences import describe_preferences
from rlhf_exp.runs.load import load_run


@pytest.mark.parametrize(
    ("accuracy", "longer", "kind", "title", "rule"),
    [
        ((0.70, 0.80), (0.50, 0.60), "ok", "Better than length alone.", "longer"),
        ((0.55, 0.65), (0.60, 0.70), "warning", "Not clearly better than length alone.", "longer"),
        ((0.40, 0.50), (0.60, 0.70), "warning", "Worse than length alone.", "longer"),
        ((0.55, 0.65), (0.30, 0.40), "warning", "Not clearly better than length alone.", "shorter"),
    ],
)
def test_the_model_is_compared_with_looking_at_the_length(reward_dir, edit, accuracy, longer, kind, title, rule):
    for key, (low, high) in (("accuracy", accuracy), ("longer_wins", longer)):
        edit(reward_dir, "evaluation.json", {f"trained.{key}": {"value": (low + high) / 2, "low": low, "high": high}})
    [callout] = [block for block in describe_preferences(load_run(reward_dir)) if isinstance(block, Callout)]
    assert (callout.kind, callout.title) == (kind, title)
    assert callout.text.startswith(f"Always taking the {rule} answer is right in ")
    if rule == "shorter":  # the complement
        assert re.search(r"is right in 65\.0% \[60\.0, 70\.0\], the model in ", callout.text)


def test_intervals_of_shares_that_are_all_or_nothing_can_be_drawn(tmp_path, drawn):
    """By rounding, a bound of Wilson's interval can lie on the wrong side of 0 or 1."""
    row = {"subset": "a", "chosen_reward": 1.0, "rejected_reward": 0.0, "chosen_tokens": 2, "rejected_tokens": 1}
    rows = [[row | {"margin": margin}] * n for n in range(1, 200) for margin in (1.0, -1.0)]
    shares = [summarise_preferences(same)["accuracy"] for same in rows]
    assert {share["value"] for share in shares} == {0, 1}
    line = Line(range(len(shares)), [share["value"] for share in shares], y_bounds=read_bounds(shares))
    draw(Plot("shares", "", [Panel("", "", [line])]), tmp_path)
