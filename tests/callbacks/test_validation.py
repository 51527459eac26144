"""Measurements on validation rows in the metrics, and the best policy that is kept."""

import json
from pathlib import Path

import pytest
from transformers import TrainerControl, TrainerState

from rlhf_exp.callbacks.metrics import MetricsWriter
from rlhf_exp.callbacks.validation import Best, Validate, WritePage
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.runs.records import Measurement
from tests.building import read_jsonl

METRIC, NAN = "validation/accuracy", float("nan")


class Trainer:
    """Takes steps, and calls the callbacks as transformers does. The policy is the number of the step."""

    def __init__(self, folder, figures, every, best=False, step=0, steps=10, spent_at=None):
        self.folder, self.state, self.spent_at = folder, TrainerState(global_step=step, max_steps=steps), spent_at
        self.best = Best(folder, METRIC, self.save) if best else None

        def measure(_, step):
            return Measurement(step=step, id=["x"], accuracy=[figures[step]])

        validate = Validate(folder.path, measure, every, self.best)
        self.callbacks = [validate, MetricsWriter(folder.path, None, every_steps=1)]

    def save(self, path):
        Path(path).mkdir()
        (Path(path) / "model.safetensors").touch()
        (Path(path) / "step").write_text(str(self.state.global_step))

    def call(self, event, control, **kwargs):
        for callback in self.callbacks:
            getattr(callback, event)(None, self.state, control, model=self.state.global_step, **kwargs)

    def train(self, until=None, logging_steps=1):
        control = TrainerControl()
        self.call("on_train_begin", control)
        self.call("on_epoch_begin", control)
        while self.state.global_step < (until or self.state.max_steps) and not control.should_training_stop:
            self.state.global_step += 1
            control.should_log = self.state.global_step % logging_steps == 0
            control.should_training_stop = self.state.global_step == self.spent_at
            self.call("on_step_end", control)
            if control.should_log:
                self.call("on_log", control, logs={"loss": 0.5})
        self.call("on_log", control, logs={"train_runtime": 1.0})
        return self


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path / "run", {})


def read(folder):
    return {row["step"]: row[METRIC] for row in read_jsonl(folder.path / "metrics.jsonl") if METRIC in row}


def kept(folder):
    return {path.name: (path / "step").read_text() for path in folder.path.glob("*best*")}


def test_the_start_every_nth_and_the_last_step_are_measured_whatever_is_logged(folder, tmp_path):
    figures = {step: step / 100 for step in range(11)}
    Trainer(folder, figures, every=4).train(logging_steps=3)
    assert read(folder) == {step: step / 100 for step in (0, 4, 8, 10)}
    shorter = RunFolder.create(tmp_path / "of_few_tokens", {})
    Trainer(shorter, figures, every=4, spent_at=5).train()
    assert list(read(shorter)) == [0, 4, 5]


@pytest.mark.parametrize(
    ("figures", "best"),
    [([0.1, 0.3, 0.2, 0.4, 0.4, 0.3], 6), ([NAN, 0.3, NAN], 2)],  # of equal ones the first; no number is the worst
)
def test_the_best_policy_is_kept_and_none_of_an_earlier_start(folder, figures, best):
    Trainer(folder, {0: 0.9}, every=2, best=True, steps=0).train()
    figures = dict(zip(range(0, 12, 2), figures, strict=False))
    trainer = Trainer(folder, figures, every=2, best=True, steps=max(figures)).train()
    assert kept(folder) == {f"best-{best}": str(best)} and trainer.best.path == folder.path / f"best-{best}"
    record = json.loads((folder.path / "run.json").read_text())
    assert record["best"] == {"step": best, "metric": METRIC, "value": figures[best]}


def test_a_resumed_run_continues_to_compare_even_without_run_json(folder):
    figures = {0: 0.1, 2: 0.3, 4: 0.2, 6: 0.25, 8: 0.35, 10: 0.3}
    Trainer(folder, figures, every=2, best=True).train(until=5)
    again = RunFolder.create(folder.path, {})
    Trainer(again, figures, every=2, best=True, step=5).train(until=7)
    assert kept(again) == {"best-2": "2"}
    (folder.path / "run.json").write_text('{"status": "runn')
    once_more = RunFolder.create(folder.path, {})
    Trainer(once_more, figures, every=2, best=True, step=3).train()  # from an earlier checkpoint
    assert kept(once_more) == {"best-8": "8"} and once_more.record["best"]["value"] == 0.35
    assert read(once_more) == figures
    lines = read_jsonl(folder.path / "validation.jsonl")
    assert lines == [{"step": step, "id": ["x"], "accuracy": [value]} for step, value in figures.items()]


def test_a_save_that_fails_leaves_the_one_before(folder):
    trainer = Trainer(folder, {0: 0.1, 2: 0.3}, every=2, best=True, steps=2)

    def fail(path):
        Path(path).mkdir()
        if trainer.state.global_step:
            raise OSError("no space left")
        (Path(path) / "step").write_text("0")

    trainer.best._save = fail
    with pytest.raises(OSError, match="no space left"):
        trainer.train()
    assert trainer.best.path == folder.path / "best-0"


def test_the_page_is_written_after_each_measurement_and_its_failure_costs_a_line(folder, capsys):
    trainer, steps = Trainer(folder, dict.fromkeys(range(11), 0.5), every=5), []

    def write():
        steps.append(read_jsonl(folder.path / "metrics.jsonl")[-1]["step"])
        raise OSError("no space left")

    trainer.callbacks.append(WritePage(write))
    trainer.train()
    assert steps == [0, 5, 10]
    line = "rlhf_exp: the page of the running run was not written (OSError: no space left)\n"
    assert capsys.readouterr().err == 3 * line
