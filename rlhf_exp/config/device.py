"""Finds out without importing torch what the machine can do, for `device=auto` and the choice of attention, and which
versions of packages are installed.

${rlhf_exp.use_cpu:}     # in conf/device/auto.yaml
"""

import ctypes
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

_MAJOR = 75  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR in cuda.h; a device's handle is its number
_AMPERE = 8  # major compute capability; the first with bfloat16


@cache
def find_version(package: str) -> str | None:
    """The installed version; None if the package is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
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


def has_flash_attention() -> bool:
    """Whether flash_attention_2 can run: its package, and a GPU of Ampere or newer."""
    return find_spec("flash_attn") is not None and has_bf16()


def choose_attention(dtype: str, use_cpu: bool) -> str:
    """flash_attention_2 if it can run, which also needs half precision; else sdpa."""
    return "flash_attention_2" if not use_cpu and dtype != "float32" and has_flash_attention() else "sdpa"
