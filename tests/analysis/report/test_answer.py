import re

import pandas as pd
import pytest

from rlhf_exp.analysis.frame import join
from rlhf_exp.analysis.report import write_report
from rlhf_exp.analysis.report.answer import (
    compare,
    compare_figures,
    describe_answer,
    describe_collapsed,
    find_about,
    summarise_tests,
    tabulate_tests,
)
from rlhf_exp.analysis.report.columns import DIFFERENCE, FAILED, PARTIAL, TESTED, TRAINED, mean_over_seeds
from rlhf_exp.analysis.report.page import Callout, Table
from rlhf_exp.analysis.stats import LEVEL, START
from rlhf_exp.runs.load import load_run


@pytest.fixture
def groups(make_groups):
    """Two settings that are alike and one that gained less."""
    return make_groups(2, grpo=0.3, dr_grpo=0.3, bnpo=0.0)


def test_each_setting_is_compared_with_the_start_and_with_the_best(groups):
    tests = compare(groups, TRAINED)
    assert [contrast.second for contrast in tests.contrasts[:3]] == [START] * 3
    best = max(groups, key=lambda label: mean_over_seeds(groups[label], TRAINED)["value"])
    assert {contrast.first for contrast in tests.contrasts[3:]} == {best} and len(tests.contrasts) == 5
    verdicts = {contrast.second: contrast.verdict for contrast in tests.pairs}
    assert verdicts == {"bnpo": 1, ({"grpo", "dr_grpo"} - {best}).pop(): 0}
    named = compare(groups, TRAINED, named="bnpo")
    assert [(c.first, c.second) for c in named.contrasts[3:]] == [("bnpo", "grpo"), ("bnpo", "dr_grpo")]


def test_other_figures_are_compared_with_the_same_setting_at_a_level_that_they_share(groups):
    tests = compare_figures(groups)
    best = tests["held-out accuracy"].pairs[0].first
    assert {pair.first for found in tests.values() for pair in found.pairs} == {best}
    alone = compare(groups, TESTED["failed answers"], centre=best, level=LEVEL / (len(tests) - 1))
    assert tests["failed answers"].contrasts == alone.contrasts


def test_the_answer_names_what_differs_and_what_a_change_is_about(groups):
    assert find_about(groups, {}) == []
    for label, weight in zip(groups, (0.0, 0.1, 0.2), strict=True):
        for run in groups[label]:
            run.config["reward"] = {"weights": {"outcome": 1.0, "overlong": weight}}
            run.config["algo"]["args"]["beta"] = weight
    tests = compare_figures(groups)
    about = find_about(groups, tests)
    assert {"truncation", "tokens", "KL"} <= set(about)
    first, *others, last = [block.text for block in summarise_tests(groups, tests, about)]
    best = tests["held-out accuracy"].pairs[0].first
    alike = ({"grpo", "dr_grpo"} - {best}).pop()
    assert re.fullmatch(r"Held-out accuracy against the start model, on 128 rows and 2 seeds or more: .*\.", first)
    told = {text.partition(" against ")[0]: text for text in others}
    assert (
        f"no clear difference with {alike} " in told["Held-out accuracy"]
        and "lower with bnpo -" in told["Held-out accuracy"]
    )
    assert {"Truncation", "Tokens", "KL"} <= told.keys()
    assert (
        last.startswith("To find such a difference in held-out accuracy in 4 of 5 repetitions takes: ")
        and alike in last
    )


def test_of_many_settings_names_are_told_and_tables_are_folded(groups):
    many = {f"{label}{copy}": group for copy in range(3) for label, group in groups.items()}
    tests = compare_figures(many)
    tables = [block for block in tabulate_tests(tests, list(tests)) if isinstance(block, Table)]
    assert len(tables) == len(tests) and all(table.folded for table in tables)
    said = [block.text for block in summarise_tests(many, tests, find_about(many, tests))]
    assert all(label in said[0] for label in many) and "[" not in said[0]
    assert "lower with bnpo0, bnpo1, bnpo2" in said[1]
    few = [block for block in tabulate_tests(compare_figures(groups), list(tests)) if isinstance(block, Table)]
    assert [bool(table.folded) for table in few] == [False, *[True] * (len(few) - 1)]


def test_a_difference_that_nothing_would_detect_is_too_small_to_matter(groups):
    alike = {"a": groups["grpo"], "b": groups["grpo"]}
    blocks = tabulate_tests(compare_figures(alike), ["held-out accuracy"])
    [table] = [block for block in blocks if isinstance(block, Table)]
    assert (table.rows[-1][0], table.rows[-1][-1]) == ("a - b", "too small to matter here")


def test_healthy_runs_are_said_to_be(groups):
    blocks = describe_answer(groups, groups, compare_figures(groups), [])
    [callout] = [block for block in blocks if isinstance(block, Callout)]
    assert (callout.kind, callout.text) == ("ok", "Of 6 runs: no check accuses any.")


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
