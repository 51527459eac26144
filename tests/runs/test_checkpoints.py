import errno
import json
import os
import shutil
import stat
from hashlib import sha256
from pathlib import Path

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.checkpoints import clear_unfinished, find_checkpoint, rotate
from rlhf_exp.runs.manifest import staged
from rlhf_exp.runs.plan import check_run_folder
from tests.runs.building import harm

FILES = ("model.safetensors", "optimizer.pt", "critic/model.safetensors")


def save(run_dir, step):
    folder = run_dir / "checkpoints"
    with staged(folder, f"checkpoint-{step}") as staging:
        for name in FILES:
            path = staging / f"checkpoint-{step}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"weights" * step)
    return folder / f"checkpoint-{step}"


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


@pytest.mark.parametrize("name", ["critic/model.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", ["truncated", "removed", "flipped", "zeros"])
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

    for name in ("rename", "write_text", "write_bytes", "mkdir"):
        watch(Path, name)
    watch(os, "fsync")
    watch(os, "unlink")
    save(tmp_path, 6)
    rotate(tmp_path / "checkpoints", keep=1)
    assert len(moments) > 20 and None not in moments
    assert names(tmp_path) == ["checkpoint-6"]


def test_rotation_keeps_the_newest(tmp_path):
    for step in (4, 5, 6):
        save(tmp_path, step)
    for keep, kept in ((None, [4, 5, 6]), (2, [5, 6]), (1, [6])):
        rotate(tmp_path / "checkpoints", keep)
        assert names(tmp_path) == [f"checkpoint-{step}" for step in kept]


def test_what_a_killed_process_left_is_removed_and_a_broken_checkpoint_put_aside(tmp_path):
    before, last = save(tmp_path, 3), save(tmp_path, 6)
    (last / "manifest.json").unlink()
    (last.parent / ".saving" / "checkpoint-9").mkdir(parents=True)
    shutil.copytree(before, last.parent / ".removing-checkpoint-1")
    clear_unfinished(last.parent, before)
    assert names(tmp_path) == ["checkpoint-3", "unusable-checkpoint-6"]
    save(tmp_path, 6)
    assert find_checkpoint(tmp_path).path == last
    clear_unfinished(last.parent, None)
    assert names(tmp_path) == ["unusable-checkpoint-3", "unusable-checkpoint-6"]


def test_a_run_without_a_whole_checkpoint_cannot_be_resumed_and_the_line_says_why(tmp_path):
    (tmp_path / "run.json").write_text('{"status": "failed"}')
    (save(tmp_path, 6) / "optimizer.pt").unlink()
    with pytest.raises(ConfigError) as caught:
        compose_config([f"resume={tmp_path}"], [check_run_folder])
    [line] = caught.value.problems
    assert line.startswith(f"resume={tmp_path}: ") and "(checkpoint-6: optimizer.pt is missing)" in line
