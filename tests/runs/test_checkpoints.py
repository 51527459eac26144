"""Folders of weights: saved whole or not at all, and what is damaged is seen."""

import errno
import json
import os
import shutil
import stat
from hashlib import sha256
from pathlib import Path

import pytest

from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.checkpoints import clear_unfinished, find_best, find_checkpoint, rotate
from rlhf_exp.runs.inputs import hash_weights
from rlhf_exp.runs.manifest import explain_damage, seal, staged
from tests.runs.building import flip, harm

WEIGHTS = "model.safetensors"
FILES = (WEIGHTS, "optimizer.pt", f"critic/{WEIGHTS}")
HARMS = pytest.mark.parametrize("damage", ["truncated", "removed", "flipped", "zeros"])


def save(run_dir, step):
    folder = run_dir / "checkpoints"
    with staged(folder, f"checkpoint-{step}") as staging:
        for name in FILES:
            path = staging / f"checkpoint-{step}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"weights" * step)
    return folder / f"checkpoint-{step}"


def save_best(folder, step, value):
    folder.mkdir(exist_ok=True)
    (folder / WEIGHTS).write_bytes(b"weights" * (step + 1))
    (folder / "best.json").write_text(json.dumps({"step": step, "metric": "validation/accuracy", "value": value}))
    seal(folder)
    return folder


def names(run_dir):
    return sorted(path.name for path in (run_dir / "checkpoints").iterdir())


def test_the_newest_whole_checkpoint_is_found(tmp_path):
    assert find_checkpoint(tmp_path).path is None
    save(tmp_path, 9)
    last = save(tmp_path, 10)
    assert (find_checkpoint(tmp_path).path, find_checkpoint(tmp_path).broken) == (last, [])
    assert json.loads((last / "manifest.json").read_text()) == {
        "files": dict.fromkeys(sorted(FILES), 70),
        "sha256": dict.fromkeys(sorted(FILES), sha256(b"weights" * 10).hexdigest()),
    }


@pytest.mark.parametrize("name", [f"critic/{WEIGHTS}", "manifest.json"])
@HARMS
def test_a_damaged_file_steps_back_to_the_checkpoint_before(tmp_path, name, damage):
    before, last = save(tmp_path, 3), save(tmp_path, 6)
    harm(last / name, damage)
    found = find_checkpoint(tmp_path)
    assert found.path == before
    assert len(found.broken) == 1 and found.broken[0].startswith("checkpoint-6: ") and name in found.broken[0]


def test_a_file_system_that_cannot_sync_a_folder_is_saved_on(tmp_path, monkeypatch):
    sync = os.fsync

    def refuse_folders(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    assert save(tmp_path, 3) == find_checkpoint(tmp_path).path


def test_at_every_moment_of_saving_and_rotating_there_is_a_whole_checkpoint(tmp_path, monkeypatch):
    """Each call that changes the disk or brings it up to date is a moment at which the process may be killed."""
    save(tmp_path, 3)
    moments = []

    def watch(owner, name):
        original = getattr(owner, name)

        def watched(*args, **kwargs):
            moments.append(find_checkpoint(tmp_path).path)
            result = original(*args, **kwargs)
            moments.append(find_checkpoint(tmp_path).path)
            return result

        monkeypatch.setattr(owner, name, watched)

    for owner, name in ((Path, "rename"), (Path, "write_text"), (Path, "mkdir"), (os, "fsync"), (os, "unlink")):
        watch(owner, name)
    save(tmp_path, 6)
    rotate(tmp_path / "checkpoints", keep=1)
    assert len(moments) > 20 and None not in moments
    assert names(tmp_path) == ["checkpoint-6"]


def test_what_a_killed_process_left_is_removed_and_a_broken_checkpoint_put_aside(tmp_path):
    before, last = save(tmp_path, 3), save(tmp_path, 6)
    (last / "manifest.json").unlink()
    (last.parent / ".saving" / "checkpoint-9").mkdir(parents=True)
    shutil.copytree(before, last.parent / ".removing-checkpoint-1")
    clear_unfinished(last.parent, before)
    assert names(tmp_path) == ["checkpoint-3", "unusable-checkpoint-6"]
    save(tmp_path, 6)
    clear_unfinished(last.parent, None)
    assert names(tmp_path) == ["unusable-checkpoint-3", "unusable-checkpoint-6"]


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    (folder / "critic").mkdir(parents=True)
    for name in (WEIGHTS, "config.json", "README.md", f"critic/{WEIGHTS}"):
        (folder / name).write_text('{"a": 1}')
    seal(folder)
    return folder


def test_of_a_model_what_it_is_not_loaded_from_may_change(model):
    for name in ("README.md", f"critic/{WEIGHTS}"):
        (model / name).unlink()
    assert explain_damage(model) is None
    (model / "config.json").unlink()
    assert explain_damage(model) == "config.json is missing"


@pytest.mark.parametrize("text", [None, "{}", '{"name": "an app", "files": {}}'])
def test_a_model_from_elsewhere_is_taken_as_it_is(model, text):
    before = hash_weights(model)
    (model / "manifest.json").unlink()
    if text is not None:
        (model / "manifest.json").write_text(text)
    assert hash_weights(model) == before
    flip(model / WEIGHTS)
    assert explain_damage(model) is None


def test_the_best_policy_is_found_wherever_it_lies_and_of_equal_ones_the_first(tmp_path):
    assert find_best(tmp_path) is None
    for name, step, value, found in [
        ("best-8", 8, 0.3, "best-8"),
        ("model", 4, 0.3, "model"),
        ("best-6", 6, float("nan"), "model"),
        ("best-10", 10, 0.31, "best-10"),
    ]:
        save_best(tmp_path / name, step, value)
        assert find_best(tmp_path).path.name == found


@pytest.mark.parametrize("name", [WEIGHTS, "best.json", "manifest.json"])
@pytest.mark.parametrize("place", ["best-8", "model"])
def test_a_damaged_best_policy_is_refused(tmp_path, place, name):
    best = save_best(tmp_path / place, 8, 0.5)
    harm(best / name, "flipped")
    with pytest.raises(ConfigError, match=f"^{best}: .*{name}.*; remove the folder"):
        find_best(tmp_path)
