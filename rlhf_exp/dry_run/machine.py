"""The machine that a dry run is about: this one, or the one that `hardware=` names.

machine = find_machine(cfg)
machine.where, machine.memory      # "hardware=gpu_24gb", 24e9
"""

import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel, TrainingArguments

from rlhf_exp.config.hardware import count_processes, is_elsewhere
from rlhf_exp.config.schema import Config

MEASURED_S = 0.2  # how long matrices are multiplied to measure this machine's rate
MEASURED_ROWS = 1024  # of the left matrix; about the number of tokens in a batch
MEMORY = Path("/proc/meminfo")


@dataclass(frozen=True)
class Machine:
    """`memory` in bytes, of each GPU or what is free here; the rates of each GPU are those of its maker, or None."""

    where: str
    memory: float
    processes: int
    flops: float | None = None
    bandwidth: float | None = None

    @property
    def is_here(self) -> bool:
        return self.flops is None


def find_machine(cfg: Config) -> Machine:
    """The one of `hardware=` if it has GPUs, else this one."""
    hardware, n = cfg.hardware, count_processes(cfg)
    if not is_elsewhere(cfg):
        return Machine("this computer" if cfg.device.use_cpu else "this GPU", _count_free_memory(cfg.device.use_cpu), n)
    where = f"hardware={hardware.name}" if n == 1 else f"each GPU of hardware={hardware.name}"
    memory, flops, read = hardware.memory_gb or 0, hardware.tflops or 0, hardware.bandwidth_gbs or 0
    return Machine(where, memory * 1e9, n, flops * 1e12, read * 1e9)


def measure_rate(cfg: Config, args: TrainingArguments, model: PreTrainedModel) -> float:
    """This machine's operations per second in a matrix product of the model's width."""
    device = "cpu" if cfg.device.use_cpu else "cuda"
    half = args.bf16 or model.dtype == torch.bfloat16
    width = model.config.get_text_config().hidden_size
    left = torch.ones(MEASURED_ROWS, width, device=device, dtype=torch.bfloat16 if half else torch.float32)
    right = torch.ones(width, 4 * width, device=device, dtype=left.dtype)
    left @ right  # the first product also loads kernels
    products, start = 0, time.perf_counter()
    while time.perf_counter() - start < MEASURED_S:
        left @ right
        products += 1
        if device == "cuda":
            torch.cuda.synchronize()
    return products * 2 * MEASURED_ROWS * 4 * width**2 / (time.perf_counter() - start)


def _count_free_memory(use_cpu: bool) -> int:
    """Bytes that are free on the first visible GPU, or available on this machine, if it tells them (Linux)."""
    if not use_cpu:
        return torch.cuda.mem_get_info()[0]
    found = re.search(r"MemAvailable: +(\d+) kB", MEMORY.read_text()) if MEMORY.is_file() else None
    return int(found[1]) * 1024 if found else sys.maxsize
