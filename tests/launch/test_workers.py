"""A sweep in several processes, with joblib's launcher: real processes, whose jobs are stand-ins."""

import io
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from hydra_plugins.rlhf_exp_sweeps import ParallelLauncher
from rlhf_exp.errors import Stop
from rlhf_exp.launch import sweep, workers
from rlhf_exp.launch.workers import Jobs, Prefixed, Relay

joblib = pytest.importorskip("joblib")


@pytest.fixture(scope="module", autouse=True)
def no_processes_left():
    yield
    joblib.externals.loky.get_reusable_executor().shutdown(kill_workers=True)


@pytest.fixture
def start(command_line, monkeypatch, tmp_path):
    """Start a sweep of four jobs in two processes, `work(cfg, settings, jobs, again)` standing in for each."""
    monkeypatch.setattr(sweep, "check_jobs", lambda jobs, composed, listed: ([], composed))

    def call(work, folder=f"output_dir={tmp_path}"):
        monkeypatch.setattr(sweep, "run_job", work)
        launcher = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
        return command_line("-m", "seed=0,1,2,3", *launcher, folder, cwd=tmp_path)

    return call


def test_each_job_knows_its_name_folder_and_command_and_the_first_process_its_status(start, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def work(cfg, settings, jobs, again):
        jobs.place(cfg, settings)
        name = jobs.name(settings.job.num, settings.overrides.task)
        facts = [name, cfg.output_dir, os.getpid(), os.environ["OMP_NUM_THREADS"], sys.argv[1:], sys.stdout.prefix]
        (tmp_path / f"seed_{cfg.seed}.txt").write_text(json.dumps(facts))
        time.sleep(0.2)
        return 2 if cfg.seed == 1 else 0

    done = start(work)
    assert (done.returncode, done.stderr) == (2, "rlhf_exp: 1 of 4 jobs did not succeed (2: status 2)\n")
    facts = [json.loads((tmp_path / f"seed_{seed}.txt").read_text()) for seed in range(4)]
    for seed, (name, folder, _, threads, argv, prefix) in enumerate(facts):
        assert name == f"job {seed + 1} of 4 (seed={seed} output_dir={tmp_path})"
        assert folder == f"{tmp_path}/0{seed}_seed-{seed}"
        assert (argv[:2], prefix) == (["-m", "seed=0,1,2,3"], f"[{seed + 1}/4] ")
        assert int(threads) == max(1, joblib.cpu_count() // 2)
    pids = {fact[2] for fact in facts}
    assert len(pids) == 2 and os.getpid() not in pids
    assert not list(tmp_path.glob(".jobs_*"))


def test_a_sweep_without_a_name_has_one_folder_in_all_its_processes(start, tmp_path):
    def work(cfg, settings, jobs, again):
        (jobs.folder / f"seed_{cfg.seed}.txt").write_text(settings.sweep.dir)
        return 0

    assert start(work, f"hydra.sweep.dir={tmp_path}/${{now:%Y}}").returncode == 0
    [folder] = [path for path in tmp_path.glob("*") if path.is_dir()]
    assert [path.read_text() for path in folder.glob("seed_*.txt")] == [str(folder)] * 4


def test_a_signal_to_the_first_process_stops_all_jobs_and_starts_no_other(start, tmp_path):
    def work(cfg, settings, jobs, again):
        (tmp_path / f"seed_{cfg.seed}.txt").touch()
        try:
            time.sleep(60)
        finally:
            (tmp_path / f"saved_{cfg.seed}.txt").touch()
        return 0

    def interrupt():
        while len(list(tmp_path.glob("seed_*.txt"))) < 2:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=interrupt)
    thread.start()
    done = start(work)
    thread.join()
    assert done.returncode == 143
    assert sorted(path.name for path in tmp_path.glob("*.txt")) == [
        "saved_0.txt", "saved_1.txt", "seed_0.txt", "seed_1.txt",
    ]  # fmt: skip
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_to_one_job_starts_no_other(start, tmp_path):
    def work(cfg, settings, jobs, again):
        (tmp_path / f"seed_{cfg.seed}.txt").touch()
        if cfg.seed == 0:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)
        return 0

    assert start(work).returncode == 130
    assert {path.name for path in tmp_path.glob("*.txt")} <= {"seed_0.txt", "seed_1.txt"}


def test_the_death_of_a_process_is_one_line_and_status_1(start):
    done = start(lambda cfg, settings, jobs, again: os.kill(os.getpid(), signal.SIGKILL))
    assert done.returncode == 1
    line = "rlhf_exp: the process of a job has died (out of memory?), and those of the other jobs were ended"
    assert line in done.stderr.splitlines()


def test_the_second_signal_is_passed_on_and_the_third_ends_the_wait(tmp_path, monkeypatch):
    sent = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    (tmp_path / "0.json").write_text('{"pid": 71, "slurm": null}')
    (tmp_path / "1.json").write_text('{"status": 0}')
    relay = Relay(Jobs(None, [], tmp_path, 2, frozenset(), True, notes=tmp_path))
    relay._handle(signal.SIGTERM, None)
    relay._handle(signal.SIGINT, None)
    assert sent == [(71, signal.SIGTERM), (71, signal.SIGINT)]
    with pytest.raises(Stop):
        relay._handle(signal.SIGINT, None)


@pytest.mark.parametrize(
    ("wanted", "jobs", "use_cpu", "chosen"),
    [(-1, 12, True, 4), (-1, 3, True, 3), (-1, 12, False, 1), (2, 12, False, 2)],
)
def test_as_many_jobs_run_at_once_as_there_are_cores_and_one_on_a_gpu(monkeypatch, wanted, jobs, use_cpu, chosen):
    monkeypatch.setattr("joblib.cpu_count", lambda: 4)
    launcher = ParallelLauncher(n_jobs=wanted)
    launcher.task_function = Jobs(None, [], Path("sweep"), jobs, frozenset(), use_cpu)
    launcher.share_cores(jobs)
    assert launcher.joblib["n_jobs"] == chosen


def test_lines_of_several_processes_are_whole_and_say_whose_they_are():
    out = io.StringIO()
    stream = Prefixed(out)
    stream.prefix = "[3/12] "
    print("\na", "b", file=stream, end="")
    assert out.getvalue() == ""
    print(" c\nd", file=stream)
    assert out.getvalue() == "[3/12] a b c\n[3/12] d\n"


def test_a_job_of_an_array_has_its_own_name_for_slurm_and_not_that_of_the_array(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "4")
    assert workers._name_slurm_job() is None
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    assert workers._name_slurm_job() == "4"
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "4")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "1")
    assert workers._name_slurm_job() == "4_1"
