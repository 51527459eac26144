"""Compares the estimated needs of a run with the free memory and disk of this machine."""

import re
import shutil
import sys
from pathlib import Path

import torch

from rlhf_exp.config.schema import Config

MEMORY = Path("/proc/meminfo")


def warn_of_memory(cfg: Config, needed: float) -> str:
    """A warning for the line about memory if `needed` bytes are not free: how many are, and a remedy; else empty."""
    free = _count_free_memory(cfg.device.use_cpu)
    if needed <= free:
        return ""
    ways = {"none": "peft=lora or peft=qlora", "lora": "peft=qlora"}.get(cfg.peft.name)
    way = f"add {ways}" if ways else "use a smaller model or algo.args.per_device_train_batch_size"
    where = "computer" if cfg.device.use_cpu else "GPU"
    return f"; MORE than the {free / 1e9:.2f} GB that are free on this {where}; {way}"


def warn_of_disk(cfg: Config, needed: float) -> str:
    """The same for the disk of the output folder."""
    folder = Path(cfg.output_dir).absolute()
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return f"; MORE than the {say_bytes(free)} that are free in {folder}" if needed > free else ""


def say_bytes(n: float) -> str:
    return f"{n / 1e9:,.2f} GB" if n >= 1e9 else f"{n / 1e6:,.1f} MB"


def _count_free_memory(use_cpu: bool) -> int:
    """Bytes that are free on the first visible GPU, or available on this machine, if it tells them (Linux)."""
    if not use_cpu:
        return torch.cuda.mem_get_info()[0]
    found = re.search(r"MemAvailable: +(\d+) kB", MEMORY.read_text()) if MEMORY.is_file() else None
    return int(found[1]) * 1024 if found else sys.maxsize
