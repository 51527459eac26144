"""How a run ends that fails or is stopped: what its folder, its lines and the exit status say. Its stages are
stand-ins."""

import errno
import json
import os
import shlex
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlhf_exp import pipeline
from rlhf_exp.config import trl_args
from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError, NonFiniteLoss
from rlhf_exp.runs.plan import check_run_folder


@pytest.fixture
def end(command_line, monkeypatch, tmp_path):
    """Run until `stages(cfg, folder)` ends it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trl_args, "build_args", lambda cfg: SimpleNamespace())

    def call(stages, *typed):
        monkeypatch.setattr(pipeline, "_run_stages", lambda cfg, folder, *_: stages(cfg, folder))
        return command_line(*(typed or ("output_dir=there", "device=cpu")), cwd=tmp_path)

    return call


def read_record():
    return json.loads(Path("there/run.json").read_text())


def stop(*_):
    os.kill(os.getpid(), signal.SIGTERM)


class Odd(BaseException):
    pass


@pytest.mark.parametrize("error", [SystemExit(0), Odd("y"), RuntimeError("boom\nmore")])
def test_whatever_ends_a_run_early_leaves_a_failed_record_and_status_1(end, error):
    def stages(cfg, folder):
        raise error

    done, record = end(stages), read_record()
    assert done.returncode == 1
    assert (record["status"], record["error"]) == ("failed", f"{type(error).__name__}: {error}")
    assert record["finished"] is not None
    first = str(error).partition("\n")[0]
    assert done.stderr == f"rlhf_exp: failed: {type(error).__name__}: {first} (traceback in there/error.log)\n"
    assert "in stages" in Path("there/error.log").read_text()


@pytest.mark.parametrize(
    ("phase", "typed"), [("baseline", "algo=none"), ("baseline", "algo=grpo"), ("train", "algo=grpo")]
)
def test_what_is_not_finite_before_training_is_the_models_and_no_lower_rate_is_advised(end, phase, typed):
    def stages(cfg, folder):
        with folder.phase(phase):
            raise NonFiniteLoss("the policy's logits are not finite")

    done = end(stages, "output_dir=there", "device=cpu", typed)
    advised = "Nothing was trained yet: it is the weights of tiny, or model.dtype=float32\n" in done.stdout
    assert (done.returncode, advised, "learning_rate" in done.stdout) == (1, phase != "train", phase == "train")


def test_a_disk_that_stays_full_still_lets_the_error_be_read(end, monkeypatch):
    def refuse(path, *args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def stages(cfg, folder):
        monkeypatch.setattr(Path, "write_text", refuse)
        monkeypatch.setattr(Path, "write_bytes", refuse)
        raise RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed")

    done = end(stages)
    lines = done.stderr.splitlines()
    assert (done.returncode, read_record()["status"]) == (1, "running")
    assert len(lines) == 3 and all("No space left on device" in line for line in lines)
    assert lines[2].startswith("rlhf_exp: failed: RuntimeError: PytorchStreamWriter failed writing file data/0")
    assert "(its traceback cannot be written to there/error.log, No space left on device)" in lines[2]


def test_a_finished_run_whose_report_finds_no_space_stays_finished(end, monkeypatch):
    def write_report(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "there/report.md")

    monkeypatch.setattr(pipeline, "_write_report", write_report)
    done = end(lambda cfg, folder: None)
    assert (done.returncode, read_record()["status"]) == (1, "finished")
    [line] = done.stderr.splitlines()
    assert "the run has finished, but its report cannot be written, No space left on device" in line


@pytest.mark.parametrize(
    "typed", [["-m", "seed=0,1", "skip_finished=true", "device=cpu", "output_dir=a b"], ["seed=3", "output_dir=there"]]
)
def test_a_stopped_run_or_job_of_a_sweep_starts_anew_by_the_command_that_was_typed(end, typed):
    done = end(stop, *typed)
    assert done.returncode == 143
    [line] = [line for line in done.stdout.splitlines() if line.startswith("Stopped")]
    assert line.startswith("Stopped by SIGTERM; there is no checkpoint yet. Start anew with: ")
    assert line.endswith(f" -m rlhf_exp {shlex.join(typed)}")


def test_a_model_without_a_checkpoint_is_not_written_over(end):
    def stop_after_training(cfg, folder):
        (folder.path / "model").mkdir()
        stop()

    assert end(stop_after_training).returncode == 143
    assert (read_record()["status"], read_record()["error"]) == ("stopped", "SIGTERM")
    for way, line in {"output_dir=there": "output_dir=there: already holds", "resume=there": "resume=there: "}.items():
        with pytest.raises(ConfigError, match=f"^{line}"):
            compose_config(["device=cpu", "output_dir=there", way], [check_run_folder])


def test_a_signal_while_the_report_is_written_leaves_a_finished_run(end, monkeypatch):
    monkeypatch.setattr(pipeline, "_write_report", stop)
    done = end(lambda cfg, folder: None)
    assert (done.returncode, read_record()["status"]) == (143, "finished")
    assert "Finished; SIGTERM cut off its report. Write it with: python -m rlhf_exp report " in done.stdout
