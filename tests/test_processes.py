"""The functions that ranks call together: real processes, without a model."""

import json
import os
import socket
import subprocess
import sys

import pytest

from rlhf_exp import processes

TALK = """
import json, sys
from contextlib import nullcontext
from rlhf_exp import processes
from rlhf_exp.errors import ConfigError

def refuse():
    raise ConfigError(["one=1: no", "two=2: no"])

processes.connect(timeout_s=60, use_cpu=True)
rank = processes.rank()
found = {"rank": rank, "broadcast": processes.broadcast(rank), "gather": processes.gather("ab"[rank])}
found["sums"] = processes.sum_over_ranks([1.0, processes.rank()])
found["shards"] = processes.gather_dict({i: i * i for i in processes.shard(range(5))})
found["once"] = processes.on_main(lambda: f"by {processes.rank()}")
try:
    processes.on_main(refuse)
except ConfigError as error:
    found["refused"] = error.problems
with processes.enter_on_main(nullcontext("entered")) as found["entered"]:
    pass
print(json.dumps(found), flush=True)
processes.barrier()
processes.leave(1 if rank else 2)
"""


def start(code, ranks, *arguments):
    """Each rank as torchrun would start it; what each printed, and its exit status."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = os.environ | {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    return [(process.communicate(timeout=120)[0], process.returncode) for process in started]


@pytest.mark.slow
def test_ranks_broadcast_gather_add_and_refuse_together():
    ends = start(TALK, 2)
    assert [status for _, status in ends] == [2, 1]
    for rank, (printed, _) in enumerate(ends):
        found = json.loads(printed)
        assert found["rank"] == rank and found["broadcast"] == 0 and found["gather"] == ["a", "b"]
        assert found["sums"] == [2.0, 1.0]
        assert found["shards"] == {str(i): i * i for i in range(5)}
        assert found["once"] == "by 0"
        assert found["refused"] == ["one=1: no", "two=2: no"]
        assert found["entered"] == "entered"


@pytest.mark.parametrize(
    ("number", "said"), [("2", "without RANK, LOCAL_RANK, MASTER_ADDR, MASTER_PORT"), ("two", "must be a whole number")]
)
def test_a_number_of_processes_that_torchrun_did_not_set_is_refused(monkeypatch, command_line, tmp_path, number, said):
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "")
    assert processes.count() == 1 and processes.check() == []
    monkeypatch.setenv("WORLD_SIZE", number)
    done = command_line("device=cpu", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"rlhf_exp: WORLD_SIZE={number}: {said}") and done.stderr.count("\n") == 1
