"""Claims of a folder by several processes; the file system and the processes are real."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.lock import claim, find_owner, follow_link, point_latest

START_TOGETHER = """
import sys, time
from pathlib import Path
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.lock import claim
Path(f"ready-{sys.argv[3]}").touch()
while not Path("go").exists():
    time.sleep(0.001)
try:
    with claim(sys.argv[1], sys.argv[2] == "numbered") as folder:
        print(folder, flush=True)
        sys.stdin.read()
except ConfigError:
    print("taken")
"""


def start_together(count, *arguments):
    """What each of `count` processes that claim at the same moment has got, while the first ones still live."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", START_TOGETHER, *arguments, str(i)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for i in range(count)
    ]  # fmt: skip
    while len(list(Path().glob("ready-*"))) < count:
        time.sleep(0.01)
    Path("go").touch()
    got = sorted(process.stdout.readline().strip() for process in processes)
    for process in processes:
        process.communicate()
    return got


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "got"),
    [("numbered", ["outputs/x", "outputs/x_2", "outputs/x_3"]), ("named", ["outputs/x", "taken", "taken"])],
)
def test_of_processes_that_claim_a_folder_at_once_each_gets_its_own_or_one_gets_it(name, got):
    assert start_together(3, "outputs/x", name) == got


@pytest.fixture
def owner():
    """A process that holds the folder `x`."""
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom rlhf_exp.runs.lock import claim\n"
        "with claim('x'):\n"
        "    child = os.fork()\n"  # as a data loader's worker is made
        "    if child == 0:\n"
        "        print(os.getpid(), flush=True)\n"  # here it has closed the lock
        "        sys.stdin.read()\n        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.child = int(process.stdout.readline())
    yield process
    process.kill()
    process.communicate()


def test_a_living_owner_keeps_others_out_and_a_killed_one_holds_nothing_though_its_child_lives(owner):
    named = f"process {owner.pid} on {os.uname().nodename}"
    assert find_owner(Path("x")) == named
    with pytest.raises(ConfigError) as caught, claim("x"):
        pass
    assert caught.value.problems == [f"output_dir=x: a run is going on in it ({named})"]
    owner.kill()
    owner.wait()
    os.kill(owner.child, 0)
    assert find_owner(Path("x")) is None
    with claim("x") as folder:
        assert folder == Path("x")
    os.kill(owner.child, signal.SIGKILL)


def test_an_error_is_kept_in_the_folder_which_is_released_though_it_cannot_be_removed():
    with pytest.raises(ValueError, match="boom") as caught, claim("x") as folder:
        (folder / ".lock").unlink()
        (folder / ".lock").mkdir()  # as NFS does with a file that is removed while it is open
        raise ValueError("boom")
    assert caught.value.__notes__ == ["rlhf_exp: failed: ValueError: boom (traceback in x/error.log)"]
    shutil.rmtree("x")
    with claim("x"):
        pass


def test_latest_points_at_the_newest_run_below_outputs_and_is_read_through():
    for folder in ("outputs/countdown/grpo/a", "outputs/b", "elsewhere/c"):
        Path(folder).mkdir(parents=True)
        with point_latest(Path(folder)):
            pass
    assert os.readlink("outputs/latest") == "b"
    assert follow_link("outputs/latest") == "outputs/b" == follow_link("outputs/b")
    assert sorted(os.listdir("outputs")) == ["b", "countdown", "latest"]


def test_latest_never_points_to_a_run_that_was_refused_but_to_one_that_failed():
    for name in "abc":
        Path(f"outputs/{name}").mkdir(parents=True)
    with pytest.raises(ConfigError), point_latest(Path("outputs/a")):
        raise ConfigError(["refused"])
    assert not os.path.lexists("outputs/latest")
    with pytest.raises(ValueError, match="boom"), point_latest(Path("outputs/b")):
        raise ValueError("boom")
    with pytest.raises(ConfigError), point_latest(Path("outputs/c")):
        raise ConfigError(["refused"])
    assert os.readlink("outputs/latest") == "b"
