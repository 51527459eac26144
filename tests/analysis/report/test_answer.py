import re
from dataclasses import replace

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
    tabulate_tests,
)
from rlhf_exp.analysis.report.columns import DIFFERENCE, FAILED, PARTIAL, TESTED, TRAINED, mean_over_seeds
from rlhf_exp.analysis.report.compare import Comparison, describe_runs
from rlhf_exp.analysis.report.page import Figures, Table
from rlhf_exp.analysis.stats import LEVEL, START, exact
from rlhf_exp.runs.load import load_run
from rlhf_exp.runs.records import Evaluation, Pair


@pytest.fixture
def groups(make_groups):
    """Two settings that are alike and one that gained less."""
    return make_groups(2, grpo=0.3, dr_grpo=0.3, bnpo=0.0)


def test_each_setting_is_compared_with_the_start_and_with_the_best(groups):
    tests = compare(groups, TRAINED)
    assert [contrast.second for contrast in tests.contrasts[:3]] == [START] * 3
    best = max(groups, key=lambda label: mean_over_seeds(groups[label], TRAINED)["value"])
    assert {contrast.first for contrast in tests.contrasts[3:5]} == {best} and len(tests.contrasts) == 6
    verdicts = {contrast.second: contrast.verdict for contrast in tests.pairs[:2]}
    assert verdicts == {"bnpo": 1, ({"grpo", "dr_grpo"} - {best}).pop(): 0}
    named = compare(groups, TRAINED, named="bnpo")
    assert [(c.first, c.second) for c in named.contrasts[3:]] == [("grpo", "bnpo"), ("dr_grpo", "bnpo")]


def test_other_figures_are_compared_with_the_same_setting_at_a_level_that_they_share(groups):
    tests = compare_figures(groups)
    best = tests["held-out accuracy"].pairs[0].first
    assert {pair.first for found in tests.values() for pair in found.pairs[:2]} == {best}
    alone = compare(groups, TESTED["failed answers"], centre=best, level=LEVEL / (len(tests) - 1))
    assert tests["failed answers"].contrasts == alone.contrasts


def without_marks(text):
    return text.replace("`", "")


def said(groups, measured=None, named=None):
    """The remarks of the answer by their titles."""
    measured = groups if measured is None else measured
    tests = compare_figures(measured, named)
    parts = describe_answer(groups, measured, tests, find_about(measured, tests))
    return {without_marks(block.title): without_marks(block.text) for part in parts for block in part}


def test_of_few_settings_all_pairs_are_compared_and_the_best_is_named_first(groups):
    found = said(groups)
    best, *others = compare_figures(groups)["held-out accuracy"].pairs
    alike = ({"grpo", "dr_grpo"} - {best.first}).pop()
    told = found["Which is best is not clear."]
    level = TRAINED.write(exact(mean_over_seeds(groups[best.first], TRAINED)["value"]))
    first = re.escape(f"The highest is {best.first}, with a held-out accuracy of {level} at a KL of ")
    assert re.match(first + r"[\d.]+ nats \(2 seeds, 128 rows\); it is above bnpo \(\+", told)
    assert f"not clearly different from {alike} (" in told
    assert [(pair.first, pair.second) for pair in others][-1] in {(alike, "bnpo"), ("bnpo", alike)}
    assert found["The others."].startswith(f"{alike} is above bnpo (+")
    assert "ot clearly different from it: " in found["Against the start model."]
    unclear = r"Gaps in .* between settings below about .* points may go unseen .*; .* would tell {} from {}"
    assert re.match(unclear.format(best.first, alike), found["To know more."])


def test_the_answer_tells_the_figures_that_a_change_is_about(groups):
    assert find_about(groups, {}) == []
    for label, weight in zip(groups, (0.0, 0.1, 0.2), strict=True):
        for run in groups[label]:
            run.config["reward"] = {"weights": {"outcome": 1.0, "overlong": weight}}
            run.config["algo"]["args"]["beta"] = weight
    assert {"truncation", "tokens", "KL"} <= set(find_about(groups, compare_figures(groups)))
    told = said(groups)["In other figures."]
    assert re.match(
        r"Failed answers: \w+ is below bnpo \(-[^;]*; no clear difference in truncation, tokens, KL\.", told
    )


def test_a_study_says_what_is_best_what_was_gained_and_what_is_sick_or_cannot_be_told(groups):
    tests = compare_figures(groups)
    main, rest, _ = ([block.title for block in part] for part in describe_answer(groups, groups, tests, []))
    assert main == ["Against the start model.", "Which is best is not clear.", "Health."]
    assert rest == ["To know more."]
    groups["bnpo"][0].info.status = "failed"
    groups["bnpo"][1].info.max_tokens = 32
    tests = compare_figures(groups, "bnpo")
    titles = [block.title for block in describe_answer(groups, groups, tests, []).main]
    assert titles == ["Caution.", "Against `bnpo`.", "Highest.", "Health."]


def test_what_is_not_comparable_is_said_first(groups):
    groups["bnpo"][0].info.max_tokens = 32
    groups["bnpo"][0].config["reward"] = {"weights": {"short": 1.0}}
    unmeasured = replace(groups["grpo"][0], evaluation=Evaluation())
    found = said(groups | {"lost": [unmeasured]}, groups)
    assert [*found][0] == "Caution."
    limits = found["Caution."]
    assert "max_tokens differs (64, 32)" in limits and "learned from different rewards" in limits
    assert limits.endswith("/grpo0.")


def test_pairs_that_only_some_runs_rank_are_no_other_rows(groups):
    text = dict.fromkeys(("prompt", "chosen", "rejected"), "")
    number = dict.fromkeys(("chosen_reward", "rejected_reward", "margin", "chosen_tokens", "rejected_tokens"), 1)
    groups["grpo"][0].preferences.append(Pair(which="trained", id="pair-1", **text, **number))
    assert "Caution." not in said(groups)
    groups["grpo"][1] = replace(groups["grpo"][1], samples=groups["grpo"][1].samples[:-1])
    assert "Held-out rows differ: 127 are shared by all" in said(groups)["Caution."]


def test_the_best_has_its_gain_beside_its_level_where_start_models_differ(groups):
    assert "over its own start" not in said(groups)["Which is best is not clear."]
    groups["bnpo"][0].info.model = "other"
    told = said(groups)["Which is best is not clear."]
    assert re.search(r"\(2 seeds, 128 rows; \+[\d.]+ \[.*?\] points over its own start\); it is ", told)


def test_single_seeds_are_not_tested_but_listed(groups, tmp_path):
    single = {label: group[:1] for label, group in groups.items()}
    found = said(single)
    assert "cannot be told" in found["Highest."] and "Against the start model." not in found
    write_report([run.path for group in single.values() for run in group], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "## Runs\n" in text and "Which settings differ" not in text and "Every run" not in text


def test_beside_tested_settings_that_of_one_seed_has_its_gain(groups):
    groups["grpo"] = groups["grpo"][:1]
    gain = re.escape(DIFFERENCE.cell(groups["grpo"][0]))
    told = said(groups)["Against the start model."]
    raised = groups["grpo"][0].evaluation.trained.accuracy
    groups["grpo"][0].evaluation.trained.accuracy = raised | {"value": 0.999}
    best = said(groups)["Which is best is not clear."]
    assert best.startswith("Of those that can be judged the highest is dr_grpo, with ")
    assert best.endswith("; higher on average, but not to be judged: grpo (99.9%, one seed).")
    assert re.search(rf"\. Of one seed, and not tested: grpo \({gain} points\)\. The start model has ", told)


def learn_from_other_rewards(run, judge=None):
    """The run as of a task without right answers, from a reward of its own; with a judge measured by that too."""
    samples = [one.model_copy(update={"outcome": None, "reward": float(one.is_correct)}) for one in run.samples]
    sections = {which: getattr(run.evaluation, which).model_copy(update={"accuracy": None, "lenient_accuracy": None})
                for which in ("baseline", "trained")}  # fmt: skip
    evaluation = run.evaluation.model_copy(update=sections | {"paired": None})
    config = run.config | {"reward": {"path": str(run.path)}}
    if judge is None:
        return replace(run, samples=samples, evaluation=evaluation, config=config)
    config |= {"eval": {"sets": {judge: {"task": "hh_rlhf", "reward": "runs/judge"}}}}
    seen = [one.model_copy(update={"set": judge}) for one in samples]
    evaluation = evaluation.model_copy(update={"sets": {judge: evaluation}})
    return replace(run, samples=samples, evaluation=evaluation, config=config, set_samples=seen)


def test_a_difference_that_only_more_seeds_could_tell_has_no_interval_in_a_sentence(groups):
    tests = compare(groups, TRAINED)
    wild = [one._replace(estimate=one.estimate._replace(by_seeds=40.0)) if one.first == "grpo" else one
            for one in tests.starts]  # fmt: skip

    def tell(contrasts):
        found = describe_answer(groups, groups, {"held-out accuracy": tests._replace(contrasts=contrasts)}, [])
        return next(block.text for block in found.main if block.title == "Against the start model.")

    assert re.search(r"`dr_grpo` \(\+.*; interval too wide to judge: `grpo`\. ", tell(wild))
    alone = [one for one in wild if one.first == "grpo"]  # no share could differ so much, whatever is usual
    assert tell(alone).startswith("Interval too wide to judge: `grpo`. ")


def test_runs_of_different_rewards_are_compared_by_a_set_with_one_reward_or_not_ranked(groups):
    labels = {run.path: label for label, group in groups.items() for run in group}
    runs = [run for group in groups.values() for run in group]
    apart = Comparison([learn_from_other_rewards(run) for run in runs], labels=labels)
    told = {block.title for block in apart.remarks.main}
    assert not [plot for block in describe_runs(apart) if isinstance(block, Figures) for plot in block.plots]
    assert "Caution." in told and not told & {"Highest.", "Against the start model.", "To know more."}
    judged = Comparison([learn_from_other_rewards(run, "gold") for run in runs], labels=labels)
    main = {block.title: block.text for block in judged.remarks.main}
    assert main["By gold."].endswith("by the evaluation set gold, whose reward is one for all.")
    assert "bnpo" not in next(iter(judged.judged)) and "different rewards" not in main.get("Caution.", "")
    assert re.search(r"with a reward of .* \(2 seeds, 128 rows\); it is above `bnpo`", "".join(main.values()))


def test_a_named_setting_takes_the_place_of_the_best(groups):
    found = said(groups, named="bnpo")
    assert found["Against bnpo."].startswith("Above it: ") and "The others." not in found


def test_of_many_settings_names_are_told_and_tables_are_folded(groups):
    many = {f"{label}{copy}": group for copy in range(3) for label, group in groups.items()}
    tests = compare_figures(many)
    tables = [block for block in tabulate_tests(tests, list(tests)) if isinstance(block, Table)]
    assert len(tables) == len(tests) and all(table.folded for table in tables)
    found = said(many)
    assert found["Against the start model."].startswith("Not clearly different from it: all 9 settings. ")
    assert "The others." not in found
    assert re.search(r"above bnpo0 \(\+.*, bnpo1 \(\+.*, bnpo2 \(\+", found["Which is best is not clear."])
    assert re.match(r"Reward: \w+ is above bnpo\d \([^)]*\), and 2 more differ; failed ", found["In other figures."])
    own = tests | {f"own {place}": tests["failed answers"] for place in range(3)}
    [told] = [one.text for one in describe_answer(many, many, own, own).more if one.title == "In other figures."]
    assert told.count("2 more differ; ") == 3 and "; 2 more figures differ, in the tables below; no clear" in told
    few = [block for block in tabulate_tests(compare_figures(groups), list(tests)) if isinstance(block, Table)]
    assert [bool(table.folded) for table in few] == [False, *[True] * (len(few) - 1)]


def test_a_difference_that_nothing_would_detect_is_too_small_to_matter(groups):
    alike = {"a": groups["grpo"], "b": groups["grpo"]}
    blocks = tabulate_tests(compare_figures(alike), ["held-out accuracy"])
    [table] = [block for block in blocks if isinstance(block, Table)]
    assert (table.rows[-1][0], table.rows[-1][-1]) == ("a - b", "too small to be found")


def test_healthy_runs_are_said_to_be(groups):
    assert said(groups)["Health."] == "Of 6 runs: no check found anything."


def test_a_folder_without_samples_has_means_without_intervals_and_a_note(groups, tmp_path):
    paths = [run.path for group in groups.values() for run in group]
    (paths[0] / "samples.jsonl").unlink()
    runs = [load_run(paths[0]), groups["grpo"][1]]
    assert mean_over_seeds(runs, DIFFERENCE)["low"] is None
    write_report(paths, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "not tested, for one seed, or no figures of rows that all share: `grpo`." in text


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
    assert not describe_collapsed(groups)
    assert "`grpo`, seed 1: 1.0% [0.0, 3.0]." in describe_collapsed({"grpo": [whole, load_run(lost.path)]})
    write_report([whole.path, lost.path], tmp_path / "out")
    assert "Collapsed, far below the other seeds" in (tmp_path / "out" / "report.md").read_text()
