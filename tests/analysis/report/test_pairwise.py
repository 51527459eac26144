from dataclasses import replace

import pandas as pd
import pytest

from rlhf_exp.analysis.frame import join
from rlhf_exp.analysis.report import write_report
from rlhf_exp.analysis.report.columns import DIFFERENCE, FAILED, PARTIAL, TESTED, TRAINED, mean_over_seeds
from rlhf_exp.analysis.report.page import Table
from rlhf_exp.analysis.report.pairwise import (
    describe_collapsed,
    find_about,
    run_figures,
    run_tests,
    summarise_tests,
    tabulate_tests,
)
from rlhf_exp.analysis.stats import START
from rlhf_exp.runs.load import load_run


@pytest.fixture
def groups(make_groups):
    """Two settings that are alike and one that gained less."""
    return make_groups(2, grpo=0.3, dr_grpo=0.3, bnpo=0.0)


def test_each_setting_is_compared_with_the_start_and_with_the_best(groups):
    tests = run_tests(groups, TRAINED)
    assert [contrast.second for contrast in tests.contrasts[:3]] == [START] * 3
    best = max(groups, key=lambda label: mean_over_seeds(groups[label], TRAINED)["value"])
    assert {contrast.first for contrast in tests.contrasts[3:]} == {best} and len(tests.contrasts) == 5
    found = {contrast.second: contrast for contrast in tests.contrasts[3:]}
    assert found["bnpo"].significant and not found[({"grpo", "dr_grpo"} - {best}).pop()].significant
    named = run_tests(groups, TRAINED, named="bnpo")
    assert [(c.first, c.second) for c in named.contrasts[3:]] == [("bnpo", "grpo"), ("bnpo", "dr_grpo")]


def test_other_figures_are_tested_against_the_same_setting_and_adjusted_for_their_number(groups):
    tests = run_figures(groups)
    best = tests["held-out accuracy"].pairs[0].first
    assert {pair.first for found in tests.values() for pair in found.pairs} == {best}
    alone = run_tests(groups, TESTED["failed answers"], centre=best).contrasts[0]
    found = tests["failed answers"].contrasts[0]
    assert found.adjusted == pytest.approx(min(1, alone.adjusted * (len(tests) - 1)))
    assert found.level == pytest.approx(alone.level / (len(tests) - 1))


def test_a_figure_that_a_change_is_about_is_shown_whether_or_not_settings_differ_in_it(groups):
    assert find_about(groups, {}) == []
    for label, weight in zip(groups, (0.0, 0.1, 0.2), strict=True):
        for run in groups[label]:
            run.config["reward"] = {"weights": {"outcome": 1.0, "overlong": weight}}
            run.config["algo"]["args"]["beta"] = weight
    tests = run_figures(groups)
    about = find_about(groups, tests)
    assert {"truncation", "tokens", "KL"} <= set(about)
    said = [block.text for block in summarise_tests(groups, tests, about)]
    best = tests["held-out accuracy"].pairs[0].first
    [alike] = [text for text in said if text.startswith("dr_grpo against grpo" if best == "grpo" else "grpo against")]
    assert "no measurable difference in held-out accuracy (" in alike and "in truncation (" in alike
    [worse] = [text for text in said if text.startswith("bnpo against")]
    assert "held-out accuracy 2" in worse and "80% power" not in worse.split(";")[0]


def test_of_many_settings_groups_are_named_and_their_tests_are_folded(groups):
    many = {f"{label}{copy}": group for copy in range(3) for label, group in groups.items()}
    tests = run_figures(many)
    first, second = tests["held-out accuracy"].tiers
    assert {label[:-1] for label in first} == {"grpo", "dr_grpo"} and {label[:-1] for label in second} == {"bnpo"}
    tables = [block for block in tabulate_tests(tests, list(tests)) if isinstance(block, Table)]
    assert len(tables) == len(tests) and all(table.folded for table in tables)
    said = [block.text for block in summarise_tests(many, tests, find_about(many, tests))]
    [gains] = [text for text in said if "against the start model" in text]
    assert all(label in gains for label in many)
    named = run_figures(many, "bnpo0")
    assert not named["held-out accuracy"].tiers
    assert any("6 differ from bnpo0" in block.text for block in summarise_tests(many, named, find_about(many, named)))
    few = [block for block in tabulate_tests(run_figures(groups), list(tests)) if isinstance(block, Table)]
    assert [bool(table.folded) for table in few] == [False, *[True] * (len(few) - 1)]


def test_a_difference_that_nothing_would_detect_is_too_small_to_matter(groups):
    alike = {"a": groups["grpo"], "b": groups["grpo"]}
    [table] = [block for block in tabulate_tests(run_figures(alike), ["held-out accuracy"]) if isinstance(block, Table)]
    assert (table.rows[-1][0], table.rows[-1][-1]) == ("a - b", "too small to matter here")


def test_a_setting_whose_seeds_spread_far_above_the_others_is_named(groups):
    assert "Far above" not in run_tests(groups, TRAINED).spread
    lost = replace(
        groups["grpo"][0], samples=[one.model_copy(update={"outcome": "failed"}) for one in groups["grpo"][0].samples]
    )
    spread = run_tests(groups | {"grpo": [groups["grpo"][1], lost]}, TRAINED).spread
    assert spread.endswith(" Far above the others', and therefore with a limited part in theirs: grpo.")


def test_a_folder_without_samples_has_means_without_intervals_and_a_note(groups, tmp_path):
    paths = [run.path for group in groups.values() for run in group]
    (paths[0] / "samples.jsonl").unlink()
    runs = [load_run(paths[0]), groups["grpo"][1]]
    assert mean_over_seeds(runs, DIFFERENCE)["low"] is None
    write_report(paths, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "Not tested, for one seed, or no figures of rows that all share: grpo." in text


def test_where_no_answer_is_partial_those_that_are_not_right_failed(groups):
    run = groups["grpo"][0]
    assert FAILED.read(run)["value"] == pytest.approx(1 - TRAINED.read(run)["value"])
    assert PARTIAL.read(run)["value"] == 0


def test_rows_that_only_some_runs_have_are_left_out():
    whole, part, other = (
        pd.Series(rows) for rows in ({"a": 1.0, "b": 0.0, "c": 1.0}, {"c": 0.0, "a": 0.5}, {"d": 1.0})
    )
    assert join([whole, part]).tolist() == [[1.0, 1.0], [0.5, 0.0]]
    assert join([whole, other]) is None and join([None, whole]) is None and join([]) is None


def test_a_collapsed_seed_is_named_in_the_report(groups, tmp_path, edit):
    whole, lost = groups["grpo"]
    edit(lost.path, "evaluation.json", {"trained.accuracy": {"value": 0.01, "low": 0.0, "high": 0.03}})
    assert describe_collapsed(groups) is None
    assert "grpo, seed 1: 1.0% [0.0, 3.0]." in describe_collapsed({"grpo": [whole, load_run(lost.path)]})
    write_report([whole.path, lost.path], tmp_path / "out")
    assert "**Collapsed seeds.** Far below the other seeds" in (tmp_path / "out" / "report.md").read_text()
