"""Whole runs that are resumed, repeated or read after something of them was damaged or deleted."""

import json
import shutil

import pytest

from rlhf_exp.errors import ConfigError
from rlhf_exp.models.source import ModelSource
from rlhf_exp.runs.manifest import seal
from tests.runs.building import flip

SMALL = [
    *("algo=sft", "max_tokens=8", "algo.args.per_device_train_batch_size=8", "algo.args.max_steps=6"),
    *("algo.args.save_steps=2", "algo.args.save_total_limit=3", "eval.rows=8", "monitor.every_steps=2"),
    *("eval.every=2", "eval.every_rows=8", "eval.best=true", "device=cpu", "device.threads=1", "keep_checkpoints=true"),
]
KINDS = {"full": [], "last": ["eval.best=false"]}


@pytest.fixture
def begin(launch, workplace):
    """A copy of a run, which is made once for each kind, as one that failed after it was trained and measured."""

    def make(kind="full"):
        whole, copy = workplace / kind, workplace / "run"
        if not whole.exists():
            done = launch(*SMALL, *KINDS[kind], f"output_dir={whole}")
            assert done.returncode == 0, done.stderr
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        change_record(copy, status="failed")
        return copy

    return make


def read_weights(folder):
    [file] = folder.glob("*model.safetensors")
    return file.read_bytes()


def change_record(folder, **values):
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def kill_in_evaluate(folder):
    """Leave what a process leaves that is killed while it measures the trained model."""
    change_record(folder, status="running")
    evaluation = json.loads((folder / "evaluation.json").read_text())
    (folder / "evaluation.json").write_text(json.dumps({"baseline": evaluation["baseline"]}))
    for name in ("samples.jsonl", "diagnosis.json", "report.md"):
        (folder / name).unlink()


def test_going_on_after_training_keeps_the_best_model(begin, launch):
    folder = begin()
    best, last = read_weights(folder / "model"), read_weights(folder / "checkpoints" / "checkpoint-6")
    assert best != last and json.loads((folder / "model" / "best.json").read_text())["step"] == 0
    kill_in_evaluate(folder)
    assert launch(*SMALL, "skip_finished=true", f"output_dir={folder}").returncode == 0
    assert read_weights(folder / "model") == best
    assert json.loads((folder / "run.json").read_text())["best"]["step"] == 0
    assert "Kept: the policy of step 0, the best of 4 measurements" in (folder / "report.md").read_text()


def test_a_damaged_best_policy_is_refused_and_once_it_is_removed_the_resumed_one_is_the_best(begin, launch):
    folder = begin()
    flip(folder / "model" / "model.safetensors")
    kill_in_evaluate(folder)
    done = launch(f"resume={folder}")
    assert done.returncode == 2
    assert f"rlhf_exp: {folder}/model: model.safetensors is damaged: its hash is not that in " in done.stderr
    shutil.rmtree(folder / "model")
    done = launch(f"resume={folder}")
    assert done.returncode == 0 and "resuming after step 6\n" in done.stdout, done.stderr
    assert json.loads((folder / "model" / "best.json").read_text())["step"] == 6
    assert read_weights(folder / "model") == read_weights(folder / "checkpoints" / "checkpoint-6")


def test_a_damaged_model_is_not_trained_from_and_resuming_saves_it_again(begin, launch):
    folder = begin("last")
    flip(folder / "model" / "model.safetensors")
    done = launch(*SMALL, f"model.path={folder}/model", f"output_dir={folder}-next")
    said = f"rlhf_exp: model.path={folder}/model: model.safetensors is damaged"
    assert done.returncode == 2 and done.stderr.startswith(said)
    assert launch(f"resume={folder}").returncode == 0
    assert launch(*SMALL, "dry_run=true", f"model.path={folder}/model").returncode == 0


def test_a_damaged_base_of_an_adapter_is_refused_too(tmp_path):
    for name, file in (("base", "model.safetensors"), ("adapter", "adapter_config.json")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text(json.dumps({"base_model_name_or_path": str(tmp_path / "base")}))
        seal(tmp_path / name)
    source = ModelSource(str(tmp_path / "adapter"))
    source.check_whole()
    flip(tmp_path / "base" / "model.safetensors")
    with pytest.raises(ConfigError, match=f"of its base {tmp_path}/base, model.safetensors is damaged"):
        source.check_whole()
