import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.__main__ import main
from rlhf_exp.runs.disk import measure_disk, remove_checkpoints
from tests.runs.building import held, leave_run

FINISHED = "finished"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Runs with a checkpoint of 2 MB: two finished ones, and one of each status from which a run is resumed."""
    monkeypatch.chdir(tmp_path)
    for name in (FINISHED, "other", "stopped", "failed", "running"):
        folder = Path("outputs", name)
        leave_run(folder, FINISHED if name == "other" else name, checkpoint=True, started=name)
        (folder / "checkpoints" / "checkpoint-1" / "model.safetensors").write_bytes(bytes(2_000_000))
    return tmp_path / "outputs"


def list_kept(outputs):
    return sorted(path.parent.name for path in outputs.glob("*/checkpoints"))


def test_checkpoints_are_measured_apart_and_links_are_not_followed(here):
    folder = here / FINISHED
    (folder / "model" / "model.safetensors").write_bytes(bytes(500))
    (folder / "report.html").write_bytes(bytes(70))
    (folder / "link").symlink_to(here / "other")
    disk = measure_disk(folder)
    manifest = (folder / "checkpoints" / "checkpoint-1" / "manifest.json").stat().st_size
    assert disk.checkpoints == 2_000_000 + manifest
    assert disk.reports == 70
    assert 500 < disk.other_files < 1000


def test_only_finished_runs_lose_their_checkpoints_and_they_keep_their_models(here, capsys):
    assert main(["--prune", "--yes"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split() for line in out[:2]] == [["2.0", "MB", f"outputs/{name}"] for name in (FINISHED, "other")]
    assert out[2:] == ["4.0 MB in the checkpoints of 2 finished runs", "removed: 4.0 MB"]
    assert list_kept(here) == ["failed", "running", "stopped"]
    assert (here / FINISHED / "model" / "model.safetensors").is_file()
    assert main(["--prune", "--yes"]) == 0
    assert "0.0 MB in the checkpoints of 0 finished runs" in capsys.readouterr().out


def test_only_selected_runs_are_pruned(here):
    assert main(["outputs/other", "outputs/stopped", "--prune", "--yes"]) == 0
    assert list_kept(here) == ["failed", FINISHED, "running", "stopped"]


def test_a_run_that_another_process_holds_is_kept(here):
    """One that reports on itself has finished by its record."""
    with held(here / "other"):
        assert main(["--prune", "--yes"]) == 0
    assert list_kept(here) == ["failed", "other", "running", "stopped"]


def test_a_run_that_may_need_its_checkpoints_keeps_them_whoever_asks(here):
    shutil.rmtree(here / "other" / "model")
    for name in ("stopped", "failed", "running", "other"):
        with pytest.raises(ConfigError, match="has not finished, or has no model/"):
            remove_checkpoints(here / name)
    assert main(["--prune", "--yes"]) == 0
    assert list_kept(here) == ["failed", "other", "running", "stopped"]


def test_without_a_terminal_it_is_listed_and_refused(here, capsys, monkeypatch):
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert main(["--prune"]) == 2
    shown = capsys.readouterr()
    assert "2.0 MB  outputs/finished" in shown.out
    assert shown.err == "rlhf_exp runs: --prune: there is no terminal to ask on; --yes removes without a question\n"
    assert list_kept(here) == ["failed", FINISHED, "other", "running", "stopped"]


@pytest.mark.parametrize(("answer", "removes"), {"y": True, "YES": True, "n": False, "": False, "\x04": False}.items())
def test_on_a_terminal_it_asks_and_no_is_the_default(here, answer, removes):
    keys, terminal = pty.openpty()
    os.write(keys, f"{answer}\n".encode() if answer != "\x04" else b"\x04")
    code = "import sys; from rlhf_exp.runs.__main__ import main; sys.exit(main(['--prune']))"
    done = subprocess.run([sys.executable, "-c", code], stdin=terminal, capture_output=True, text=True, timeout=60)
    os.close(keys)
    os.close(terminal)
    assert (done.returncode, done.stderr) == (0, "")
    assert "[y/N]" in done.stdout and ("removed: 4.0 MB" if removes else "nothing was removed") in done.stdout
    assert (FINISHED in list_kept(here)) != removes
