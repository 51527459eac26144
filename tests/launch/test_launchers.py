"""Sweeps with submitit's local launcher: real processes, whose jobs are stand-ins."""

import json
import os
import signal
import time

import pytest

from rlhf_exp.launch import sweep

pytest.importorskip("submitit", reason="submitit is not installed")

from submitit.core.core import Job  # noqa: E402

from rlhf_exp.launch.slurm import Queue  # noqa: E402


@pytest.fixture
def start(command_line, monkeypatch, tmp_path):
    """Start a sweep of two jobs, `work(cfg, settings, jobs, again)` standing in for each."""
    monkeypatch.setattr(sweep, "check_jobs", lambda jobs, composed, listed: ([], composed))

    def call(work, executor="local"):
        monkeypatch.setattr(sweep, "run_job", work)
        folder = f"output_dir={tmp_path}"
        return command_line("-m", "seed=0,1", f"hydra/launcher=submitit_{executor}", folder, cwd=tmp_path)

    return call


@pytest.mark.slow
def test_the_first_process_knows_how_jobs_in_others_have_ended_and_where_they_write(start, tmp_path):
    def work(cfg, settings, jobs, again):
        print("a line of the job")
        (tmp_path / f"seed_{cfg.seed}.txt").write_text(json.dumps([os.getpid(), jobs.total, again]))
        return 2 * cfg.seed

    done = start(work)
    assert (done.returncode, done.stderr) == (2, "rlhf_exp: 1 of 2 jobs did not succeed (2: status 2)\n")
    found = [json.loads((tmp_path / f"seed_{seed}.txt").read_text()) for seed in (0, 1)]
    assert len({pid for pid, *_ in found} | {os.getpid()}) == 3
    assert [rest for _, *rest in found] == [[2, False], [2, False]]
    assert f"output of the jobs: {tmp_path}/.submitit" in done.stdout.splitlines()
    logs = "".join(path.read_text() for path in (tmp_path / ".submitit").glob("*.out"))
    assert "[1/2] a line of the job" in logs and "[2/2] a line of the job" in logs


@pytest.mark.slow
@pytest.mark.parametrize("first", [[], [signal.SIGTERM]])  # Slurm sends it before, submitit ignores it
def test_a_preempted_job_starts_again_and_knows_it(start, tmp_path, first):
    def work(cfg, settings, jobs, again):
        with (tmp_path / f"seed_{cfg.seed}.txt").open("a") as file:
            file.write(f"{again} ")
        if cfg.seed == 0 and not again:
            for number in [*first, signal.SIGUSR2]:
                os.kill(os.getpid(), number)
            time.sleep(60)
        return 0

    assert start(work).returncode == 0
    assert [(tmp_path / f"seed_{seed}.txt").read_text() for seed in (0, 1)] == ["False True ", "False "]


@pytest.mark.slow
def test_the_death_of_a_job_is_one_line_and_status_1_and_the_others_go_on(start, tmp_path, monkeypatch):
    monkeypatch.setattr(Job, "_results_timeout_s", 1)  # how long submitit waits for the result of a job that has ended

    def work(cfg, settings, jobs, again):
        if cfg.seed == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(2)
        (tmp_path / "done.txt").touch()
        return 0

    done = start(work)
    assert done.returncode == 1
    assert "rlhf_exp: the process of job 1 has died (state: " in done.stderr
    assert "rlhf_exp: 1 of 2 jobs did not succeed (1: status 1)" in done.stderr
    assert "Traceback" not in done.stderr and (tmp_path / "done.txt").exists()


def test_slurm_that_is_not_there_is_one_line(start, monkeypatch):
    monkeypatch.setenv("PATH", "")
    done = start(None, "slurm")
    assert done.returncode == 2 and done.stderr.startswith("rlhf_exp: hydra.launcher: Could not detect")


def test_a_job_of_slurm_is_done_when_squeue_says_so_or_lists_it_no_more():
    queue = Queue()
    for job in ("3_0", "3_1", "3_2", "3_3", "4"):
        queue.register_job(job)
    queue._info_dict.update(
        queue.read_info(b"3_0|PENDING\n3_1|CONFIGURING\n3_2|COMPLETING\n3_3|OUT_OF_MEMORY\n5|FAILED\n")
    )
    assert [queue.is_done(job, mode="cache") for job in ("3_0", "3_1", "3_2", "3_3", "4")] == [False] * 3 + [True] * 2
