"""Sweeps on a Slurm of one node: what docs/clusters.md says of time limits, preemption, jobs that die or are cancelled,
and commands that are ended. Slurm, its jobs and the runs are real; the model is the shipped one."""

import os
import signal
from pathlib import Path

import pytest

from rlhf_exp.runs.load import load_run

SMALL = (
    *("device=cpu", "device.threads=1", "eval.rows=8", "eval.cache_dir=null", "task.baselines=false", "max_tokens=8"),
    *("algo.args.per_device_train_batch_size=4", "algo.args.num_generations=4", "algo.args.logging_steps=1"),
    *("algo.args.save_steps=20", "+reward.weights.own=1.0"),
    f"+reward.functions.own={Path(__file__).parent / 'reward.py'}:letters",
    *("hydra.launcher.cpus_per_task=1", "hydra.launcher.mem_gb=3"),
)
STEPS = 40
TRAINED = f"algo.args.max_steps={STEPS}"


def read_logs(folder):
    return "".join(path.read_text() for path in sorted((folder / "sweep" / ".submitit").glob("*_log.*")))


def wait_for_steps(cluster, *jobs):
    """Wait until each of the jobs is at work."""
    for path in (job / "metrics.jsonl" for job in jobs):
        cluster.wait_until(lambda path=path: path.exists() and path.read_text().count("\n") >= 5, f"step 5 of {path}")


def end(process):
    """The exit status of the command."""
    return process.wait(timeout=500)


def finished(*jobs, steps=STEPS):
    """Refuse runs that have not finished, or that did not make each step once."""
    for run in map(load_run, jobs):
        assert run.status == "finished"
        assert [row["step"] for row in run.metrics] == list(range(1, steps + 1))


def test_a_job_at_its_time_limit_saves_and_ends_like_one_without_interruption_or_a_warning(cluster, tmp_path):
    limit = ("hydra.launcher.timeout_min=2", "hydra.launcher.signal_delay_s=5", "hydra.launcher.max_num_timeout=9")
    process = cluster.start(tmp_path, *SMALL, *limit, "algo.args.max_steps=160", "run.name=limited,whole", SLOW="0")
    assert end(process) == 0
    assert "disabled" in cluster.call("sacct", check=False)
    output = (tmp_path / "output.txt").read_text()
    assert "sacct" not in output and "accounting" not in output and "submitit WARNING" not in output
    limited, whole = tmp_path / "sweep" / "00_run.name-limited", tmp_path / "sweep" / "01_run.name-whole"
    finished(limited, whole, steps=160)
    for one, other in zip(load_run(limited).metrics, load_run(whole).metrics, strict=True):
        assert (one["loss"], one["grad_norm"], one["reward"]) == (other["loss"], other["grad_norm"], other["reward"])
    logs = read_logs(tmp_path)
    assert "SIGUSR2: saves a checkpoint" in logs and "Requeued job" in logs and "resuming: " in logs
    assert (tmp_path / "sweep" / "report.html").is_file()


def test_a_job_that_may_not_run_again_after_its_time_limit_has_a_checkpoint(cluster, tmp_path):
    limit = ("hydra.launcher.timeout_min=2", "hydra.launcher.signal_delay_s=5")
    process = cluster.start(tmp_path, *SMALL, *limit, "algo.args.max_steps=160", "seed=0,1", SLOW="0,1")
    assert end(process) == 128 + signal.SIGUSR2
    output = (tmp_path / "output.txt").read_text()
    assert "2 of 2 jobs did not succeed (1: status 140, 2: status 140)" in output
    assert "timed-out too many times" in read_logs(tmp_path)
    for job in sorted((tmp_path / "sweep").glob("0?_seed-?")):
        assert load_run(job).status == "stopped" and list(job.glob("checkpoints/checkpoint-*"))


@pytest.mark.parametrize("grace_s", [60, 0])
def test_preempted_jobs_go_on_where_they_stopped(cluster, tmp_path, grace_s):
    cluster.call("scontrol", "update", "PartitionName=main", f"GraceTime={grace_s}")
    process = cluster.start(tmp_path, *SMALL, TRAINED, "seed=0,1", SLOW="0,1")
    jobs = [tmp_path / "sweep" / f"0{seed}_seed-{seed}" for seed in (0, 1)]
    wait_for_steps(cluster, *jobs)
    cluster.call("sbatch", "-p", "high", "-n2", "--mem=1000", "--output=/dev/null", "--wrap", "sleep 3")
    assert end(process) == 0
    finished(*jobs)
    assert read_logs(tmp_path).count("resuming: ") == 2


def test_a_job_that_takes_too_much_memory_is_named_and_the_others_go_on(cluster, tmp_path):
    process = cluster.start(tmp_path, *SMALL, TRAINED, "seed=0,1", HUNGRY="0", SLOW="0")
    assert end(process) == 1
    output = (tmp_path / "output.txt").read_text()
    assert "rlhf_exp: the process of job 1 has died (state: FAILED), see " in output
    assert "rlhf_exp: 1 of 2 jobs did not succeed" in output and "Traceback" not in output
    assert "exceeded memory limit" in read_logs(tmp_path)
    finished(tmp_path / "sweep" / "01_seed-1")


def test_cancelled_jobs_stay_cancelled_and_the_repeated_command_makes_what_is_missing(cluster, tmp_path):
    given = (*SMALL, TRAINED, "seed=0,1,2", "skip_finished=true")
    process = cluster.start(tmp_path, *given, SLOW="0")
    jobs = [tmp_path / "sweep" / f"seed-{seed}" for seed in (0, 1, 2)]
    wait_for_steps(cluster, jobs[0])
    array = cluster.call("squeue", "--noheader", "--states=RUNNING", "--format=%F").split()[0]
    cluster.call("scancel", f"{array}_2")  # waits, or has just begun
    cluster.call("scancel", f"{array}_0")
    assert end(process) != 0
    output = (tmp_path / "output.txt").read_text()
    assert "rlhf_exp: 2 of 3 jobs did not succeed (1: status 143, 3: status " in output
    assert load_run(jobs[0]).status == "stopped" and list(jobs[0].glob("checkpoints/checkpoint-*"))
    assert "Requeued job" not in read_logs(tmp_path)
    finished(jobs[1])

    assert end(cluster.start(tmp_path, *given)) == 0
    finished(*jobs)
    logs = read_logs(tmp_path)
    assert f"resuming: {jobs[0]}" in logs and f"finished already: {jobs[1]}" in logs


def test_ctrl_c_stops_the_running_jobs_and_takes_the_others_out_of_the_queue(cluster, tmp_path):
    given = (*SMALL, TRAINED, "seed=0,1,2", "skip_finished=true")
    process = cluster.start(tmp_path, *given, SLOW="0,1,2")
    jobs = [tmp_path / "sweep" / f"seed-{seed}" for seed in (0, 1, 2)]
    wait_for_steps(cluster, *jobs[:2])
    os.killpg(process.pid, signal.SIGINT)
    assert end(process) == 128 + signal.SIGINT
    assert not cluster.call("squeue", "--noheader")
    assert [load_run(job).status for job in jobs[:2]] == ["stopped", "stopped"] and not jobs[2].exists()
    assert "has died" not in (tmp_path / "output.txt").read_text()

    assert end(cluster.start(tmp_path, *given)) == 0
    finished(*jobs)
    assert read_logs(tmp_path).count("resuming: ") == 2


def test_jobs_go_on_without_the_command_and_are_skipped_when_it_is_repeated(cluster, tmp_path):
    given = (*SMALL, TRAINED, "seed=0,1", "skip_finished=true")
    process = cluster.start(tmp_path, *given, SLOW="0,1")
    jobs = [tmp_path / "sweep" / f"seed-{seed}" for seed in (0, 1)]
    wait_for_steps(cluster, jobs[0])
    process.kill()
    process.wait()
    cluster.wait_until(lambda: not cluster.call("squeue", "--noheader"), "the jobs end")
    finished(*jobs)
    assert not (tmp_path / "sweep" / "report.html").exists()

    assert end(cluster.start(tmp_path, *given)) == 0
    assert (tmp_path / "sweep" / "report.html").is_file()
    assert read_logs(tmp_path).count("finished already: ") == 2


def test_what_sbatch_refuses_is_a_line_and_status_2(cluster, tmp_path):
    process = cluster.start(tmp_path, *SMALL, TRAINED, "seed=0,1", "hydra.launcher.partition=gpu")
    assert end(process) == 2
    output = (tmp_path / "output.txt").read_text()
    assert "rlhf_exp: hydra.launcher: sbatch: error: " in output and "invalid partition" in output
    assert "Traceback" not in output
