"""`python -m rlhf_exp` with engines that accelerate keeps for GPUs, on a CPU: what they divide and gather is the same.

torchrun --nproc_per_node 2 tests/learning/on_cpu.py algo=sft scale=fsdp2 device=cpu
"""

import os
import sys
from importlib.util import find_spec

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType

from rlhf_exp import processes
from rlhf_exp.__main__ import main
from rlhf_exp.config.rules import machine

CONNECT, BEGIN = processes.connect, AcceleratorState.__init__


def connect_on_cpu(*args, **kwargs):
    """DeepSpeed takes part in the group too, as accelerate has it do for GPUs alone."""
    CONNECT(*args, **kwargs)
    if find_spec("deepspeed"):
        from deepspeed import comm

        comm.init_distributed(dist_backend="gloo", auto_mpi_discovery=False)


def divide_on_cpu(self, *args, fsdp_plugin=None, deepspeed_plugin=None, **kwargs):
    """As accelerate does for several GPUs; for several CPUs it ignores the plugins."""
    BEGIN(self, *args, fsdp_plugin=fsdp_plugin, deepspeed_plugin=deepspeed_plugin, **kwargs)
    if self.distributed_type != DistributedType.MULTI_CPU:
        return
    if fsdp_plugin is not None:
        self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, fsdp_plugin
    elif deepspeed_plugin is not None:
        deepspeed_plugin.set_mixed_precision(self._mixed_precision)
        deepspeed_plugin.select(_from_accelerator_state=True)
        self.distributed_type, self.deepspeed_plugins = DistributedType.DEEPSPEED, deepspeed_plugin
        self._mixed_precision = "no"
    PartialState._shared_state["distributed_type"] = self.distributed_type


if __name__ == "__main__":
    os.environ["DS_ACCELERATOR"] = "cpu"  # DeepSpeed itself can do with one
    machine.ON_CPU = ("ddp", "fsdp2", "zero2", "zero3")
    processes.connect, AcceleratorState.__init__ = connect_on_cpu, divide_on_cpu
    sys.exit(main())
