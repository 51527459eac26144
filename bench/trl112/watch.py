"""Runs a command that writes a run folder, and measures memory and CPU time of its training from outside.

    taken = run_watched(command, environment, folder)    # Taken(floor_mb=520.1, peak_mb=900.4, cpu_s=[12.1, 14.0, ...])

`run.json` says which phase a run is in. When the phase before `train` is over, the kernel's record of the process's
peak memory is reset (5 into /proc/PID/clear_refs); it is read until `train` is over. So neither evaluation nor the
report is counted. Linux only; the measured process needs no change.
"""

import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

EVERY_S = 0.02


@dataclass
class Taken:
    """`floor_mb` is resident when training begins (mostly libraries), `peak_mb` the maximum until it ends, in 10^6
    bytes; `cpu_s` is the CPU time of the process, all threads, at each new line of metrics.jsonl."""

    floor_mb: float = 0.0
    peak_mb: float = 0.0
    cpu_s: list[float] = field(default_factory=list)


def run_watched(command: list[str | Path], environment: dict[str, str], folder: Path) -> Taken:
    """Run the command to its end, with its output in `folder`.log.

    Raises:
        subprocess.CalledProcessError: the command failed; its output ends the log.
        RuntimeError: training was not seen, or a line of the metrics was missed.
    """
    log = folder.with_suffix(".log")
    taken = Taken()
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
        try:
            while process.poll() is None:
                _look(process.pid, folder, taken)
                time.sleep(EVERY_S)
        finally:
            process.kill()  # if the measurement was interrupted; no effect on a process that has ended
    if process.returncode:
        print(log.read_text()[-2000:])
        raise subprocess.CalledProcessError(process.returncode, command)
    lines = _count_lines(folder)
    if not taken.peak_mb or len(taken.cpu_s) != lines:
        raise RuntimeError(f"{folder}: saw {len(taken.cpu_s)} of {lines} rollouts, peak {taken.peak_mb} MB")
    return taken


def _look(pid: int, folder: Path, taken: Taken) -> None:
    phases = _read_phases(folder)
    if "baseline" not in phases:
        return
    if _count_lines(folder) > len(taken.cpu_s):
        taken.cpu_s.append(_read_cpu_s(pid))
    if "train" in phases:
        return
    if not taken.floor_mb:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        taken.floor_mb = _read_status_mb(pid, "VmRSS")
    taken.peak_mb = max(taken.peak_mb, _read_status_mb(pid, "VmHWM"))


def _read_phases(folder: Path) -> dict[str, float]:
    path = folder / "run.json"
    return json.loads(path.read_text())["seconds"] if path.exists() else {}


def _count_lines(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _read_status_mb(pid: int, name: str) -> float:
    """A field of /proc/PID/status; 0 of a process that has just ended."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return round(int(line.split()[1]) * 1024 / 1e6, 1)
    return 0.0


def _read_cpu_s(pid: int) -> float:
    """User and system time: fields 14 and 15 of /proc/PID/stat, counted after the name, which may hold blanks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
