"""The machine that a dry run is about: this one, or the one that `hardware=` names.

machine = find_machine(cfg)
machine.where, machine.memory      # "hardware=gpu_24gb", 24e9
"""

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel, TrainingArguments

from rlhf_exp.config.device import count_processes, targets_other_hardware
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
    if not targets_other_hardware(cfg):
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

    def multiply(rows: int) -> None:
        left[:rows] @ right
        if device == "cuda":
            torch.cuda.synchronize()

    return 2 * 4 * width**2 * count_rows_per_second(multiply)


def count_rows_per_second(multiply: Callable[[int], None], clock: Callable[[], float] = time.perf_counter) -> float:
    """How many rows of the left matrix `multiply(rows)` does in a second: MEASURED_ROWS at once, or fewer if those
    would take longer than MEASURED_S, as with bfloat16 on a processor that only emulates it."""

    def measure(rows: int) -> float:
        start = clock()
        multiply(rows)
        return clock() - start

    multiply(1)  # the first product also loads kernels
    rows = 1
    while rows < MEASURED_ROWS and 4 * measure(rows) < MEASURED_S:
        rows *= 4
    done, seconds = 0, 0.0
    while seconds < MEASURED_S:
        seconds += measure(rows)
        done += rows
    return done / seconds


def _count_free_memory(use_cpu: bool) -> int:
    """Bytes that are free on the first visible GPU, or available on this machine, if it tells them (Linux)."""
    if not use_cpu:
        return torch.cuda.mem_get_info()[0]
    found = re.search(r"MemAvailable: +(\d+) kB", MEMORY.read_text()) if MEMORY.is_file() else None
    return int(found[1]) * 1024 if found else sys.maxsize
