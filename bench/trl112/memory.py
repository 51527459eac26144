"""Run a command that writes a run folder, and read from outside how much memory its training took.

    peak = run_watched(command, environment, folder)    # MB resident: {"floor": 520.1, "peak": 900.4}

`run.json` says which phase a run is in. When the phase before `train` is over, the kernel's high-water mark of the
process is set back (5 into /proc/PID/clear_refs); it is read until `train` is over. So neither evaluation nor the
report is counted. Linux only; nothing is asked of the process that is measured.
"""

import json
import subprocess
import time
from pathlib import Path

EVERY_S = 0.02


def run_watched(command: list[str | Path], environment: dict[str, str], folder: Path) -> dict[str, float]:
    """Run to the end, its output into `folder`.log.

    Returns:
        `floor`, resident when training begins (the libraries, mostly), and `peak`, the most until it ends; in MB
        (10^6 bytes).

    Raises:
        subprocess.CalledProcessError: the command failed; its output ends the log.
    """
    log = folder.with_suffix(".log")
    found: dict[str, float] = {}
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
        while process.poll() is None:
            phases = _read_phases(folder)
            if "train" not in phases and "baseline" in phases:
                if not found:
                    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
                    found["floor"] = _read_status(process.pid, "VmRSS")
                found["peak"] = _read_status(process.pid, "VmHWM") or found["peak"]
            time.sleep(EVERY_S)
    if process.returncode:
        print(log.read_text()[-2000:])
        raise subprocess.CalledProcessError(process.returncode, command)
    return found


def _read_phases(folder: Path) -> dict[str, float]:
    path = folder / "run.json"
    return json.loads(path.read_text())["seconds"] if path.exists() else {}


def _read_status(pid: int, name: str) -> float:
    """A field of /proc/PID/status in MB; 0 of a process that has just ended."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return round(int(line.split()[1]) * 1024 / 1e6, 1)
    return 0.0
