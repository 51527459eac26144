import json
from dataclasses import asdict
from pathlib import Path

import pytest

from rlhf_exp import pipeline
from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.inputs import check_inputs, hash_inputs, hash_rows, hash_weights
from rlhf_exp.runs.plan import Plan, check_resume, plan_job
from tests.runs.building import leave_run


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """A run that began with data, rewards and a reward model of the user's own, and was killed after a checkpoint."""
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "rows.jsonl": '{"nums": [1, 2, 3], "target": 6}\n',
        "mine.py": "def short(completions, **_):\n    return [1.0 for _ in completions]\n\n\nlong = short\n",
        "judge/config.json": "{}",
        "judge/model.safetensors": "weights",
        "judge/README.md": "of no importance",
    }.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    overrides = [
        "task.source=file", "task.path=rows.jsonl", "reward=model", "reward.path=./judge",
        "+reward.functions.short=mine.py:short", "+reward.weights.short=1.0", "output_dir=there",
    ]  # fmt: skip

    def leave(status="running"):
        cfg = compose_config(overrides)
        leave_run(Path("there"), status, checkpoint=True, config=asdict(cfg), inputs=hash_inputs(cfg))
        return overrides

    return leave


CHANGES = [("rows.jsonl", "task.path"), ("mine.py", "reward.functions.short"), ("judge/config.json", "reward.path")]


@pytest.mark.parametrize(("file", "key"), CHANGES)
def test_another_content_behind_the_same_name_is_refused(begin, file, key):
    overrides = begin("finished")
    skip = compose_config([*overrides, "skip_finished=true"])
    assert plan_job(skip) == Plan.SKIP
    Path(file).write_text(Path(file).read_text() + " ")
    with pytest.raises(ConfigError, match=rf"^resume=there: is a run of other inputs \({key} .*, here "):
        check_resume(compose_config([*overrides, "resume=there"]))
    with pytest.raises(ConfigError, match=rf"^output_dir=there: is a run of other inputs \({key} "):
        plan_job(skip)


@pytest.mark.parametrize("way", ["resume=there", "skip_finished=true"])
def test_another_function_of_the_same_file_is_refused(begin, way):
    cfg = compose_config([*begin("finished"), way, "reward.functions.short=mine.py:long"])
    with pytest.raises(ConfigError, match=r"\(reward.functions.short=mine.py:short, here mine.py:long\)"):
        check_resume(cfg) if cfg.resume else plan_job(cfg)


def test_the_same_content_elsewhere_and_another_way_of_saving_may_differ_and_other_versions_are_said(begin):
    overrides = begin()
    for old, new in {"rows.jsonl": "moved.jsonl", "mine.py": "yours.py"}.items():
        Path(old).rename(new)
    Path("judge/README.md").write_text("another")
    record = json.loads(Path("there/run.json").read_text())
    Path("there/run.json").write_text(json.dumps(record | {"versions": {"torch": "1.0"}}))
    typed = ["resume=there", "task.path=moved.jsonl", "algo.args.save_steps=7", "logging=tensorboard"]
    [line] = check_resume(compose_config([*overrides, *typed, "reward.functions.short=yours.py:short"]))
    assert line.startswith("resume=there: torch 1.0, here ")


def test_other_rows_than_the_run_began_with_are_refused_and_its_record_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = {"rows to train on": hash_rows([{"id": 1}])}
    leave_run(tmp_path, "stopped", checkpoint=True, seconds={"train": 3.0}, inputs=inputs)
    before = (tmp_path / "run.json").read_text()
    cfg = compose_config([f"resume={tmp_path}", "device=cpu"])

    def stages(cfg, folder, *_):
        assert json.loads((folder.path / "run.json").read_text())["status"] == "running"
        with folder.phase("load"), folder.phase("train"):
            check_inputs(cfg, folder, {"rows to train on": hash_rows([{"id": 2}])})

    monkeypatch.setattr(pipeline, "_run_stages", stages)
    monkeypatch.setattr(pipeline, "_list_facts", lambda cfg: {"inputs": {}})
    with pytest.raises(ConfigError, match=r"is a run of other inputs \(rows to train on [0-9a-f]{8}, here "):
        pipeline.run(cfg, tmp_path, None)
    assert json.loads((tmp_path / "run.json").read_text()) == json.loads(before)


def test_rows_and_weights_are_distinguished_by_content_order_and_name(tmp_path):
    rows = [{"id": 1, "prompt": "a"}, {"id": 2, "prompt": "b"}]
    assert hash_rows(rows) == hash_rows([dict(reversed(row.items())) for row in rows])
    assert len({hash_rows(rows), hash_rows(rows[::-1]), hash_rows(rows[:1]), hash_rows([])}) == 4
    found = set()
    for name, content in {"a": b"1", "b": b"1", "c": b"22"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name.replace('c', 'a')}.safetensors").write_bytes(content)
        found.add(hash_weights(tmp_path / name))
    assert len(found) == 3
