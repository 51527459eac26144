import errno
import json
import os
import shutil
import stat
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.checkpoints import WORK, clear_unfinished, find_checkpoint, find_lacking, list_needed, rotate
from rlhf_exp.runs.manifest import staged
from rlhf_exp.runs.plan import check_run_folder

FILES = ("model.safetensors", "optimizer.pt", "critic/model.safetensors")
CASES = {
    "grpo": [],
    "lora": ["peft=lora"],
    "adaptive entropy": ["+algo.args.use_adaptive_entropy=true"],
    "a reference that follows": ["+algo.args.sync_ref_model=true"],
    "ppo": ["algo=ppo"],
    "sft": ["algo=sft"],
}


def save(run_dir, step):
    folder = run_dir / "checkpoints"
    with staged(folder, f"checkpoint-{step}") as staging:
        for name in FILES:
            path = staging / f"checkpoint-{step}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"weights" * step)
    return folder / f"checkpoint-{step}"


@cache
def configure(*overrides):
    return compose_config(["device=cpu", *overrides])


def fill(folder, cfg):
    """A checkpoint of empty files."""
    for names in list_needed(cfg):
        path = folder / names[-1]
        path.parent.mkdir(exist_ok=True)
        path.touch()
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


@pytest.mark.parametrize("name", ["critic/model.safetensors", "manifest.json"])
@pytest.mark.parametrize("damage", ["truncated", "removed", "flipped", "zeros"])
def test_a_damaged_file_steps_back_to_the_checkpoint_before(tmp_path, name, damage):
    before, last = save(tmp_path, 3), save(tmp_path, 6)
    if damage == "removed":
        (last / name).unlink()
    else:
        content = (last / name).read_bytes()
        changed = {"truncated": content[:20], "flipped": bytes([content[0] ^ 1]) + content[1:]}
        (last / name).write_bytes(changed.get(damage, bytes(len(content))))
    found = find_checkpoint(tmp_path)
    assert found.path == before
    assert len(found.broken) == 1 and found.broken[0].startswith("checkpoint-6: ") and name in found.broken[0]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_brings_no_folder_to_the_disk_is_saved_on(tmp_path, monkeypatch, code):
    sync, refused = os.fsync, [stat.S_ISDIR]

    def refuse(descriptor):
        if any(kind(os.fstat(descriptor).st_mode) for kind in refused):
            raise OSError(code, os.strerror(code))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    assert find_checkpoint(tmp_path).path is None
    assert save(tmp_path, 3) == find_checkpoint(tmp_path).path
    refused.append(stat.S_ISREG)
    with pytest.raises(OSError):
        save(tmp_path, 6)


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


@pytest.mark.parametrize(("keep", "kept"), [(1, [6]), (2, [5, 6]), (None, [4, 5, 6])])
def test_rotation_keeps_the_newest(tmp_path, keep, kept):
    for step in (4, 5, 6):
        save(tmp_path, step)
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


# That real checkpoints hold these files: tests/trainers/test_resuming.py.
@pytest.mark.parametrize("case", CASES)
def test_each_file_that_a_resumed_run_reads_is_asked_for(tmp_path, case):
    cfg = configure(*CASES[case])
    fill(tmp_path, cfg)
    assert find_lacking(tmp_path, cfg) is None
    asked = {names[0] for names in list_needed(cfg)}
    assert {"optimizer.pt", "scheduler.pt", "rng_state.pth", "progress.json", WORK} <= asked
    for names in list_needed(cfg):
        (tmp_path / names[-1]).rename(tmp_path / "aside")
        assert find_lacking(tmp_path, cfg) == names[0]
        (tmp_path / "aside").rename(tmp_path / names[-1])


def test_a_run_without_its_optimizer_is_refused_before_anything_of_it_changes(tmp_path):
    from rlhf_exp.pipeline import run

    cfg = configure()
    with staged(tmp_path / "checkpoints", "checkpoint-4") as staging:
        (staging / "checkpoint-4").mkdir()
        (fill(staging / "checkpoint-4", cfg) / "optimizer.pt").unlink()
    with pytest.raises(ConfigError) as caught:
        run(replace(cfg, resume=str(tmp_path)), tmp_path, None)
    assert caught.value.problems == [f"resume={tmp_path}: checkpoint-4 cannot be resumed: optimizer.pt is missing"]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]
