"""Alarms: what ends a run at once; a name that no finding has is refused. That each is raised once, also by a run that
is resumed, and may end it: tests/test_pipeline.py."""

from types import SimpleNamespace

import pytest
from transformers import TrainerControl, TrainerState

from rlhf_exp.analysis.diagnose import diagnose
from rlhf_exp.analysis.diagnose.rule import RULES
from rlhf_exp.callbacks.alarms import Alarms
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.schema import Monitor
from rlhf_exp.errors import ConfigError, NonFiniteLoss
from rlhf_exp.findings import FINDINGS
from rlhf_exp.runs.records import Evaluation, Metrics, append
from rlhf_exp.runs.stopping import StopSignals


class Run:
    """The trainer's part: one logged step after another."""

    def __init__(self, folder, find=lambda metrics: [], **monitor):
        self.folder = folder
        keys = {"every_steps": 2, "stop_on_nonfinite": True, "stop_on": [], "ignore": []} | monitor
        monitor = Monitor(probe_rows=1, probe_tokens=1, completions=0, **keys)
        self.alarms = Alarms(folder, find, monitor, StopSignals())
        self.alarms.on_train_begin(None, TrainerState(), TrainerControl())

    def log(self, losses, start=1, **others):
        args = SimpleNamespace(learning_rate=0.1, max_grad_norm=1.0)
        for step, loss in enumerate(losses, start):
            logs = {"loss": loss, **others}
            append(self.folder / "metrics.jsonl", Metrics(step=step, **logs))
            self.alarms.on_log(args, TrainerState(global_step=step, max_steps=99), TrainerControl(), logs=logs)


@pytest.mark.parametrize(("name", "bad"), [("loss", float("nan")), ("grad_norm", float("inf"))])
def test_a_loss_that_is_not_finite_stops_the_run_at_once(tmp_path, name, bad):
    run = Run(tmp_path, every_steps=10)
    run.log([0.5])
    with pytest.raises(NonFiniteLoss, match=rf"^{name} is {bad} at step 2; try a lower algo.args.learning_rate"):
        run.log([0.5], start=2, **{name: bad})
    Run(tmp_path, stop_on_nonfinite=False).log([bad])


def test_a_rule_that_fails_costs_a_line_and_not_the_run(tmp_path, capsys):
    Run(tmp_path, find=lambda metrics: 1 / 0).log([1, 1])
    said = "rlhf_exp: alarms: not looked for at step 2 (ZeroDivisionError: division by zero)\n"
    assert capsys.readouterr().err == said


def test_the_findings_that_a_config_may_name_are_those_of_the_rules():
    assert sorted(FINDINGS) == sorted(rule.name for rule in RULES)


def test_a_name_that_no_finding_has_is_refused():
    with pytest.raises(ConfigError) as caught:
        compose_config(["monitor.stop_on=[nonfinite_loss,gradient_spikes]", "monitor.ignore=[kl_drft]"])
    assert [problem.key for problem in caught.value.problems] == ["monitor.stop_on", "monitor.ignore"]
    assert all("no finding is named " in problem and "did you mean" in problem for problem in caught.value.problems)


def test_an_ignored_finding_is_listed_as_such_and_flags_no_run():
    metrics = [{"step": 1, "loss": None}]
    config = {"algo": {"name": "sft", "args": {"learning_rate": 0.1}}, "monitor": {"ignore": ["nonfinite_loss"]}}
    found = diagnose(metrics, Evaluation(), config)
    assert (found.findings, found.health, found.ignored) == ([], "ok", ["nonfinite_loss"])
