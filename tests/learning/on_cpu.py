"""`python -m rlhf_exp` with engines that accelerate keeps for GPUs, on a CPU: what they divide and gather is the same.

torchrun --nproc_per_node 2 tests/learning/on_cpu.py algo=sft scale=fsdp2 device=cpu
"""

import sys

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType

from rlhf_exp.__main__ import main
from rlhf_exp.config.rules import scale

BEGIN = AcceleratorState.__init__


def shard_on_cpu(self, *args, fsdp_plugin=None, **kwargs):
    """As accelerate does for several GPUs; for several CPUs it ignores the plugin."""
    BEGIN(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
    if fsdp_plugin is not None and self.distributed_type == DistributedType.MULTI_CPU:
        self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, fsdp_plugin
        PartialState._shared_state["distributed_type"] = DistributedType.FSDP


if __name__ == "__main__":
    scale.ON_CPU = ("ddp", "fsdp2", "zero2")
    AcceleratorState.__init__ = shard_on_cpu
    sys.exit(main())
