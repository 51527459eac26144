"""How a run ends that does not finish: what its folder, stderr and the exit status say. Its stages are stand-ins."""

import errno
import json
import os
from pathlib import Path

import pytest

from rlhf_exp import pipeline
from rlhf_exp.config import trl_args


@pytest.fixture
def end(command_line, monkeypatch, tmp_path):
    """Run until `stages` ends it: (exit status, lines on stderr, run.json)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trl_args, "build_args", lambda cfg: None)

    def call(stages):
        monkeypatch.setattr(pipeline, "_run_stages", lambda cfg, folder, *_: stages(cfg, folder))
        done = command_line("output_dir=there", "device=cpu", cwd=tmp_path)
        return done.returncode, done.stderr.splitlines(), json.loads(Path("there/run.json").read_text())

    return call


class Odd(BaseException):
    pass


@pytest.mark.parametrize("error", [SystemExit(0), GeneratorExit(), Odd("y"), RuntimeError("boom\nmore")])
def test_whatever_ends_a_run_early_leaves_a_failed_record_and_status_1(end, error):
    def stages(cfg, folder):
        raise error

    status, lines, record = end(stages)
    assert status == 1
    assert (record["status"], record["error"]) == ("failed", f"{type(error).__name__}: {error}")
    assert record["finished"] is not None
    first = str(error).partition("\n")[0]
    assert lines == [f"rlhf_exp: failed: {type(error).__name__}: {first} (traceback in there/error.log)"]
    assert "in stages" in Path("there/error.log").read_text()


def test_a_disk_that_stays_full_still_lets_the_error_be_read(end, monkeypatch):
    def refuse(path, *args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def stages(cfg, folder):
        monkeypatch.setattr(Path, "write_text", refuse)
        monkeypatch.setattr(Path, "write_bytes", refuse)
        raise RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed")

    status, lines, record = end(stages)
    assert (status, record["status"]) == (1, "running")
    assert len(lines) == 3 and all("No space left on device" in line for line in lines)
    assert lines[2].startswith("rlhf_exp: failed: RuntimeError: PytorchStreamWriter failed writing file data/0")
    assert "(its traceback cannot be written to there/error.log, No space left on device)" in lines[2]


def test_a_finished_run_whose_report_finds_no_space_stays_finished(end, monkeypatch):
    def write_report(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "there/report.md")

    monkeypatch.setattr(pipeline, "_write_report", write_report)
    status, lines, record = end(lambda cfg, folder: None)
    assert (status, record["status"]) == (1, "finished")
    [line] = lines
    assert "the run has finished, but its report cannot be written, No space left on device" in line
