"""The most memory that a phase of a run held, on the GPU or resident."""

import ctypes
import gc
import re
import resource
import sys
from pathlib import Path


def peak_memory_mb() -> float:
    """The peak memory since `reset_peak_memory`, in MB (10^6 bytes): on the GPU if torch used one, else resident.
    Without Linux's /proc it is the peak since the process began."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return round(torch.cuda.max_memory_allocated() / 1e6, 1)
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
        return round(int(found[1]) * 1024 / 1e6, 1)
    except (OSError, TypeError):
        unit = 1 if sys.platform == "darwin" else 1024
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


def reset_peak_memory() -> bool:
    """Reset the peak memory, since the jobs of a sweep share one process. False if the machine cannot.

    Freed memory is first returned to the system, which glibc would otherwise keep.

    Source: proc(5), /proc/pid/clear_refs, value 5 (Linux 4.0).
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        return True
    try:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except (OSError, AttributeError):  # another system; another C library
        return False
    return True
