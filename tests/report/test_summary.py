import json
import math

import pytest

from rlhf_exp.report import write_report
from rlhf_exp.report.summary import list_figures, summary_rows
from rlhf_exp.runs.figures import percent, points
from rlhf_exp.runs.load import load_run


def rows_of(run_dir):
    return {row[0]: row[1:] for row in summary_rows(load_run(run_dir))}


def test_several_completions_and_both_readings_have_their_rows(tmp_path, make_run):
    assert list(rows_of(make_run(tmp_path / "run", completions=4))) == [
        "accuracy, strict", "accuracy, lenient", "greedy accuracy, strict", "greedy accuracy, lenient", "pass@2",
        "pass@4", "majority@4", "correct / partial / failed", "mean tokens", "greedy mean tokens", "budget used",
        "truncated", "reward", "KL", "distinct-1 / -2",
    ]  # fmt: skip


def test_what_was_not_measured_on_either_side_has_no_row(dpo_dir):
    rows = rows_of(dpo_dir)
    assert list(rows) == ["pair accuracy", "mean tokens", "budget used", "truncated", "KL", "distinct-1 / -2"]


def test_the_kl_of_other_sampling_has_a_row_and_a_note_of_its_own(run_dir):
    path = run_dir / "evaluation.json"
    assert "KL as sampled" not in rows_of(run_dir)
    evaluation = json.loads(path.read_text())
    for which, value in (("baseline", 0.0), ("trained", 1.69)):
        mean = {"value": value, "low": value, "high": value}
        evaluation[which]["kl_sampled"] = {"mean": mean, "std": 0.0, "outside": mean}
    path.write_text(json.dumps(evaluation))
    assert [cell.split()[0] for cell in rows_of(run_dir)["KL as sampled"][:2]] == ["0.00", "1.69"]
    write_report([run_dir], run_dir)
    [note] = [figure.note for figure in list_figures(load_run(run_dir)) if figure.name == "KL as sampled"]
    assert note and note in (run_dir / "report.md").read_text()


def test_a_reward_model_has_its_own_rows(reward_dir):
    rows = rows_of(reward_dir)
    assert list(rows) == [
        "accuracy", "correct / tied / wrong", "loss", "margin", "calibration error", "reward", "reward std",
    ]  # fmt: skip
    section = json.loads((reward_dir / "evaluation.json").read_text())["trained"]
    assert rows["correct / tied / wrong"][1] == " / ".join(str(n) for n in section["counts"].values())
    assert rows["loss"][1].startswith(f"{section['loss']['value']:.3f} [")
    assert rows["calibration error"] == [rows["calibration error"][0], f"{section['calibration_error']:.3f}", ""]


def test_the_difference_in_loss_is_the_one_of_the_two_losses(reward_dir):
    evaluation = json.loads((reward_dir / "evaluation.json").read_text())
    change = evaluation["trained"]["loss"]["value"] - evaluation["baseline"]["loss"]["value"]
    assert float(rows_of(reward_dir)["loss"][2].split()[0]) == pytest.approx(change, abs=5e-4)


def test_differences_are_those_of_evaluation_json_and_a_dash_where_an_older_folder_has_none(run_dir):
    path = run_dir / "evaluation.json"
    evaluation = json.loads(path.read_text())
    evaluation["paired"]["mean_tokens"] = {"value": 2.0, "low": 1.5, "high": 2.5}
    del evaluation["paired"]["truncation_rate"], evaluation["paired"]["changes"]
    path.write_text(json.dumps(evaluation))
    (run_dir / "samples.jsonl").unlink()
    rows = rows_of(run_dir)
    assert rows["mean tokens"][2] == "+2.0 [+1.5, +2.5]"
    assert (rows["truncated"][2], rows["KL"][2]) == ("-", "")
    del evaluation["paired"]
    path.write_text(json.dumps(evaluation))
    assert [rows_of(run_dir)[name][2] for name in ("accuracy", "mean tokens", "reward")] == ["-", "-", "-"]


def test_a_bound_just_below_zero_is_zero():
    assert percent({"value": 0.0, "low": -1e-17, "high": 0.434}) == "0.0% [0.0, 43.4]"
    assert points({"value": -1e-9, "low": -0.01, "high": 0.01}) == "+0.0 [-1.0, +1.0]"


def test_the_held_out_loss_of_dpo_and_its_pairs_have_rows_and_a_note(dpo_dir):
    path = dpo_dir / "evaluation.json"
    evaluation = json.loads(path.read_text())
    ln_2 = {"value": math.log(2), "low": math.log(2), "high": math.log(2)}
    evaluation["baseline"] |= {"loss": ln_2, "preference": {"accuracy": {"value": 0.5, "low": 0.5, "high": 0.5}}}
    evaluation["trained"]["loss"] = {"value": 0.6, "low": 0.55, "high": 0.65}
    evaluation["paired"] = {"loss": {"value": -0.0931, "low": -0.1431, "high": -0.0431}}
    path.write_text(json.dumps(evaluation))
    rows = rows_of(dpo_dir)
    assert rows["held-out loss"] == ["0.693", "0.600 [0.550, 0.650]", "-0.093 [-0.143, -0.043]"]
    assert rows["pair accuracy"][0] == "50.0%"
    report = write_report([dpo_dir], dpo_dir).with_suffix(".md").read_text()
    assert "before training it is ln 2, and every pair a tie; its intervals, that of the difference too, are" in report


@pytest.mark.parametrize(
    ("baseline", "note"),
    [
        ({"loss_left_out": "with algo.args.loss_type=[ipo] it is not the training loss"},
         "Held-out loss is left out: with algo.args.loss_type=[ipo] it is not the training loss."),
        ({"loss": {"value": 1.0, "low": 0.9, "high": 1.1}, "loss_rows": {"scored": 5, "left_out": 3}},
         "are Student's t. 3 rows are not in it: their prompts fill algo.args.max_length."),
    ],
)  # fmt: skip
def test_the_report_says_why_a_held_out_loss_or_some_of_its_rows_are_left_out(run_dir, edit_info, baseline, note):
    edit_info(run_dir, algo="sft")
    path = run_dir / "evaluation.json"
    evaluation = json.loads(path.read_text())
    evaluation["baseline"] |= baseline
    path.write_text(json.dumps(evaluation))
    assert note in write_report([run_dir], run_dir).with_suffix(".md").read_text()
