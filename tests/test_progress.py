"""What a terminal shows, and what a log gets instead."""

import re
import time
from io import StringIO

from rlhf_exp import progress
from rlhf_exp.errors import paint, say
from tests.analysis.report.test_golden import GOLDEN, terminal_table


class Terminal(StringIO):
    def isatty(self):
        return True


def open_terminal(monkeypatch):
    """A screen in place of the streams, which pytest sets anew for each test."""
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return screen


def count(total, title="evaluate", **more):
    with progress.progress(total, title, "row", **more) as bar:
        for _ in range(total):
            time.sleep(0.001)
            bar.update()


def test_a_log_gets_plain_lines_a_tenth_apart(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PAUSE_S", 1e-4)
    monkeypatch.setenv("TQDM_DISABLE", "1")  # of libraries' bars
    with progress.progress(3, "baselines", "policy") as outer:
        count(100)
        outer.update()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11 and "\x1b" not in "".join(lines)
    assert re.fullmatch(r"evaluate: 10 of 100 \(10%\), 00:00 so far, 00:00 left", lines[0])
    assert lines[-1].startswith("baselines: 1 of 3 (33%), ")


def test_errors_and_health_have_colours_on_a_terminal_alone(monkeypatch):
    terminal = open_terminal(monkeypatch)
    say("seed=x: must be", colour="red")
    assert terminal.getvalue() == "\x1b[31mrlhf_exp: seed=x: must be\x1b[0m\n"
    assert "\n\x1b[33mHealth: warning, " in terminal_table(GOLDEN / "grpo")
    assert paint("x", "red", StringIO()) == "x"
    for name, value in (("TERM", "dumb"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
        assert paint("x", "red", terminal) == "x"
        monkeypatch.setenv("TERM", "xterm")
