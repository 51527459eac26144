"""Signals: what is noted, what is raised, and that the line at the end is true."""

import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from rlhf_exp.errors import Stop
from rlhf_exp.runs import stopping
from rlhf_exp.runs.stopping import SIGNALS, StopSignals, describe_restart
from tests.runs.building import leave_checkpoint

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test sets."""
    now = [100.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now[0])
    return now


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_nothing_can_wait_for_stops_at_once_and_the_handlers_from_before_come_back(number):
    before = [signal.getsignal(each) for each in SIGNALS]
    with pytest.raises(Stop) as caught, StopSignals():
        send(number)
    assert (caught.value.name, caught.value.status) == (number.name, 128 + number)
    assert [signal.getsignal(each) for each in SIGNALS] == before


@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.parametrize(("second", "stops"), [("SIGINT", True), ("SIGTERM", True), ("SIGUSR1", False)])
def test_while_training_runs_a_first_signal_is_noted_and_a_later_one_stops_at_once(first, second, stops, clock, capfd):
    with StopSignals() as signals:
        signals.may_wait = True
        send(first)
        send(first)  # within a second: `timeout` sends to the process and to its group
        assert signals.received == first
        clock[0] += 5
        with pytest.raises(Stop, match=str(int(signal.Signals[second]))) if stops else nullcontext():
            send(signal.Signals[second])
    assert (
        capfd.readouterr().err.strip()
        == f"{first.name}: saves a checkpoint as soon as it can, then stops (again: at once)"
    )


def test_an_ignored_signal_stays_ignored_as_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            send(signal.SIGHUP)
            assert signals.received is None
    finally:
        signal.signal(signal.SIGHUP, before)


HUNG_UP = """
import fcntl, sys, termios, time
from rlhf_exp.runs.stopping import StopSignals
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
with StopSignals() as signals:
    signals.may_wait = True
    print("ready", flush=True)
    while not signals.received:
        time.sleep(0.01)
    for _ in range(3):
        print("a line", flush=True)
        print("a bar", file=sys.stderr, flush=True)
    open("saved", "w").write(signals.received.name)
"""


def test_after_the_terminal_is_closed_printing_does_not_fail(tmp_path):
    terminal, child_end = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", HUNG_UP], stdin=child_end, stdout=child_end, stderr=child_end, cwd=tmp_path,
        start_new_session=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    os.close(child_end)
    assert os.read(terminal, 100).strip() == b"ready"
    os.close(terminal)
    assert process.wait(timeout=60) == 0
    assert (tmp_path / "saved").read_text() == "SIGHUP"


def test_after_what_is_not_finite_the_last_checkpoint_is_a_start_model_at_a_lower_rate(tmp_path):
    leave_checkpoint(tmp_path, 40)
    saved = describe_restart(tmp_path, ["algo.args.learning_rate=1e-05"])
    assert "from step 40" in saved
    assert saved.endswith(f": model.path={tmp_path}/checkpoints/checkpoint-40 algo.args.learning_rate=1e-05")
