"""The report and the terminal's table of one run, where the golden ones (test_golden.py) do not go."""

import json
import shutil

import pytest

from rlhf_exp.analysis.report import terminal_table, write_report
from rlhf_exp.analysis.report.curves import CURVES, list_curves
from rlhf_exp.analysis.report.page import Widget
from rlhf_exp.analysis.report.progress import describe_progress
from rlhf_exp.analysis.report.samples import KINDS, describe_samples
from rlhf_exp.analysis.report.single import describe_sets
from rlhf_exp.analysis.report.summary import list_changes, summary_table, verdict
from rlhf_exp.runs.figures import percent, points
from rlhf_exp.runs.files import write_jsonl
from rlhf_exp.runs.load import load_run
from tests.analysis.report.conftest import GOLDEN

SECTIONS = ("baseline", "trained", "paired")


def rows_of(run_dir):
    return {row[0]: row[1:] for row in summary_table(load_run(run_dir)).rows}


def test_the_same_run_gives_the_same_report_and_every_plot(run_dir, drawn):
    first = write_report([run_dir], run_dir).read_bytes()
    assert write_report([run_dir], run_dir).read_bytes() == first
    plots = {"components", "entropy", "kl", "length", "optimizer", "outcomes", "progress", "reward"}
    assert {path.stem for path in (run_dir / "plots").iterdir()} == plots | {"validation"}
    assert first.count(b"data:image/png;base64,") == len(plots) + 1


def test_one_logged_step_and_non_finite_metrics_can_be_drawn(run_dir, drawn):
    row = {"step": 1, "reward": float("nan"), "kl": float("inf"), "entropy": 0.5, "outcome/correct": 0.5,
           "outcome/partial": 0.5, "outcome/failed": 0.0, "completions/mean_length": 3.0}  # fmt: skip
    (run_dir / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    write_report([run_dir], run_dir)
    assert (run_dir / "plots" / "length.png").exists()


@pytest.mark.parametrize("status", ["running", "failed", "stopped"])
def test_a_folder_with_nothing_but_a_status_gets_a_report(tmp_path, status):
    (tmp_path / "run.json").write_text(json.dumps({"status": status}))
    write_report([tmp_path], tmp_path / "out")
    assert status in terminal_table(tmp_path)


def test_what_was_not_measured_or_is_not_finite_is_a_dash(run_dir, edit):
    edit(run_dir, "evaluation.json", {"trained.kl.mean": {"value": None, "low": None, "high": None}})
    assert rows_of(run_dir)["KL"] == ["0.00", "-", ""]
    edit(run_dir, "evaluation.json", {"paired": ..., "trained": ...})
    assert rows_of(run_dir)["accuracy"][1:] == ["-", "-"]


def test_a_bound_just_below_zero_is_zero():
    assert percent({"value": 0.0, "low": -1e-17, "high": 0.434}) == "0.0% [0.0, 43.4]"
    assert points({"value": -1e-9, "low": -0.01, "high": 0.01}) == "+0.0 [-1.0, +1.0]"


def test_the_kl_in_the_loss_of_kto_is_not_drawn_as_one_per_token(run_dir, edit_info):
    def list_keys():
        curves = list_curves([load_run(run_dir)], CURVES)
        return {key for curve in curves for keys in curve.units.values() for key in keys}

    assert {"probe/kl", "kl"} <= list_keys()
    edit_info(run_dir, algo="kto", loss_type="kto")
    assert "probe/kl" in list_keys() and "kl" not in list_keys()


NAN = float("nan")


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [(0.05, 0.2, "ok"), (-0.2, -0.05, "error"), (-0.1, 0.1, "info"), (None, None, "info"), (NAN, NAN, "info")],
)
def test_the_verdict_follows_the_interval(run_dir, edit, low, high, kind):
    edit(run_dir, "evaluation.json", {"paired.difference": {"value": 0.0, "low": low, "high": high}})
    assert verdict(load_run(run_dir)).kind == kind


@pytest.mark.parametrize("measured", ["win rate", "implicit reward"])
@pytest.mark.parametrize(("low", "high", "kind"), [(0.55, 0.65, "ok"), (0.45, 0.55, "info"), (0.35, 0.45, "error")])
def test_without_a_grader_win_rate_or_implicit_reward_decide(dpo_dir, edit, measured, low, high, kind):
    rate = {"value": (low + high) / 2, "low": low, "high": high}
    if measured == "win rate":
        edit(dpo_dir, "evaluation.json", paired={"n": 128, "win_rate": rate, "wins": 60, "losses": 50, "ties": 18})
        begin = "By reward the trained model wins "
    else:
        edit(dpo_dir, "evaluation.json", {"trained.preference.accuracy": rate, "paired.win_rate": ...})
        begin = "The implicit reward puts the chosen answer first "
    found = verdict(load_run(dpo_dir))
    assert found.kind == kind and found.title.startswith(begin)
    assert f"{50 * (low + high):.1f}% [{100 * low:.1f}, {100 * high:.1f}]" in found.title


def test_what_else_changed_has_the_intervals_of_the_table(run_dir, edit):
    edit(run_dir, "evaluation.json", {"paired.mean_tokens": {"value": -5.0, "low": -6.0, "high": -4.0}})
    [told] = [fact.text for fact in list_changes(load_run(run_dir)) if "tokens" in fact.title]
    assert told == "is the mean length of a completion (-5.0 [-6.0, -4.0])"


def test_no_measurable_change_comes_with_what_the_rows_could_have_shown(run_dir, edit):
    edit(run_dir, "evaluation.json", {"paired.difference": {"value": 0.02, "low": -0.01, "high": 0.05}})
    # 3 points * (1 + 0.8416 / 1.9600) = 4.29; 24 rows * (4.29 / 2)^2 = 110.4
    shown = "So many rows show a difference of 4.3 points in 4 of 5 such runs"
    assert verdict(load_run(run_dir)).text.startswith(f"{shown}; the observed one takes 111 rows. Without training ")
    edit(run_dir, "evaluation.json", {"paired.difference.value": 0.0})
    assert verdict(load_run(run_dir)).text.startswith(f"{shown}. Without")


@pytest.mark.parametrize("names", [["grpo"], ["reward_model"], ["dpo"], ["grpo", "grpo_seed1"]])
def test_with_samples_false_a_report_holds_no_text_and_says_so(tmp_path, names):
    runs = [shutil.copytree(GOLDEN / name, tmp_path / name) for name in names]
    with (runs[0] / ".hydra" / "config.yaml").open("a") as file:
        file.write("report: {samples: false}\n")
    write_report(runs, tmp_path / "out")
    page = (tmp_path / "out" / "report.md").read_text()
    assert "All prompts and completions are left out: report.samples=false." in page
    assert "### Better" not in page and "Words of" not in page
    for run in map(load_run, runs):
        rows = [one.model_dump() for one in (*run.samples, *run.errors.shown)]
        texts = {row[key].strip() for row in rows for key in ("prompt", "completion", "chosen") if key in row}
        assert texts and not [text for text in texts if len(text) > 5 and text in page]


BETTER, WORSE, SAME = (title for title, _ in (KINDS["better"], KINDS["worse"], KINDS["neither"]))


@pytest.mark.parametrize(
    ("key", "baseline", "trained", "titles"),
    [
        ("outcome", "pppcccpcp", "ccccpppcp", {BETTER: [0, 1, 2], WORSE: [4, 5], SAME: [3, 6]}),
        ("reward", [1, 1, 1, 2, 2, 2, 3, 0], [1, 2, 2, 1, 1, 1, 4, 0],
         {BETTER: [1, 2, 6], WORSE: [3, 4], SAME: [0, 7]}),
        (None, [0] * 9, [0] * 9, {SAME: [0, 1]}),
    ],
)  # fmt: skip
def test_samples_are_the_first_of_each_kind_in_the_order_of_the_rows(run_dir, key, baseline, trained, titles):
    """By whether they are correct; without a grader by their rewards; else in order."""
    samples = [
        {"which": which, "id": f"row {row}", "sample": 0, "decoding": "sampled", "prompt": f"{row}", "completion": "c",
         "tokens": 1, "truncated": False} | ({key: {"c": "correct", "p": "partial"}.get(value, value)} if key else {})
        for which, values in (("baseline", baseline), ("trained", trained)) for row, value in enumerate(values)
    ]  # fmt: skip
    write_jsonl(run_dir / "samples.jsonl", samples)
    [widget] = [block for block in describe_samples(load_run(run_dir)) if isinstance(block, Widget)]
    shown = [(pair.title, int(pair.prompt)) for pair in widget.instead]
    assert shown == [(title, row) for title, rows in titles.items() for row in rows]


def test_the_picture_of_a_run_has_its_measurements_its_start_and_end_and_what_takes_no_training(run_dir, edit_info):
    edit_info(run_dir, best=None)
    [widget] = describe_progress(load_run(run_dir))
    [chart], [shown] = widget.content["charts"], widget.content["runs"]
    validation, sides, untrained = (shown["rows"][key] for key, *_ in chart["series"])
    assert [style for *_, style in chart["series"]] == [
        {"colour": 0, "band": 1}, {"colour": 6, "dots": 1}, {"colour": 1, "dash": 1}
    ]  # fmt: skip
    assert len(shown["rows"]["step"]) == len(validation) > 2 and None not in validation
    assert (sides[0], sides[-1], {*sides[1:-1]}) == (10.42, 14.58, {None})
    assert (untrained[0], untrained[-1]) == (16.67, 16.67)
    assert chart["caption"].endswith("intervals; the validation rows are none of the held-out rows")
    run = load_run(run_dir)
    run.validation[0].id[0] = run.samples[0].id
    [widget] = describe_progress(run)
    assert widget.content["charts"][0]["caption"].endswith("intervals")


def test_a_run_has_one_table_of_its_evaluation_sets(run_dir, edit):
    assert describe_sets(load_run(run_dir)) == []
    section = {which: json.loads((run_dir / "evaluation.json").read_text())[which] for which in SECTIONS}
    alone = {"baseline": {name: value for name, value in section["baseline"].items() if name != "accuracy"}}
    edit(run_dir, "evaluation.json", sets={"far": section, "gold": alone})
    _, table = describe_sets(load_run(run_dir))
    assert [row[:2] for row in table.rows] == [["far", "accuracy"], ["far", "reward"], ["gold", "reward"]]
    assert table.rows[0][2:] == [
        str(section["baseline"]["n"]), *(percent(section[which]["accuracy"]) for which in SECTIONS[:2]),
        points(section["paired"]["difference"]),
    ]  # fmt: skip
    assert table.rows[2][4:] == ["-", "-"]
    line = (run_dir / "samples.jsonl").read_text().splitlines()[0]
    with (run_dir / "samples.jsonl").open("a") as file:
        file.write(json.dumps(json.loads(line) | {"set": "far"}) + "\n")
    assert len(load_run(run_dir).set_samples) == 1 and not any("set" in one for one in load_run(run_dir).samples)
