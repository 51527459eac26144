import json
import re

import pytest

from rlhf_exp.report import write_report
from rlhf_exp.report.curves import list_curves
from rlhf_exp.report.terminal import terminal_table
from rlhf_exp.runs.load import load_run

PLOTS = {"accuracy", "entropy", "kl", "length", "optimizer", "outcomes", "reward"}


def edit_samples(run_dir, edit):
    rows = [json.loads(line) for line in (run_dir / "samples.jsonl").read_text().splitlines()]
    for row in rows:
        edit(row)
    (run_dir / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_run_gets_its_report_and_every_plot(run_dir, drawn):
    page = write_report([run_dir], run_dir)
    html, markdown = page.read_text(), (run_dir / "report.md").read_text()
    assert {path.stem for path in (run_dir / "plots").iterdir()} == PLOTS
    assert html.count("data:image/png;base64,") == len(PLOTS)
    assert set(re.findall(r"\(plots/(\w+)\.png\)", markdown)) == PLOTS
    for text in (html, markdown):
        assert "python -m rlhf_exp algo=grpo task=countdown loss_type=grpo seed=0" in text
        assert "Held-out accuracy rose" in text
    assert not re.search(r"<script|<link|src=.http|url\(", html)


def test_the_same_run_gives_the_same_report(run_dir, drawn):
    first = write_report([run_dir], run_dir).read_bytes()
    assert write_report([run_dir], run_dir).read_bytes() == first


def test_the_table_of_changes_is_that_of_evaluation_json(run_dir):
    changes = {"partial": {"correct": 100, "partial": 27, "failed": 1}}
    evaluation = json.loads((run_dir / "evaluation.json").read_text())
    evaluation["paired"]["changes"] |= changes
    (run_dir / "evaluation.json").write_text(json.dumps(evaluation))
    write_report([run_dir], run_dir)
    assert "| partial before | 100 | 27 | 1 |" in (run_dir / "report.md").read_text()


def test_what_the_user_calls_the_run_stands_in_its_title(run_dir, edit_info):
    edit_info(run_dir, name="my-run", tags=["a", "b"])
    write_report([run_dir], run_dir)
    text = (run_dir / "report.md").read_text()
    assert text.startswith("# my-run: grpo on countdown\n") and "seed=0 name=my-run tags=a,b: finished" in text


def test_a_hostile_completion_stays_text(run_dir):
    hostile = "</pre><script>alert(1)</script> ``` <img src=http://example.org/x.png>"
    edit_samples(run_dir, lambda row: row.update(completion=hostile, prompt=hostile))
    html = write_report([run_dir], run_dir).read_text()
    assert "<script" not in html
    assert "<img src=http" not in html
    assert "````text\n</pre><script>" in (run_dir / "report.md").read_text()


def test_findings_stand_in_the_report(run_dir):
    finding = {"name": "kl_drift", "severity": "warning", "steps": [100, 240], "evidence": "KL reaches 1.50",
               "cause": "beta is low", "remedy": "algo.args.beta=0.1"}  # fmt: skip
    (run_dir / "diagnosis.json").write_text(json.dumps({"findings": [finding], "health": "warning"}))
    html = write_report([run_dir], run_dir).read_text()
    assert '<div class="callout warning"><b>Warning: kl drift, steps 100 to 240.</b> KL reaches 1.50.' in html
    assert "<code>algo.args.beta=0.1</code>" in html


def test_a_failed_run_without_measurements_still_gets_a_report(run_dir, edit_info):
    edit_info(run_dir, status="failed", error="loss is nan at step 120")
    for name in ("evaluation.json", "samples.jsonl", "diagnosis.json", "metrics.jsonl"):
        (run_dir / name).unlink()
    html = write_report([run_dir], run_dir).read_text()
    for sentence in (
        "This run failed: loss is nan at step 120. No step was logged.",
        "Held-out accuracy after training was not measured.",
        "The run was not diagnosed.",
        "No training metrics were logged.",
        "No samples from before and after were recorded.",
    ):
        assert sentence in html


@pytest.mark.parametrize("status", ["running", "failed", "stopped"])
def test_a_folder_with_nothing_but_a_status_gets_a_report(tmp_path, status):
    (tmp_path / "run.json").write_text(json.dumps({"status": status}))
    assert write_report([tmp_path], tmp_path / "out") == tmp_path / "out" / "report.html"


def test_one_logged_step_and_non_finite_metrics_can_be_drawn(run_dir, drawn):
    row = {"step": 1, "reward": float("nan"), "kl": float("inf"), "entropy": 0.5, "outcome/correct": 0.5,
           "outcome/partial": 0.5, "outcome/failed": 0.0, "completions/mean_length": 3.0}  # fmt: skip
    (run_dir / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    write_report([run_dir], run_dir)
    assert (run_dir / "plots" / "length.png").exists()


def test_a_reward_model_gets_its_report(reward_dir, drawn):
    html = write_report([reward_dir], reward_dir).read_text()
    assert {path.stem for path in (reward_dir / "plots").iterdir()} == {
        "accuracy", "calibration", "loss", "margin", "optimizer", "pair_accuracy", "scores",
    }  # fmt: skip
    for text in ("Held-out preference accuracy rose", "under the untrained head", "<h2>Data</h2>"):
        assert text in html
    assert "<h2>Samples before" not in html
    assert "| dropped, equal answers | 0 | 7 | 7 |" in (reward_dir / "report.md").read_text()
    assert "duplicate" not in html


def test_the_kl_in_the_loss_of_kto_is_not_drawn_as_one_per_token(dpo_dir, run_dir, edit_info):
    def list_keys(folder):
        return {key for curve in list_curves([load_run(folder)]) for keys in curve.units.values() for key in keys}

    edit_info(dpo_dir, algo="kto", loss_type="kto")
    assert {"probe/kl", "kl"} <= list_keys(run_dir)
    assert "probe/kl" in list_keys(dpo_dir) and "kl" not in list_keys(dpo_dir)


def test_a_policy_without_a_grader_gets_its_report(dpo_dir, drawn):
    html = write_report([dpo_dir], dpo_dir).read_text()
    assert {path.stem for path in (dpo_dir / "plots").iterdir()} == {
        "calibration", "entropy", "implicit_rewards", "kl", "logps", "loss", "margin", "optimizer", "pair_accuracy",
        "token_accuracy",
    }  # fmt: skip
    assert "algo=dpo loss_type=sigmoid task=hh_rlhf" in html
    for text in (
        "The implicit reward puts the chosen answer first",
        "<h2>Samples before",
        "<h2>Held-out preference pairs</h2>",
    ):
        assert text in html
    assert "correct / partial / failed" not in html


def test_sft_shows_its_loss_and_token_accuracy(run_dir, edit_info, drawn):
    edit_info(run_dir, algo="sft")
    rows = [{"step": step, "loss": 1 / step, "mean_token_accuracy": 0.5} for step in (1, 2, 3)]
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_report([run_dir], run_dir)
    assert {path.stem for path in (run_dir / "plots").iterdir()} == {"accuracy", "loss", "token_accuracy"}


def test_ppo_shows_its_own_series_and_every_reward_its_component(run_dir, edit_info, drawn):
    edit_info(run_dir, algo="ppo")
    names = ("loss", "learning_rate", "grad_norm", "ppo/critic_grad_norm", "ppo/value_loss", "ppo/explained_variance",
             "ppo/kl", "rewards/outcome/mean", "rewards/brevity/mean")  # fmt: skip
    rows = [{"step": step, **dict.fromkeys(names, 0.1 * step)} for step in (1, 2, 3)]
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    html = write_report([run_dir], run_dir).read_text()
    assert {path.stem for path in (run_dir / "plots").iterdir()} == {"accuracy", "optimizer", "ppo", "components"}
    assert "Rewards in training, each before its weight" in html


def test_a_reward_alone_has_no_components(run_dir):
    rows = [{"step": step, "rewards/outcome/mean": 0.1} for step in (1, 2)]
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_report([run_dir], run_dir)
    assert {path.stem for path in (run_dir / "plots").iterdir()} == {"accuracy"}


POLICIES = {
    "words forbidden": {
        "policy": "give forbidden", "n": 128, "accuracy": {"value": 0.34, "low": 0.3, "high": 0.38},
        "mean_tokens": {"value": 60, "low": 58, "high": 62}, "truncation_rate": {"value": 0.2, "low": 0.1, "high": 0.3},
        "validation": {"give forbidden": 0.35, "check forbidden": 0.2},
        "trained_minus": {"value": 0.1, "low": 0.04, "high": 0.16},
    },
    "greedy": {
        "policy": "greedy", "n": 128, "accuracy": {"value": 0.1, "low": 0.06, "high": 0.14},
        "mean_tokens": {"value": 50, "low": 49, "high": 51}, "truncation_rate": {"value": 0.0, "low": 0.0, "high": 0.1},
        "validation": {"greedy": 0.1},
    },
}  # fmt: skip


def test_trivial_policies_stand_beside_start_and_trained_model(run_dir):
    evaluation = json.loads((run_dir / "evaluation.json").read_text())
    write_report([run_dir], run_dir)
    assert "Trivial policies" not in (run_dir / "report.md").read_text()
    assert "trivial " not in terminal_table(run_dir)
    (run_dir / "evaluation.json").write_text(json.dumps(evaluation | {"baselines": POLICIES}))
    write_report([run_dir], run_dir)
    lines = (run_dir / "report.md").read_text().splitlines()
    row = "| words forbidden: give forbidden | 34.0% [30.0, 38.0] | +10.0 [+4.0, +16.0] | 20.0% [10.0, 30.0] |"
    at = lines.index(f"{row} 60.0 [58.0, 62.0] |")
    assert lines[at - 1].startswith("| start model | ") and lines[at + 2].startswith("| trained model | ")
    assert lines[at + 1] == "| greedy | 10.0% [6.0, 14.0] | - | 0.0% [0.0, 10.0] | 50.0 [49.0, 51.0] |"
    assert "3 were tried on validation rows" in lines[at + 4]
    best = "34.0% [30.0, 38.0], words forbidden, best on validation rows; trained minus it +10.0 [+4.0, +16.0]"
    assert f"trivial      {best}" in terminal_table(run_dir)


def test_the_family_of_the_best_policy_is_chosen_on_validation_rows(run_dir):
    """Of several families the highest figure on the held-out rows is the highest by chance too."""
    luckier = POLICIES["greedy"] | {"accuracy": {"value": 0.36, "low": 0.32, "high": 0.4}}
    evaluation = json.loads((run_dir / "evaluation.json").read_text())
    (run_dir / "evaluation.json").write_text(json.dumps(evaluation | {"baselines": POLICIES | {"greedy": luckier}}))
    assert "trivial      34.0% [30.0, 38.0], words forbidden, best on validation rows" in terminal_table(run_dir)
