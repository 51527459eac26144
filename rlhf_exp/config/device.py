"""What the machine can do, and how a step is divided among its processes, found out without importing torch.

    cuda_major()                                # 0 on a CPU: ${rlhf_exp.use_cpu:} in conf/device/auto.yaml
    count_processes(cfg)                        # here; in a dry run those of hardware=
    count_rows(4, 128, cfg)                     # rows of a pass in each process
    count_passes(128, cfg)                      # passes of a step

In conf/experiment the last two are ${rlhf_exp.rows:4,128} and ${rlhf_exp.passes:128}, so that a study has the same step
on any hardware.
"""

import ctypes
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlhf_exp import processes

_MAJOR = 75  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR in cuda.h; a device's handle is its number
_AMPERE = 8  # major compute capability; the first with bfloat16


@cache
def find_version(package: str) -> str | None:
    """The installed version; None if the package is not installed."""
    with suppress(PackageNotFoundError):
        return version(package)
    return None


@cache
def cuda_major() -> int:
    """Major compute capability of the first visible GPU; 0 if torch is a CPU build or the driver shows none.

    The driver itself takes CUDA_VISIBLE_DEVICES into account.
    """
    if (find_version("torch") or "+cpu").endswith("+cpu"):
        return 0
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count, major = ctypes.c_int(0), ctypes.c_int(0)
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or count.value < 1
    failed = failed or driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, 0)
    return 0 if failed else major.value


def has_bf16() -> bool:
    """Whether the first visible GPU computes in bfloat16."""
    return cuda_major() >= _AMPERE


@cache
def cpu_has_bf16() -> bool:
    """Whether the CPU has instructions for bfloat16; others only imitate it, and slowly. As torch.cpu.get_capabilities
    tells, without the seconds that torch takes."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return False
    return bool(flags & {"avx512_bf16", "amx_bf16", "bf16"})  # the last is ARM's


def choose_attention(dtype: str, use_cpu: bool) -> str:
    """flash_attention_2 if it can run: its package, a GPU of Ampere or newer, half precision; else sdpa."""
    can = not use_cpu and dtype != "float32" and find_spec("flash_attn") is not None and has_bf16()
    return "flash_attention_2" if can else "sdpa"


def count_processes(cfg: Any) -> int:
    """The processes of the run, of a composed or a checked config: in a dry run, one for each GPU of `hardware`."""
    return int(cfg.hardware.gpus) if targets_other_hardware(cfg) else processes.count()


def targets_other_hardware(cfg: Any) -> bool:
    """Whether a dry run is about another machine, the GPUs of `hardware`."""
    return bool(cfg.dry_run and cfg.hardware.gpus)


def count_rows(at_once: int, step: int, cfg: Any) -> int:
    """Rows of a forward and backward pass in each process, of a step of `step` rows.

    Args:
        at_once: as many as fit on a GPU of 24 GB.

    Raises:
        ValueError: the processes cannot have equally many rows.
    """
    n = count_processes(cfg)
    if step % n:
        raise ValueError(f"a step of {step} rows cannot be divided among {n} processes")
    most = at_once * cfg.hardware.batch_factor
    return max(rows for rows in range(1, most + 1) if step // n % rows == 0)


def count_passes(step: int, cfg: Any) -> int:
    """Passes of `algo.args.per_device_train_batch_size` rows in each process, for a step of `step` rows.

    Raises:
        ValueError: such passes do not make that step.
    """
    rows = cfg.algo.args.per_device_train_batch_size * count_processes(cfg)
    if step % rows:
        raise ValueError(f"{rows} rows at once do not divide the study's step of {step}; set both, or neither")
    return step // rows


def count_completions(cfg: Any) -> int:
    """Completions of a rollout in each process, by TRL's rule."""
    args = cfg.algo.args
    if whole := args.get("generation_batch_size"):
        return whole // count_processes(cfg)
    rounds = args.get("steps_per_generation") or args.get("gradient_accumulation_steps", 1)
    return args["per_device_train_batch_size"] * rounds
