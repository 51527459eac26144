"""The environment of a run, for its record: the command, the commit, the versions of packages, and the peak memory."""

import ctypes
import gc
import os
import re
import resource
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from rlhf_exp import processes
from rlhf_exp.config.device import find_version

PACKAGES = ("torch", "trl", "transformers", "datasets", "accelerate", "peft", "hydra-core", "numpy", "rlhf-exp")


_arguments: list[str] = []


def note_command(arguments: list[str]) -> None:
    """Note the command line by which this process begins a run: completed if it resumes one, or that of the sweep."""
    _arguments[:] = arguments


def read_command() -> str:
    """The command that was noted, quoted for a shell."""
    return shlex.join([*name_launcher(Path(sys.executable).name), *name_program(), *_arguments])


def name_launcher(python: str) -> list[str]:
    """What starts the program: Python, or torchrun, on each machine with the user's own --nnodes and rendezvous."""
    n = processes.count()
    return [python] if n == 1 else ["torchrun", "--nproc_per_node", os.environ.get("LOCAL_WORLD_SIZE") or str(n)]


def name_program() -> list[str]:
    """What Python was started with: `-m` and this package's module, or the user's script that calls the command
    line."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None and sys.argv[0].endswith(".py"):
        return [sys.argv[0]]
    return ["-m", spec.name.removesuffix(".__main__") if spec and spec.name.startswith("rlhf_exp") else "rlhf_exp"]


def list_versions() -> dict[str, str]:
    """The versions of Python and of the packages that determine what a run computes."""
    found = {name: find_version(name) for name in PACKAGES}
    return {"python": sys.version.split()[0], **{name: number for name, number in found.items() if number}}


def read_commit() -> str | None:
    """The commit of the source checkout, with `-dirty` if files differ from it; None for an installed package."""
    root = Path(__file__).parent.parent.parent
    if not (root / ".git").exists():
        return None
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    return None


def peak_memory_mb() -> float:
    """The peak memory since `reset_peak_memory`, in MB (10^6 bytes): on the GPU if torch used one, else resident.
    Without Linux's /proc it is the peak since the process began."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return round(torch.cuda.max_memory_allocated() / 1e6, 1)
    with suppress(OSError):
        if found := re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8")):
            return round(int(found[1]) * 1024 / 1e6, 1)
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


def reset_peak_memory() -> None:
    """Reset the peak memory, since the jobs of a sweep share one process; a machine that cannot keeps it.

    Freed memory is first returned to the system, which torch (on a GPU) and glibc would otherwise keep.

    Source: proc(5), /proc/pid/clear_refs, value 5 (Linux 4.0).
    """
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return
    with suppress(OSError, AttributeError):  # another system; another C library
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
