import json
import shutil

import pytest

from rlhf_exp.runs.checkpoints import BestPolicy, find_best
from rlhf_exp.runs.inputs import hash_weights
from rlhf_exp.runs.manifest import explain_broken, explain_damage, replace_folder, seal
from rlhf_exp.runs.records import Best
from tests.runs.building import flip, harm

WEIGHTS = "model.safetensors"


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "run" / "model"
    (folder / "critic").mkdir(parents=True)
    for name in (WEIGHTS, "config.json", "README.md", f"critic/{WEIGHTS}"):
        (folder / name).write_text('{"a": 1}')
    seal(folder)
    return folder


@pytest.mark.parametrize("text", ["", "\0" * 99, "[]", '{"files": []}', '{"files": {"a": "b"}}'])
def test_a_manifest_that_cannot_be_read_breaks_its_folder(model, text):
    (model / "manifest.json").write_text(text)
    assert explain_broken(model) == "manifest.json cannot be read"


def test_every_flip_in_a_manifest_that_matters_is_seen(model):
    path = model / "manifest.json"
    whole = path.read_text()
    for place in range(0, len(whole), 3):
        flip(path, place)
        if explain_broken(model) is None:  # a flip of a space
            assert json.loads(path.read_text()) == json.loads(whole), place
        path.write_text(whole)


def test_of_a_model_what_it_is_not_loaded_from_may_change(model):
    for name in ("README.md", f"critic/{WEIGHTS}"):
        (model / name).unlink()
    assert explain_damage(model) is None
    (model / "config.json").unlink()
    assert explain_damage(model) == "config.json is missing"


@pytest.mark.parametrize("text", [None, "{}", '{"name": "an app", "files": {}}'])
def test_a_model_from_elsewhere_is_taken_as_it_is(model, text):
    (model / "manifest.json").unlink()
    if text is not None:
        (model / "manifest.json").write_text(text)
    flip(model / WEIGHTS)
    assert explain_damage(model) is None


def test_manifest_and_best_do_not_change_what_a_model_is(model):
    before = hash_weights(model)
    (model / "best.json").write_text('{"step": 4}')
    (model / "manifest.json").unlink()
    assert hash_weights(model) == before


def test_a_folder_takes_the_place_of_a_full_one(model):
    new = model.parent / "best-4"
    shutil.copytree(model, new)
    (new / "more").touch()
    replace_folder(new, model)
    assert (model / "more").exists() and [path.name for path in model.parent.iterdir()] == ["model"]


def mark(folder, step, value):
    folder.mkdir(exist_ok=True)
    (folder / WEIGHTS).write_bytes(b"weights" * (step + 1))
    (folder / "best.json").write_text(json.dumps({"step": step, "metric": "validation/accuracy", "value": value}))
    seal(folder)
    return folder


def test_the_best_policy_is_found_wherever_it_lies_and_of_equal_ones_the_first(tmp_path):
    assert find_best(tmp_path).best is None
    (tmp_path / "best-9").mkdir()
    mark(tmp_path / "best-8", 8, 0.3)
    assert find_best(tmp_path).best.path == tmp_path / "best-8"
    mark(tmp_path / "model", 4, 0.3)
    assert find_best(tmp_path).best.facts == Best(step=4, metric="validation/accuracy", value=0.3)
    assert find_best(tmp_path).best.path == tmp_path / "model"
    mark(tmp_path / "best-10", 10, 0.31)
    assert find_best(tmp_path).best.path == tmp_path / "best-10"


@pytest.mark.parametrize("name", [WEIGHTS, "best.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["truncated", "removed", "flipped", "zeros"])
@pytest.mark.parametrize("place", ["best-8", "model"])
def test_a_damaged_best_policy_is_left_out_and_the_next_best_found(tmp_path, place, name, damage):
    before, last = mark(tmp_path / "best-4", 4, 0.3), mark(tmp_path / place, 8, 0.5)
    (tmp_path / "run.json").write_text(json.dumps({"best": json.loads((last / "best.json").read_text())}))
    harm(last / name, damage)
    found = find_best(tmp_path)
    if (place, name, damage) == ("model", "manifest.json", "removed"):  # as of a model from elsewhere
        assert found == (BestPolicy(last, found.best.facts), [], None)
        return
    assert (found.best.path, found.lost) == (before, 8)
    assert len(found.broken) == 1 and found.broken[0].startswith(f"{place}: ") and name in found.broken[0]
