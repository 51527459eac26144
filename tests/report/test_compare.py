import json

import pytest

from rlhf_exp.report import study_table, write_report
from rlhf_exp.report.columns import list_columns
from rlhf_exp.report.curves import list_curves
from rlhf_exp.report.groups import group_runs
from rlhf_exp.runs.load import load_run
from rlhf_exp.stats import DIFFERENCES, SHARES, crossed_interval, mean_interval


@pytest.fixture
def sweep(tmp_path, make_run):
    settings = [(loss_type, seed) for loss_type in ("grpo", "dr_grpo") for seed in (0, 1, 2)]
    return [make_run(tmp_path / str(job), seed, loss_type) for job, (loss_type, seed) in enumerate(settings)]


def trained_accuracy(run_dir):
    return json.loads((run_dir / "evaluation.json").read_text())["trained"]["accuracy"]["value"]


def add_work(path, **counts):
    """What a run counts of its work, as run.json has it."""
    info = json.loads((path / "run.json").read_text())
    names = ("trained_tokens", "train_passes", "score_passes", "reference_passes", "critic_passes", "completions")
    work = dict.fromkeys((*names, "decode_passes"), 0) | {"step_seconds": 120.0} | counts
    info |= {"work": work, "phase_memory_mb": {"load": 600.0, "train": 1000.0}}
    (path / "run.json").write_text(json.dumps(info))


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
        "grpo": 3,
        "dr_grpo": 3,
    }


def test_a_setting_outside_the_main_ones_is_found_in_the_config(sweep):
    for path, beta in ((sweep[0], 0.0), (sweep[1], 0.1)):
        config = json.loads((path / ".hydra" / "config.yaml").read_text())
        config["algo"]["args"]["beta"] = beta
        (path / ".hydra" / "config.yaml").write_text(json.dumps(config))
    assert list(group_runs([load_run(path) for path in sweep[:2]])) == ["beta=0.0", "beta=0.1"]


def test_the_mean_over_seeds_has_an_interval_over_seeds_and_rows(sweep, tmp_path):
    write_report(sweep, tmp_path / "out")
    rows = table_rows(tmp_path / "out", "Results over seeds")
    samples = [[json.loads(line) for line in (path / "samples.jsonl").read_text().splitlines()] for path in sweep[:3]]
    correct = [[s["outcome"] == "correct" for s in of_run if s["which"] == "trained"] for of_run in samples]
    expected = crossed_interval(correct, SHARES)
    assert expected["value"] == pytest.approx(sum(map(trained_accuracy, sweep[:3])) / 3)
    assert rows[0][:2] == ["grpo", "3"]
    bounds = f"[{100 * expected['low']:.1f}, {100 * expected['high']:.1f}]"
    assert rows[0][3] == f"{100 * expected['value']:.1f}% {bounds}"


def test_every_run_has_a_row_and_the_page_holds_the_curves(sweep, tmp_path, drawn):
    page = write_report(sweep, tmp_path / "out")
    assert [row[0] for row in table_rows(tmp_path / "out", "Every run")] == ["0", "1", "2", "3", "4", "5"]
    assert page.read_text().count("data:image/png;base64,") == 7
    assert "Shared by all: algo=grpo, task=countdown, model=tiny, max_tokens=64." in page.read_text()


def test_names_and_tags_stand_beside_the_runs_that_have_them(sweep, tmp_path, edit_info):
    edit_info(sweep[0], name="my-run", tags=["a", "b"])
    write_report(sweep, tmp_path / "out")
    rows = table_rows(tmp_path / "out", "Every run")
    assert [row[1:3] for row in rows][:2] == [["my-run", "a,b"], ["-", "-"]]


def test_one_seed_has_no_interval(sweep, tmp_path):
    write_report([sweep[0], sweep[3]], tmp_path / "out")
    rows = table_rows(tmp_path / "out", "Results over seeds")
    assert [row[1] for row in rows] == ["1", "1"]
    assert rows[0][3] == f"{100 * trained_accuracy(sweep[0]):.1f}%"


def test_a_seed_run_twice_counts_once(sweep, tmp_path, edit_info):
    edit_info(sweep[1], seed=0)
    write_report(sweep[:3], tmp_path / "out")
    rows = table_rows(tmp_path / "out", "Results over seeds")
    expected = mean_interval([trained_accuracy(path) for path in sweep[1:3]])["value"]
    assert (rows[0][1], rows[0][3].split()[0]) == ("2", f"{100 * expected:.1f}%")


def test_an_unmeasured_run_is_named_and_left_out_of_the_means(sweep, tmp_path, edit_info):
    edit_info(sweep[2], status="failed", error="out of memory")
    (sweep[2] / "evaluation.json").unlink()
    page = write_report(sweep[:3], tmp_path / "out")
    assert table_rows(tmp_path / "out", "Results over seeds")[0][1] == "2"
    row = table_rows(tmp_path / "out", "Every run")[2]
    assert (row[3], row[-1]) == ("-", "failed")
    assert "<b>2.</b> This run failed: out of memory. The last logged step is 240." in page.read_text()


def test_runs_that_have_only_begun_can_be_compared(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text('{"status": "running"}')
    page = write_report([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert "2 runs compared" in page.read_text()
    assert "Results over seeds" not in page.read_text()


def test_runs_of_equal_name_are_named_by_where_their_paths_part(tmp_path, make_run):
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
    pairs = ["pairs, baseline", "pairs, trained", "pairs, difference"]
    assert names(reward) == pairs
    assert names(dpo) == ["implicit", "tokens", "KL"]
    assert names(reward, dpo) == [*pairs, "implicit", "tokens", "KL"]
    assert names(reward, grpo)[:4] == ["baseline", "trained", "difference", pairs[0]]


def test_runs_of_different_algorithms_stand_beside_each_other(tmp_path, make_reward_run, make_dpo_run):
    runs = [make_reward_run(tmp_path / "a"), make_dpo_run(tmp_path / "b")]
    html = write_report(runs, tmp_path / "out").read_text()
    rows = table_rows(tmp_path / "out", "Results over seeds")
    assert [row[0] for row in rows] == ["reward_model", "dpo"]
    assert [[cell == "-" for cell in row[2:]] for row in rows] == [[False] * 3 + [True] * 3, [True] * 3 + [False] * 3]
    assert "Mean margin between chosen and rejected in training" in html


def test_losses_are_drawn_over_each_other_for_one_algorithm_only(tmp_path, make_reward_run, make_dpo_run):
    reward, dpo = load_run(make_reward_run(tmp_path / "a")), load_run(make_dpo_run(tmp_path / "b"))
    assert "loss" in [curve.name for curve in list_curves([reward, reward])]
    assert "loss" not in [curve.name for curve in list_curves([reward, dpo])]


def test_every_outcome_of_a_graded_task_stands_beside_its_accuracy(sweep, tmp_path):
    write_report(sweep, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    head = "| setting | seeds | baseline | trained | difference | correct | partial | failed | tokens | budget used |"
    assert head in text
    counts = [json.loads((path / "evaluation.json").read_text())["trained"]["counts"]["correct"] for path in sweep[:3]]
    found = table_rows(tmp_path / "out", "Results over seeds")[0][5]
    assert found.split()[0] == f"{sum(counts) / 3:.1f}"


def test_a_start_model_measured_once_keeps_its_own_interval_and_stands_beside_the_settings(sweep, tmp_path, drawn):
    first = json.loads((sweep[0] / "evaluation.json").read_text())["baseline"]
    for path in sweep:
        evaluation = json.loads((path / "evaluation.json").read_text())
        (path / "evaluation.json").write_text(json.dumps(evaluation | {"baseline": first}))
    write_report(sweep, tmp_path / "out")
    accuracy = first["accuracy"]
    written = f"{100 * accuracy['value']:.1f}% [{100 * accuracy['low']:.1f}, {100 * accuracy['high']:.1f}]"
    assert table_rows(tmp_path / "out", "Results over seeds")[0][2] == written
    start = table_rows(tmp_path / "out", "Reward and KL to the start model")[0]
    assert start[:4] == ["start model", "-", written, "-"]
    assert (tmp_path / "out" / "plots" / "plane.png").exists()


def test_settings_that_do_not_differ_significantly_are_named(tmp_path, make_run):
    gains = {"grpo": 0.3, "dr_grpo": 0.3, "bnpo": -0.15}
    runs = [make_run(tmp_path / f"{loss}{i}", i, loss, gain) for loss, gain in gains.items() for i in range(3)]
    write_report(runs, tmp_path / "out")
    rows = {row[0]: row for row in table_rows(tmp_path / "out", "Which settings differ significantly")}
    assert list(rows) == [
        "grpo - start model", "dr_grpo - start model", "bnpo - start model", "dr_grpo - grpo", "dr_grpo - bnpo",
    ]  # fmt: skip
    assert rows["dr_grpo - grpo"][4] == "not significant" and rows["dr_grpo - grpo"][5] != "-"
    assert rows["dr_grpo - bnpo"][4] == "significant" and rows["dr_grpo - bnpo"][6:] == ["-", "-"]
    text = (tmp_path / "out" / "report.md").read_text()
    said = "In held-out accuracy these do not differ significantly (p \\< 0.05): "
    sentence = next(line for line in text.splitlines() if said in line)
    assert "dr_grpo and grpo" in sentence and "dr_grpo and bnpo" not in sentence


def test_work_is_reported_per_update(sweep, tmp_path):
    for path in sweep[:3]:
        add_work(path, trained_tokens=400_000, completions=240 * 128, train_passes=240 * 128, decode_passes=240 * 5000)
    write_report(sweep[:3], tmp_path / "out")
    cost, passes = (table_rows(tmp_path / "out", title)[0] for title in ("Cost", "Forward passes per update"))
    assert cost[2:] == ["240", "400,000", "2,457,600", "120", "0.50", "1,000"]
    assert passes[2:] == ["128.0", "128.0", "0.0", "0.0", "0.0", "5,000"]


def test_a_reward_models_pairs_share_no_column_with_a_tasks_answers(tmp_path, make_run, make_reward_run):
    write_report([make_run(tmp_path / "a"), make_reward_run(tmp_path / "b")], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| pairs, baseline | pairs, trained | pairs, difference | correct |" in text
    rows = {row[0].split()[0]: row for row in table_rows(tmp_path / "out", "Results over seeds")}
    assert [cell == "-" for cell in rows["reward_model"][2:9]] == [True] * 3 + [False] * 3 + [True]
    assert [cell == "-" for cell in rows["grpo"][2:9]] == [False] * 3 + [True] * 3 + [False]


def test_one_seed_speaks_of_no_intervals_that_are_not_there(sweep, tmp_path):
    assert study_table([sweep[0], sweep[3]]).splitlines()[-1] == "One seed for each setting: no intervals."
    several = study_table(sweep)
    assert "In brackets: 95% intervals over seeds, held-out rows and sampling." in several.splitlines()
    assert "In held-out accuracy these do not differ significantly (p < 0.05): " in several
    write_report([sweep[0], sweep[3]], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "Means over seeds with 95% intervals" not in text
    assert "One seed for each setting: no interval over seeds; the baseline's is over the held-out rows." in text


def test_the_terminal_has_the_main_figures_over_seeds(sweep):
    lines = study_table(sweep).splitlines()
    assert lines[0].split() == ["setting", "seeds", "trained", "difference", "win", "rate", "reward", "KL"]
    assert [line.split()[:2] for line in lines[1:3]] == [["grpo", "3"], ["dr_grpo", "3"]]


def test_settings_that_ended_before_their_training_tokens_are_named(sweep, tmp_path):
    for place, path in enumerate(sweep):
        add_work(path, trained_tokens=800 + 100 * place)
        config = json.loads((path / ".hydra" / "config.yaml").read_text())
        (path / ".hydra" / "config.yaml").write_text(json.dumps(config | {"train_tokens": 1000}))
    write_report(sweep, tmp_path / "out")
    wanted = "grpo ended at max_steps before train_tokens=1,000, with 80% of them at least"
    text = (tmp_path / "out" / "report.md").read_text()
    assert wanted in text and "dr_grpo ended" not in text
    assert wanted in " ".join(study_table(sweep).split())
    for path in sweep:
        add_work(path, trained_tokens=1000)
    assert "ended at max_steps" not in study_table(sweep)


def add_policies(path, accuracy=0.4, validation=(0.3, 0.4)):
    """The best policies of two families, as evaluation.json has them; the second one is better on validation rows."""
    evaluation = json.loads((path / "evaluation.json").read_text())
    trained, tokens = evaluation["trained"]["accuracy"]["value"], evaluation["baseline"]["mean_tokens"]
    evaluation["baselines"] = {
        family: {
            "policy": policy,
            "n": 128,
            "accuracy": {"value": value, "low": value - 0.05, "high": value + 0.05},
            "mean_tokens": tokens,
            "validation": {policy: there},
            "trained_minus": {"value": trained - value, "low": -1.0, "high": 1.0},
        }
        for (family, policy, value), there in zip(
            (("temperature", "0.5", 0.3), ("rule", "rule of signs", accuracy)), validation, strict=True
        )
    }
    (path / "evaluation.json").write_text(json.dumps(evaluation))


def test_trivial_policies_that_all_settings_share_stand_beside_them_once(sweep, tmp_path):
    for path in sweep:
        add_policies(path)
    write_report(sweep, tmp_path / "out")
    rows = table_rows(tmp_path / "out", "Trivial policies")
    assert [row[0] for row in rows] == ["start model", "temperature: 0.5", "rule of signs", "grpo", "dr_grpo"]
    assert rows[2][1] == "40.0% [35.0, 45.0]"
    lead = sum(trained_accuracy(path) for path in sweep[:3]) / 3 - 0.4
    assert rows[3][3] == f"{100 * lead:+.1f}"
    text = (tmp_path / "out" / "report.md").read_text()
    assert text.count("temperature: 0.5") == 1 and "The best policy on validation rows: rule of signs." in text


def test_the_best_policy_is_chosen_on_validation_rows(sweep, tmp_path):
    for path in sweep:
        add_policies(path, accuracy=0.28)
    write_report(sweep, tmp_path / "out")
    assert "The best policy on validation rows: rule of signs." in (tmp_path / "out" / "report.md").read_text()
    lead = sum(trained_accuracy(path) for path in sweep[:3]) / 3 - 0.28
    assert table_rows(tmp_path / "out", "Trivial policies")[3][3] == f"{100 * lead:+.1f}"


def test_the_lead_over_the_best_policy_has_an_interval_over_seeds_and_rows(sweep, tmp_path):
    sides = []
    for path in sweep:
        add_policies(path)
        samples = [json.loads(line) for line in (path / "samples.jsonl").read_text().splitlines()]
        correct = {which: {s["id"]: float(s["outcome"] == "correct") for s in samples if s["which"] == which}
                   for which in ("baseline", "trained")}  # fmt: skip
        rows = {"family": "rule", "policy": "rule of signs", "id": list(correct["baseline"]),
                "accuracy": list(correct["baseline"].values())}  # fmt: skip
        (path / "policies.jsonl").write_text(json.dumps(rows) + "\n")
        sides.append([correct["trained"][name] - correct["baseline"][name] for name in correct["baseline"]])
    write_report(sweep, tmp_path / "out")
    lead = crossed_interval(sides[:3], DIFFERENCES)
    cells = [f"{100 * lead[side]:+.1f}" for side in ("value", "low", "high")]
    assert table_rows(tmp_path / "out", "Trivial policies")[3][3] == f"{cells[0]} [{cells[1]}, {cells[2]}]"


def test_settings_of_other_start_models_have_tables_of_their_own(sweep, tmp_path):
    for place, path in enumerate(sweep):
        add_policies(path, 0.4 if place < 3 else 0.35)
    write_report(sweep, tmp_path / "out")
    assert (tmp_path / "out" / "report.md").read_text().count("temperature: 0.5") == 2
