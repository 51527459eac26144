"""Alarms: raised once, with a row and a line; they may end the run; a name that no finding has is refused."""

from types import SimpleNamespace

import pytest
from transformers import TrainerControl, TrainerState

from rlhf_exp.analysis.diagnose import diagnose
from rlhf_exp.analysis.diagnose.rule import RULES
from rlhf_exp.callbacks.alarms import Alarms
from rlhf_exp.config.schema import Monitor
from rlhf_exp.errors import NonFiniteLoss
from rlhf_exp.findings import FINDINGS
from rlhf_exp.runs.records import Evaluation, Finding, Metrics, append, keep_lines
from rlhf_exp.runs.stopping import StopSignals
from tests.building import read_jsonl


def find_losses(metrics):
    """An alarm named after each loss above 1, which no longer is one when the loss has fallen."""
    high = [row for row in metrics if row["step"] == metrics[-1]["step"] and row["loss"] > 1]
    return [
        Finding(
            name=f"loss_{row['loss']:g}",
            severity="warning",
            steps=(row["step"], row["step"]),
            evidence="high",
            remedy="seed=1",
        )
        for row in high
    ]


class Run:
    """The trainer's part: one logged step after another."""

    def __init__(self, folder, step=0, find=find_losses, **monitor):
        self.folder, self.signals = folder, StopSignals()
        keep_lines(folder / "metrics.jsonl", step, Metrics)  # as the writer of the metrics does
        keys = {"every_steps": 2, "stop_on_nonfinite": True, "stop_on": [], "ignore": []} | monitor
        monitor = Monitor(probe_rows=1, probe_tokens=1, completions=0, **keys)
        self.alarms = Alarms(folder, find, monitor, self.signals)
        self.alarms.on_train_begin(None, TrainerState(global_step=step), TrainerControl())

    def log(self, losses, start=1, **others):
        args = SimpleNamespace(learning_rate=0.1, max_grad_norm=1.0)
        for step, loss in enumerate(losses, start):
            logs = {"loss": loss, **others}
            append(self.folder / "metrics.jsonl", Metrics(step=step, **logs))
            self.alarms.on_log(args, TrainerState(global_step=step, max_steps=99), TrainerControl(), logs=logs)

    def rows(self):
        return [(row["step"], row["name"]) for row in read_jsonl(self.folder / "alarms.jsonl")]


def test_an_alarm_is_raised_once_also_by_a_run_that_is_resumed(tmp_path, capsys):
    run = Run(tmp_path)
    run.log([0.5, 2, 2, 2, 0.1, 0.1, 0.1, 3, 2, 2])
    assert run.rows() == [(2, "loss_2"), (8, "loss_3")]
    assert "alarm        loss_2 at step 2: high, since step 2; try seed=1" in capsys.readouterr().out.splitlines()
    assert run.signals.alarm is None
    again = Run(tmp_path, step=6)
    again.log([2, 2, 3, 3], start=7)
    assert again.rows() == [(2, "loss_2"), (10, "loss_3")]


@pytest.mark.parametrize(("name", "bad"), [("loss", float("nan")), ("grad_norm", float("inf"))])
def test_a_loss_that_is_not_finite_stops_the_run_at_once(tmp_path, name, bad):
    run = Run(tmp_path, every_steps=10, find=lambda metrics: [])
    run.log([0.5])
    with pytest.raises(NonFiniteLoss, match=rf"^{name} is {bad} at step 2; try a lower algo.args.learning_rate"):
        run.log([0.5], start=2, **{name: bad})
    Run(tmp_path, find=lambda metrics: [], stop_on_nonfinite=False).log([bad])


def test_a_rule_that_fails_costs_a_line_and_not_the_run(tmp_path, capsys):
    Run(tmp_path, find=lambda metrics: 1 / 0).log([1, 1])
    said = "rlhf_exp: alarms: not looked for at step 2 (ZeroDivisionError: division by zero)\n"
    assert capsys.readouterr().err == said


def test_the_findings_that_a_config_may_name_are_those_of_the_rules():
    assert sorted(FINDINGS) == sorted(rule.name for rule in RULES)


def test_an_ignored_finding_is_listed_as_such_and_accuses_nobody():
    metrics = [{"step": 1, "loss": None}]
    config = {"algo": {"name": "sft", "args": {"learning_rate": 0.1}}, "monitor": {"ignore": ["nonfinite_loss"]}}
    found = diagnose(metrics, Evaluation(), config)
    assert (found.findings, found.health, found.ignored) == ([], "ok", ["nonfinite_loss"])


@pytest.mark.parametrize("key", ["stop_on", "ignore"])
def test_a_name_that_no_finding_has_is_refused(command_line, tmp_path, key):
    done = command_line(f"monitor.{key}=[nonfinite_loss,gradient_spikes]", cwd=tmp_path)
    line = f"rlhf_exp: monitor.{key}=[nonfinite_loss, gradient_spikes]: no finding is named gradient_spikes; must be "
    assert done.returncode == 2 and done.stderr.startswith(line)
    assert done.stderr.endswith("; did you mean gradient_spike?\n") and done.stderr.count("\n") == 1
