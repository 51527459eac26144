import json

import pytest

from rlhf_exp.report import write_report
from rlhf_exp.report.compare import group_runs, list_columns
from rlhf_exp.report.curves import list_curves
from rlhf_exp.report.load import load_run
from rlhf_exp.stats import mean_interval


@pytest.fixture
def sweep(tmp_path, make_run):
    settings = [(loss_type, seed) for loss_type in ("grpo", "dr_grpo") for seed in (0, 1, 2)]
    return [make_run(tmp_path / str(job), seed, loss_type) for job, (loss_type, seed) in enumerate(settings)]


def trained_accuracy(run_dir):
    return json.loads((run_dir / "evaluation.json").read_text())["trained"]["accuracy"]["value"]


def table_rows(out, title):
    section = (out / "report.md").read_text().split(f"## {title}\n")[1]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.split("\n##")[0].splitlines()
        if line.startswith("|")
    ][2:]


def test_seeds_are_one_group_and_settings_are_labelled_by_what_differs(sweep):
    groups = group_runs([load_run(path) for path in sweep])
    assert {label: len(runs) for label, runs in groups.items()} == {
        "loss_type=grpo": 3,
        "loss_type=dr_grpo": 3,
    }


def test_a_setting_outside_the_main_ones_is_found_in_the_config(sweep):
    for path, beta in ((sweep[0], 0.0), (sweep[1], 0.1)):
        config = json.loads((path / ".hydra" / "config.yaml").read_text())
        config["algo"]["args"]["beta"] = beta
        (path / ".hydra" / "config.yaml").write_text(json.dumps(config))
    assert list(group_runs([load_run(path) for path in sweep[:2]])) == ["beta=0.0", "beta=0.1"]


def test_the_mean_over_seeds_has_a_t_interval(sweep, tmp_path):
    write_report(sweep, tmp_path / "out")
    rows = table_rows(tmp_path / "out", "Over seeds")
    expected = mean_interval([trained_accuracy(path) for path in sweep[:3]])
    assert rows[0][:2] == ["loss_type=grpo", "3"]
    bounds = f"[{100 * expected['low']:.1f}, {100 * expected['high']:.1f}]"
    assert rows[0][3] == f"{100 * expected['value']:.1f}% {bounds}"


def test_every_run_has_a_row_and_the_page_holds_the_curves(sweep, tmp_path):
    page = write_report(sweep, tmp_path / "out")
    assert [row[0] for row in table_rows(tmp_path / "out", "Every run")] == ["0", "1", "2", "3", "4", "5"]
    assert page.read_text().count("data:image/png;base64,") == 6
    assert "Shared by all: algo=grpo, task=countdown, model=tiny, max_tokens=64." in page.read_text()


def test_one_seed_has_no_interval(sweep, tmp_path):
    write_report([sweep[0], sweep[3]], tmp_path / "out")
    rows = table_rows(tmp_path / "out", "Over seeds")
    assert [row[1] for row in rows] == ["1", "1"]
    assert rows[0][3] == f"{100 * trained_accuracy(sweep[0]):.1f}%"


def test_a_seed_run_twice_counts_once(sweep, tmp_path, edit_info):
    edit_info(sweep[1], seed=0)
    write_report(sweep[:3], tmp_path / "out")
    rows = table_rows(tmp_path / "out", "Over seeds")
    expected = mean_interval([trained_accuracy(path) for path in sweep[1:3]])["value"]
    assert (rows[0][1], rows[0][3].split()[0]) == ("2", f"{100 * expected:.1f}%")


def test_an_unmeasured_run_is_named_and_left_out_of_the_means(sweep, tmp_path, edit_info):
    edit_info(sweep[2], status="failed", error="out of memory")
    (sweep[2] / "evaluation.json").unlink()
    page = write_report(sweep[:3], tmp_path / "out")
    assert table_rows(tmp_path / "out", "Over seeds")[0][1] == "2"
    row = table_rows(tmp_path / "out", "Every run")[2]
    assert (row[3], row[-1]) == ("-", "failed")
    assert "<b>2.</b> This run failed: out of memory. The last logged step is 240." in page.read_text()


def test_runs_that_have_only_begun_can_be_compared(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text('{"status": "running"}')
    page = write_report([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert "2 runs compared" in page.read_text()
    assert "Over seeds" not in page.read_text()


def test_runs_of_equal_name_are_told_apart(tmp_path, make_run):
    runs = [make_run(tmp_path / study / "0") for study in ("first", "second")]
    write_report(runs, tmp_path / "out")
    assert [row[0] for row in table_rows(tmp_path / "out", "Every run")] == ["first/0", "second/0"]


def test_columns_are_those_that_some_run_has_data_for(tmp_path, make_run, make_reward_run, make_dpo_run):
    grpo, reward, dpo = (
        load_run(make(tmp_path / name))
        for name, make in (("grpo", make_run), ("reward", make_reward_run), ("dpo", make_dpo_run))
    )

    def names(*runs):
        return [column.name for column in list_columns(runs)]

    assert names(grpo) == ["baseline", "trained", "difference", "win rate", "reward", "tokens", "KL"]
    assert names(reward) == ["baseline", "trained", "difference"]
    assert names(dpo) == ["implicit", "tokens", "KL"]
    assert names(reward, dpo) == ["baseline", "trained", "difference", "implicit", "tokens", "KL"]


def test_runs_of_different_algorithms_stand_beside_each_other(tmp_path, make_reward_run, make_dpo_run):
    runs = [make_reward_run(tmp_path / "a"), make_dpo_run(tmp_path / "b")]
    html = write_report(runs, tmp_path / "out").read_text()
    rows = table_rows(tmp_path / "out", "Over seeds")
    assert [row[0] for row in rows] == ["algo=reward_model", "algo=dpo loss_type=sigmoid"]
    assert [[cell == "-" for cell in row[2:]] for row in rows] == [[False] * 3 + [True] * 3, [True] * 3 + [False] * 3]
    assert "Mean margin between chosen and rejected in training" in html


def test_losses_are_drawn_over_each_other_for_one_algorithm_only(tmp_path, make_reward_run, make_dpo_run):
    reward, dpo = load_run(make_reward_run(tmp_path / "a")), load_run(make_dpo_run(tmp_path / "b"))
    assert "loss" in [curve.name for curve in list_curves([reward, reward])]
    assert "loss" not in [curve.name for curve in list_curves([reward, dpo])]
