import json
import subprocess
import sys

import pytest

from rlhf_exp.report.terminal import terminal_table
from rlhf_exp.runs.load import NotARun


def read(run_dir, name):
    return json.loads((run_dir / name).read_text())


def test_every_figure_stands_with_its_interval(run_dir):
    table = terminal_table(run_dir)
    accuracy = read(run_dir, "evaluation.json")["trained"]["accuracy"]
    bounds = f"[{100 * accuracy['low']:.1f}, {100 * accuracy['high']:.1f}]"
    line = next(line for line in table.splitlines() if line.startswith("accuracy"))
    assert f"{100 * accuracy['value']:.1f}% {bounds}" in line
    assert line.count("[") == 3
    for label in ("mean tokens", "truncated", "reward"):
        assert next(line for line in table.splitlines() if line.startswith(label)).count("[") == 3
    assert "training     240 steps in 228 s, 0.952 s per step" in table
    assert "peak memory  1,234 MB" in table
    assert "health       ok, 0 findings" in table


def test_the_table_is_ascii_and_narrow(run_dir):
    table = terminal_table(run_dir)
    assert table.isascii()
    lines = [line for line in table.splitlines() if not line.startswith("report")]
    assert max(map(len, lines)) <= 110


def test_accuracy_difference_is_the_one_evaluation_holds(run_dir):
    evaluation = read(run_dir, "evaluation.json")
    evaluation["paired"]["difference"] = {"value": 0.111, "low": 0.05, "high": 0.2}
    (run_dir / "evaluation.json").write_text(json.dumps(evaluation))
    assert "+11.1 [+5.0, +20.0]" in terminal_table(run_dir)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.05, 0.2, "rose"),
        (-0.2, -0.05, "fell"),
        (-0.1, 0.1, "did not measurably change"),
        (None, None, "did not measurably change"),
        (float("nan"), float("nan"), "did not measurably change"),
    ],
)
def test_the_verdict_follows_the_interval(run_dir, low, high, words):
    evaluation = read(run_dir, "evaluation.json")
    evaluation["paired"]["difference"] |= {"low": low, "high": high}
    (run_dir / "evaluation.json").write_text(json.dumps(evaluation))
    assert f"Held-out accuracy {words}: " in terminal_table(run_dir)


def test_findings_stand_with_their_remedy(run_dir):
    finding = {"name": "kl_drift", "severity": "warning", "steps": [1, 2], "evidence": "KL reaches 1.50",
               "cause": "-", "remedy": "algo.args.beta=0.1"}  # fmt: skip
    (run_dir / "diagnosis.json").write_text(json.dumps({"findings": [finding], "health": "warning"}))
    table = terminal_table(run_dir)
    assert "health       warning, 1 finding:" in table
    assert "  warning kl_drift: KL reaches 1.50; try algo.args.beta=0.1" in table


@pytest.mark.parametrize(
    ("status", "error", "sentence"),
    [
        ("failed", "ValueError: a\nb.", "This run failed: ValueError: a b. The last logged step is 240."),
        ("stopped", "loss is nan", "This run was stopped: loss is nan. The last logged step is 240."),
        ("running", None, "This run is still running, or was killed before it could say so. "
                          "The last logged step is 240."),
    ],
)  # fmt: skip
def test_a_run_that_did_not_finish_says_so(run_dir, status, error, sentence, edit_info):
    edit_info(run_dir, status=status, error=error)
    for name in ("evaluation.json", "samples.jsonl", "diagnosis.json"):
        (run_dir / name).unlink()
    table = terminal_table(run_dir)
    assert sentence in table
    assert "Held-out accuracy after training was not measured." in table


def test_a_run_with_only_its_baseline_shows_it(run_dir):
    evaluation = {"baseline": read(run_dir, "evaluation.json")["baseline"]}
    (run_dir / "evaluation.json").write_text(json.dumps(evaluation))
    line = next(line for line in terminal_table(run_dir).splitlines() if line.startswith("accuracy"))
    assert line.split()[-2:] == ["-", "-"]


def test_a_run_json_with_nothing_but_a_status_is_shown(tmp_path):
    (tmp_path / "run.json").write_text('{"status": "failed", "error": "no such model"}')
    assert "This run failed: no such model. No step was logged." in terminal_table(tmp_path)


def test_no_run_is_refused(tmp_path):
    with pytest.raises(NotARun):
        terminal_table(tmp_path)


def test_importing_the_report_brings_no_torch_and_the_table_no_matplotlib(run_dir):
    code = (
        "import sys; from pathlib import Path; import rlhf_exp.report, rlhf_exp.diagnose, rlhf_exp.stats;"
        f"rlhf_exp.report.terminal_table(Path({str(run_dir)!r}));"
        "print([m for m in ('torch', 'transformers', 'trl', 'hydra', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_figure_that_is_not_finite_shows_as_missing(run_dir):
    evaluation = read(run_dir, "evaluation.json")
    evaluation["trained"]["kl"]["mean"] = {"value": None, "low": None, "high": None}
    (run_dir / "evaluation.json").write_text(json.dumps(evaluation))
    line = next(line for line in terminal_table(run_dir).splitlines() if line.startswith("KL"))
    assert line.split() == ["KL", "0.00", "-"]


def test_a_reward_model_s_table_is_narrow_too_and_has_no_kl(reward_dir):
    lines = terminal_table(reward_dir).splitlines()
    assert "In brackets: 95% intervals." in lines
    assert max(len(line) for line in lines if not line.startswith(("report", "Held-out"))) <= 110


def test_the_implicit_reward_stands_once(dpo_dir):
    assert "preferences " not in terminal_table(dpo_dir)
    evaluation = read(dpo_dir, "evaluation.json")
    rate = {"value": 0.6, "low": 0.55, "high": 0.65}
    evaluation["paired"] = {"n": 128, "win_rate": rate, "wins": 70, "losses": 40, "ties": 18}
    (dpo_dir / "evaluation.json").write_text(json.dumps(evaluation))
    lines = terminal_table(dpo_dir).splitlines()
    assert [line[:12] for line in lines if "held-out pairs" in line] == ["preferences "]
