"""Debian's slurm-wlm as a cluster of one node with two cores: its own configuration, keys, ports and folders.

`cluster`: started once for all tests. Nothing of the machine's own Slurm is read or changed.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SBIN = "/usr/sbin:/sbin"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "squeue", "scontrol")
ROOT = Path(__file__).parents[2]

# cred_expire: a job that was requeued waits for so long, 120 s by default. Tasks' memory is read every second.
CONF = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser={user}
SlurmdUser={user}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=2000
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=2,sched_interval=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=16000
PartitionName=main Nodes={host} Default=YES PriorityTier=1 GraceTime=60
PartitionName=high Nodes={host} PriorityTier=10 PreemptMode=OFF
"""


@dataclass
class Cluster:
    """`environment` makes Slurm's programs, and so a sweep, use this cluster."""

    environment: dict[str, str]
    logs: Path
    started: list[subprocess.Popen] = field(default_factory=list)

    def call(self, *command, check=True):
        """What one of Slurm's programs prints."""
        done = subprocess.run(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
        )
        assert done.returncode == 0 or not check, (command, done.stdout)
        return done.stdout.strip()

    def start(self, folder, *arguments, **variables):
        """Start `python -m rlhf_exp -m ...` in a process group of its own, as a shell does. What it prints is in
        `folder/output.txt`, its runs are in `folder/sweep`."""
        command = [sys.executable, "-m", "rlhf_exp", "-m", "hydra/launcher=submitit_slurm", *arguments]
        with (folder / "output.txt").open("w") as output:
            process = subprocess.Popen(
                [*command, f"output_dir={folder / 'sweep'}"], env=self.environment | variables, cwd=folder,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.started.append(process)
        return process

    @staticmethod
    def wait_until(found, what, seconds=300):
        """Wait until `found()` is true, and return what it is."""
        end = time.monotonic() + seconds
        while not (value := found()):
            assert time.monotonic() < end, f"not within {seconds} s: {what}"
            time.sleep(0.2)
        return value

    def clear(self):
        """End what a test has left: commands and jobs."""
        for process in self.started:
            process.kill()
            process.wait()
        self.started.clear()
        self.call("scancel", "--partition=main")
        self.call("scancel", "--partition=high")
        self.wait_until(lambda: not self.call("squeue", "--noheader"), "jobs end", 60)


@pytest.fixture(scope="session")
def daemons(tmp_path_factory):
    path = f"{os.environ['PATH']}:{SBIN}"
    if missing := [name for name in PROGRAMS if not shutil.which(name, path=path)]:
        pytest.skip(f"no Slurm here ({', '.join(missing)}); on Debian, as root: apt-get install slurm-wlm")
    folder = tmp_path_factory.mktemp("slurm")
    environment = os.environ | {"PATH": path, "SLURM_CONF": str(folder / "slurm.conf"), "OMP_NUM_THREADS": "1",
                                "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}  # fmt: skip
    for name in ("state", "spool"):
        (folder / name).mkdir()
    values = {"host": socket.gethostname().split(".")[0], "ports": _find_ports(2), "folder": folder}
    (folder / "slurm.conf").write_text(CONF.format(**values, user=subprocess.getoutput("id -un")))
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    places = [f"--{name}={folder}/munge.{name}" for name in ("socket", "pid-file", "log-file", "seed-file")]
    cluster = Cluster(environment, folder)
    with ExitStack() as stack:
        stack.callback(_refuse_left_over, f"SLURM_CONF={folder / 'slurm.conf'}")
        _start(stack, cluster, "munged", "--foreground", "--force", f"--key-file={folder}/munge.key", *places)
        cluster.wait_until((folder / "munge.socket").exists, "munged starts", 20)
        _start(stack, cluster, "slurmctld", "-D", "-i")
        _start(stack, cluster, "slurmd", "-D")
        cluster.wait_until(
            lambda: cluster.call("sinfo", "--noheader", "--states=idle", check=False).count("idle"), "Slurm starts", 60
        )
        yield cluster


@pytest.fixture
def cluster(daemons):
    yield daemons
    daemons.clear()


def _start(stack, cluster, *command):
    """Start a daemon, which ends before those that were started earlier."""
    output = stack.enter_context((cluster.logs / f"{command[0]}.log").open("w"))
    process = subprocess.Popen(command, env=cluster.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    stack.callback(process.wait, timeout=60)
    stack.callback(process.terminate)


def _find_ports(count):
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in sockets]


def _refuse_left_over(variable):
    """End the processes that were started in the cluster's environment, and fail if there were any."""
    left = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (place / "environ").read_bytes():
                left[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, left
