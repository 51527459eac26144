"""Comparisons of runs: which runs are one setting's, and how their figures are joined."""

import shutil
from dataclasses import replace

import pytest

from rlhf_exp.analysis.report import write_report
from rlhf_exp.analysis.report.curves import EACH_RUN, plot_run, plot_runs
from rlhf_exp.analysis.report.groups import group_runs, keep_measured
from rlhf_exp.analysis.report.page import Widget
from rlhf_exp.analysis.report.samples import compare_samples
from rlhf_exp.runs.load import load_run
from tests.analysis.report.conftest import GOLDEN, table_rows


@pytest.fixture
def sweep(make_groups):
    return [run.path for group in make_groups(3, grpo=0.25, dr_grpo=0.25).values() for run in group]


def test_of_a_seed_that_was_run_twice_the_later_run_counts(sweep, edit_info):
    edit_info(sweep[1], seed=0)
    [kept] = keep_measured(group_runs(list(map(load_run, sweep[:3])))).values()
    assert [run.path for run in kept] == sweep[1:3]


def test_runs_that_have_only_begun_can_be_compared(tmp_path):
    runs = [tmp_path / "a", tmp_path / "b"]
    for run in runs:
        run.mkdir()
        (run / "run.json").write_text('{"status": "running"}')
    page = write_report(runs, tmp_path / "out")
    assert "2 runs compared" in page.read_text() and "Results over seeds" not in page.read_text()


def test_runs_that_only_measured_a_model_have_a_table(sweep, tmp_path, edit):
    for path in sweep:
        edit(path, "evaluation.json", trained=..., paired=...)
    write_report(sweep, tmp_path / "out")
    assert len(table_rows(tmp_path / "out", "Runs")) == len(sweep)


def test_a_picture_has_a_line_for_each_run_and_of_many_runs_the_means_alone(run_dir):
    run = load_run(run_dir)
    for each, lines in ((2, 6), (EACH_RUN, 2)):
        plots = plot_runs({"first": [run] * each, "second": [run] * each})
        assert plots and {len(panel.lines) for plot in plots for panel in plot.panels} == {lines}


def test_shares_are_drawn_in_percent(run_dir):
    run = load_run(run_dir)
    for plots in (plot_run(run), plot_runs({"": [run]})):
        [outcomes] = [plot.panels[0] for plot in plots if plot.name == "outcomes"]
        assert outcomes.lines[0].y == pytest.approx([100 * value for value in run.series("outcome/correct")[1]])


def test_runs_of_equal_name_are_named_by_where_their_paths_part(tmp_path, make_run):
    runs = [make_run(tmp_path / study / "0") for study in ("first", "second")]
    write_report(runs, tmp_path / "out")
    assert [row[0] for row in table_rows(tmp_path / "out", "Runs")] == ["first/0", "second/0"]


def test_the_lead_over_a_baseline_has_no_interval_without_the_figures_of_each_row(tmp_path):
    runs = [shutil.copytree(GOLDEN / name, tmp_path / name) for name in ("grpo", "grpo_seed1")]
    (runs[0] / "policies.jsonl").unlink()
    write_report(runs, tmp_path / "out")
    assert table_rows(tmp_path / "out", "Sampling baselines")[0][3] == "-2.1"


def test_a_page_has_the_commands_of_its_runs_unless_one_is_not_known(sweep, tmp_path, edit_info):
    for path in sweep:
        edit_info(path, command="python -m rlhf_exp -m seed=0,1,2")
    write_report(sweep, tmp_path / "out")
    told = (tmp_path / "out" / "report.md").read_text()
    assert told.count("## How to repeat it\n\n```text\npython -m rlhf_exp -m seed=0,1,2\n```") == 1
    edit_info(sweep[0], command=None)
    assert "How to repeat it" not in write_report(sweep, tmp_path / "out").read_text()


def test_settings_are_counted_as_right_only_where_answers_are_right_or_wrong(run_dir):
    run = load_run(run_dir)
    rewarded = replace(run, samples=[row.model_copy(update={"outcome": None}) for row in run.samples])
    for one, fields in ((run, ["right settings", "a"]), (rewarded, [])):
        [widget] = [block for block in compare_samples({"a": [one]}) if isinstance(block, Widget)]
        assert [field["key"] for field in widget.content["fields"]] == fields


def test_samples_are_of_the_rows_that_all_settings_share(run_dir):
    run = load_run(run_dir)
    fewer = replace(run, samples=run.samples[1:])  # without a completion of the first row
    first, *shared = [before["id"] for before, _ in run.paired_samples()]
    groups = {"a": [run], "b": [fewer]}
    [pairs] = [block.instead for block in compare_samples(groups) if isinstance(block, Widget)]
    assert [pair.title for pair in pairs] == shared[:20]
    assert compare_samples({"a": [replace(run, samples=[])]}) == compare_samples({}) == []
