"""Comparisons of runs: which runs are one setting's, and how their figures are joined."""

import json
from dataclasses import replace

import pytest

from rlhf_exp.report import write_report
from rlhf_exp.report.columns import DIFFERENCE, TRAINED, mean_over_seeds
from rlhf_exp.report.compare import describe_runs
from rlhf_exp.report.curves import EACH_RUN, plot_runs, show_curves
from rlhf_exp.report.groups import group_runs
from rlhf_exp.report.page import Table, Widget
from rlhf_exp.report.samples import compare_samples
from rlhf_exp.runs.load import NotARun, load_run
from rlhf_exp.stats import DIFFERENCES, SHARES, crossed_interval, mean_interval


@pytest.fixture
def sweep(tmp_path, make_run):
    settings = [(loss_type, seed) for loss_type in ("grpo", "dr_grpo") for seed in (0, 1, 2)]
    return [make_run(tmp_path / str(job), seed, loss_type) for job, (loss_type, seed) in enumerate(settings)]


def trained_accuracy(run_dir):
    return json.loads((run_dir / "evaluation.json").read_text())["trained"]["accuracy"]["value"]


def table_rows(out, title):
    section = (out / "report.md").read_text().split(f"## {title}\n")[1]
    lines = [line for line in section.split("\n##")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def read_correct(run_dir):
    """Of each side (rows,) whether they are right, and their ids."""
    samples = [json.loads(line) for line in (run_dir / "samples.jsonl").read_text().splitlines()]
    return {which: {s["id"]: float(s["outcome"] == "correct") for s in samples if s["which"] == which}
            for which in ("baseline", "trained")}  # fmt: skip


def test_means_over_seeds_have_intervals_over_seeds_and_rows(sweep):
    groups = group_runs([load_run(path) for path in sweep])
    assert {label: len(runs) for label, runs in groups.items()} == {"grpo": 3, "dr_grpo": 3}
    correct = [read_correct(path) for path in sweep[:3]]
    expected = crossed_interval([list(sides["trained"].values()) for sides in correct], SHARES)
    assert expected["value"] == pytest.approx(sum(map(trained_accuracy, sweep[:3])) / 3)
    assert mean_over_seeds(groups["grpo"], TRAINED) == pytest.approx(expected)
    gains = [[sides["trained"][row] - sides["baseline"][row] for row in sides["trained"]] for sides in correct]
    assert mean_over_seeds(groups["grpo"], DIFFERENCE) == pytest.approx(crossed_interval(gains, DIFFERENCES))


def test_a_seed_run_twice_counts_once(sweep, tmp_path, edit_info):
    edit_info(sweep[1], seed=0)
    write_report(sweep[:3], tmp_path / "out")
    rows = table_rows(tmp_path / "out", "Results over seeds")
    expected = mean_interval([trained_accuracy(path) for path in sweep[1:3]])["value"]
    assert (rows[0][1], rows[0][3].split()[0]) == ("2", f"{100 * expected:.1f}%")


def test_settings_are_sorted_by_result_and_the_changed_figure_is_in_the_first_table(tmp_path, make_run):
    gains = {"grpo": 0.0, "bnpo": 0.4, "dr_grpo": 0.2}
    runs = [
        make_run(tmp_path / f"{loss}{seed}", seed, loss, gain) for loss, gain in gains.items() for seed in (0, 1, 2)
    ]
    write_report(runs, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert [row[0] for row in table_rows(tmp_path / "out", "Results over seeds")][:3] == ["**bnpo**", "dr_grpo", "grpo"]
    head = text.split("## Results over seeds\n\n")[1].splitlines()[0]
    assert head.startswith("| setting | seeds | difference | trained | baseline | failed |")


def test_a_study_labels_the_settings_itself(sweep):
    runs = [load_run(path) for path in sweep]
    labels = {run.path: "low" if run.info["loss_type"] == "grpo" else "high" for run in runs}
    [table, *_] = [block for block in describe_runs(runs, labels=labels) if isinstance(block, Table)]
    assert sorted(row[:2] for row in table.rows) == [["high", "3"], ["low", "3"]]


def test_runs_that_have_only_begun_can_be_compared(tmp_path):
    runs = [tmp_path / "a", tmp_path / "b"]
    for run in runs:
        run.mkdir()
        (run / "run.json").write_text('{"status": "running"}')
    page = write_report(runs, tmp_path / "out")
    assert "2 runs compared" in page.read_text() and "Results over seeds" not in page.read_text()


def test_a_damaged_run_of_several_is_named(sweep, edit):
    edit(sweep[3], "evaluation.json", {"trained.accuracy": "abc"})
    with pytest.raises(NotARun, match=f"^{sweep[3]}: a file in it is damaged"):
        write_report(sweep, sweep[0].parent / "out")


def test_a_picture_has_a_line_for_each_run_and_of_many_runs_the_means_alone(run_dir):
    run = load_run(run_dir)
    for each, lines in ((2, 6), (EACH_RUN, 2)):
        plots = plot_runs({"first": [run] * each, "second": [run] * each})
        assert plots and {len(panel.lines) for plot in plots for panel in plot.panels} == {lines}


def test_validation_curves_of_a_comparison_are_drawn_by_the_page_and_not_as_further_pictures(run_dir):
    groups = {"first": [load_run(run_dir)], "second": [load_run(run_dir)]}
    plots = plot_runs(groups)
    units = [chart["unit"] for chart in show_curves(groups, plots).content["charts"] if "alidation" in chart["caption"]]
    assert units == ["accuracy", "reward", "mean tokens", "cut off", "KL, nats"]
    assert "validation" not in {plot.name for plot in plots}


def test_figures_that_are_not_finite_can_be_compared(sweep, tmp_path, edit):
    nothing = {"value": None, "low": None, "high": None}
    edit(sweep[0], "evaluation.json", {"trained.kl.mean": nothing, "baseline.reward.mean": nothing})
    write_report(sweep[:2], tmp_path / "out")


def test_runs_of_equal_name_are_named_by_where_their_paths_part(tmp_path, make_run):
    runs = [make_run(tmp_path / study / "0") for study in ("first", "second")]
    write_report(runs, tmp_path / "out")
    assert [row[0] for row in table_rows(tmp_path / "out", "Every run")] == ["first/0", "second/0"]


def test_a_start_model_measured_once_keeps_its_own_interval(sweep, tmp_path, edit):
    first = json.loads((sweep[0] / "evaluation.json").read_text())["baseline"]
    for path in sweep:
        edit(path, "evaluation.json", baseline=first)
    write_report(sweep, tmp_path / "out")
    accuracy = first["accuracy"]
    written = f"{100 * accuracy['value']:.1f}% [{100 * accuracy['low']:.1f}, {100 * accuracy['high']:.1f}]"
    assert table_rows(tmp_path / "out", "Results over seeds")[0][4] == written


def add_policies(path, edit):
    """The best policies of two families: the second is better on validation rows, the first on the held-out ones."""
    trained = trained_accuracy(path)
    families = {
        family: {
            "policy": policy, "n": 128, "accuracy": {"value": value, "low": value - 0.05, "high": value + 0.05},
            "validation": {policy: there}, "trained_minus": {"value": trained - value, "low": -1.0, "high": 1.0},
        }
        for family, policy, value, there in (("temperature", "0.5", 0.3, 0.3), ("rule", "rule of signs", 0.28, 0.4))
    }  # fmt: skip
    edit(path, "evaluation.json", baselines=families)


def test_the_best_sampling_baseline_is_chosen_on_validation_rows_and_its_lead_joins_seeds_and_rows(
    sweep, tmp_path, edit
):
    """On the held-out rows the highest of several would be too high by chance."""
    sides = []
    for path in sweep[:3]:
        add_policies(path, edit)
        before, after = read_correct(path).values()
        sides.append([after[name] - before[name] for name in before])
    write_report(sweep[:3], tmp_path / "out")
    [row] = table_rows(tmp_path / "out", "Sampling baselines")
    mean = sum(map(trained_accuracy, sweep[:3])) / 3
    assert (row[:2], row[3]) == (["grpo", "rule of signs"], f"{100 * (mean - 0.28):+.1f}")
    for path in sweep[:3]:
        before = read_correct(path)["baseline"]
        rows = {"family": "rule", "policy": "rule of signs", "id": list(before), "accuracy": list(before.values())}
        (path / "policies.jsonl").write_text(json.dumps(rows) + "\n")
    write_report(sweep[:3], tmp_path / "out")
    cells = [f"{100 * bound:+.1f}" for bound in crossed_interval(sides, DIFFERENCES).values()]
    [row] = table_rows(tmp_path / "out", "Sampling baselines")
    assert row[3] == f"{cells[0]} [{cells[1]}, {cells[2]}]"


def test_samples_of_the_same_rows_are_shown_of_each_start_model_and_each_setting_and_stay_text(sweep, tmp_path):
    lines = [json.loads(line) for line in (sweep[3] / "samples.jsonl").read_text().splitlines()]
    lines = [
        line | {"completion": "<script>alert(1)</script>" if line["which"] == "trained" else "c"} for line in lines
    ]
    (sweep[3] / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[1:]))  # without a row
    groups = {"a": [load_run(sweep[0])], "b": [load_run(sweep[3])]}
    pairs = next(block.instead for block in compare_samples(groups) if isinstance(block, Widget))
    assert [pair.title for pair in pairs] == [f"row-{i}" for i in range(1, 21)] and all(pair.folded for pair in pairs)
    assert [caption.split(":")[0] for caption, _ in pairs[0].sides] == ["start model", "a", "b"]
    page = write_report([sweep[0], sweep[3]], tmp_path / "out")
    assert "<script>alert" not in page.read_text() and "&lt;script&gt;alert" in page.read_text()
    assert compare_samples({"a": [replace(groups["a"][0], samples=[])]}) == compare_samples({}) == []


def test_the_memory_of_the_parts_is_a_table_of_settings_and_is_in_the_report_of_a_run(sweep, tmp_path, edit_info):
    parts = {"weights": 3.6, "optimizer": 7.2, "rest": 900.0}
    for path in sweep[:3]:
        edit_info(path, steps=8, memory_mb=parts)
    write_report(sweep, tmp_path / "out")
    rows = {row[0]: row[2:] for row in table_rows(tmp_path / "out", "Memory while training, MB")}
    assert rows == {"grpo": ["3.6", "7.2", "900.0"], "dr_grpo": ["-", "-", "-"]}
    write_report(sweep[:1], tmp_path / "one")
    rows = dict(row for row in table_rows(tmp_path / "one", "Time and memory") if row[0].startswith("memory"))
    assert rows == {f"memory, {name}": f"{mb} MB" for name, mb in zip(
        ("weights", "optimizer states", "the rest"), parts.values(), strict=True)}  # fmt: skip
