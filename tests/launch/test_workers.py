"""The jobs of a sweep in other processes: these are real, joblib's and submitit's; stand-ins are run in them."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from rlhf_exp.config import ROOT
from rlhf_exp.errors import FAILED, ConfigError, Stop
from rlhf_exp.launch.jobs import Typed, read_sweep
from rlhf_exp.launch.workers import Jobs, Prefixed, Relay, choose_processes, run_jobs
from rlhf_exp.runs.environment import note_command, read_command

joblib = pytest.importorskip("joblib")


@pytest.fixture(scope="module", autouse=True)
def no_processes_left():
    yield
    joblib.externals.loky.get_reusable_executor().shutdown(kill_workers=True)


@pytest.fixture
def start(tmp_path):
    """Run `work(sweep, number, again)` for each job of a sweep; the jobs' exit statuses."""

    def call(work, launcher="joblib", seeds="0,1,2,3"):
        options = ["hydra.launcher.n_jobs=2"] if launcher == "joblib" else []
        typed = [f"seed={seeds}", f"hydra/launcher={launcher}", *options, f"output_dir={tmp_path}"]
        sweep, settings = read_sweep(Typed(typed), ["-m", *typed])
        return run_jobs(sweep, work, settings, use_cpu=True)

    return call


def test_each_job_knows_its_name_folder_and_command_and_the_first_process_its_status(start, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def work(sweep, number, again):
        note_command(sweep.arguments)
        folder = sweep.compose(number)[0].output_dir
        facts = [sweep.name(number), folder, os.getpid(), os.environ["OMP_NUM_THREADS"], read_command()]
        (tmp_path / f"job_{number}.txt").write_text(json.dumps([*facts, sys.stdout.prefix]))
        time.sleep(0.2)
        return 2 if number == 1 else 0

    assert start(work) == [0, 2, 0, 0]
    facts = [json.loads((tmp_path / f"job_{number}.txt").read_text()) for number in range(4)]
    for number, (name, folder, _, threads, command, prefix) in enumerate(facts):
        assert name == f"job {number + 1} of 4 (seed={number} output_dir={tmp_path})"
        assert folder == f"{tmp_path}/0{number}_seed-{number}"
        assert "-m rlhf_exp -m seed=0,1,2,3 hydra/launcher=joblib" in command and prefix == f"[{number + 1}/4] "
        assert int(threads) == max(1, joblib.cpu_count() // 2)
    pids = {fact[2] for fact in facts}
    assert len(pids) == 2 and os.getpid() not in pids
    assert not list(tmp_path.glob(".jobs_*"))


def test_a_signal_to_the_first_process_stops_all_jobs_and_starts_no_other(start, tmp_path):
    def work(sweep, number, again):
        (tmp_path / f"job_{number}.txt").touch()
        try:
            time.sleep(60)
        finally:
            (tmp_path / f"saved_{number}.txt").touch()
        return 0

    def interrupt():
        while len(list(tmp_path.glob("job_*.txt"))) < 2:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(Stop) as stopped:
        start(work)
    thread.join()
    assert stopped.value.status == 143
    assert sorted(path.stem for path in tmp_path.glob("*.txt")) == ["job_0", "job_1", "saved_0", "saved_1"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_to_one_job_starts_no_other(start, tmp_path):
    def work(sweep, number, again):
        (tmp_path / f"job_{number}.txt").touch()
        if number == 0:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)
        return 0

    with pytest.raises(Stop) as stopped:
        start(work)
    assert stopped.value.status == 130
    assert {path.stem for path in tmp_path.glob("*.txt")} <= {"job_0", "job_1"}


KILLED = """
import os, time
from pathlib import Path
from rlhf_exp.launch.jobs import Typed, read_sweep
from rlhf_exp.launch.workers import run_jobs

def work(sweep, number, again):
    (sweep.folder / f"began_{os.getpid()}").touch()
    try:
        time.sleep(60)
    finally:
        (sweep.folder / f"told_{os.getpid()}").touch()

typed = ["seed=0,1", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", f"output_dir={os.getcwd()}"]
sweep, settings = read_sweep(Typed(typed), [])
run_jobs(sweep, work, settings, True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_jobs_stop_also_if_the_first_process_is_killed(tmp_path):
    def wait_for(begin):
        while len(found := list(tmp_path.glob(f"{begin}_*"))) < 2:
            assert first.poll() is None or begin == "told"
            time.sleep(0.1)
        return found

    first = subprocess.Popen([sys.executable, "-c", KILLED], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})
    wait_for("began")
    first.kill()
    first.wait()
    for path in wait_for("told"):
        os.kill(int(path.name.partition("_")[2]), signal.SIGKILL)


def test_the_death_of_a_process_is_one_line_and_a_failure(start, capsys):
    assert start(lambda sweep, number, again: os.kill(os.getpid(), signal.SIGKILL)) == [FAILED] * 4
    line = "rlhf_exp: the process of a job has died (out of memory?), and those of the other jobs were ended"
    assert line in capsys.readouterr().err.splitlines()


def test_the_second_signal_is_passed_on_and_the_third_ends_the_wait(tmp_path, monkeypatch):
    sent = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    (tmp_path / "0.json").write_text('{"pid": 71, "slurm": null}')
    (tmp_path / "1.json").write_text('{"status": 0}')
    relay = Relay(Jobs(None, None, tmp_path))
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
    assert choose_processes(wanted, jobs, use_cpu) == chosen


def test_lines_of_several_processes_are_whole_and_say_whose_they_are():
    out = io.StringIO()
    stream = Prefixed(out)
    stream.prefix = "[3/12] "
    print("\na", "b", file=stream, end="")
    assert out.getvalue() == ""
    print(" c\nd", file=stream)
    assert out.getvalue() == "[3/12] a b c\n[3/12] d\n"


def test_slurm_that_is_not_there_is_one_line(start, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="hydra.launcher: Could not detect"):
        start(None, "submitit_slurm", "0,1")


def test_a_job_of_slurm_is_done_when_squeue_says_so_or_lists_it_no_more():
    queue = pytest.importorskip("rlhf_exp.launch.slurm").Queue()
    for job in ("3_0", "3_1", "3_2", "3_3", "4"):
        queue.register_job(job)
    queue._info_dict.update(
        queue.read_info(b"3_0|PENDING\n3_1|CONFIGURING\n3_2|COMPLETING\n3_3|OUT_OF_MEMORY\n5|FAILED\n")
    )
    assert [queue.is_done(job, mode="cache") for job in ("3_0", "3_1", "3_2", "3_3", "4")] == [False] * 3 + [True] * 2
