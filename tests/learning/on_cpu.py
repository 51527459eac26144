"""`python -m rlhf_exp` without plots, and with FSDP2, which accelerate keeps for GPUs, on a CPU: what it divides and
gathers is the same.

torchrun --nproc_per_node 2 tests/learning/on_cpu.py algo=sft scale=fsdp2 device=cpu
"""

import sys

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType

from rlhf_exp.__main__ import main
from rlhf_exp.analysis.report import page
from rlhf_exp.config.rules import machine
from tests.conftest import draw_nothing

BEGIN = AcceleratorState.__init__


def divide_on_cpu(self, *args, fsdp_plugin=None, **kwargs):
    """As accelerate does for several GPUs; for several CPUs it ignores the plugin."""
    BEGIN(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
    if self.distributed_type != DistributedType.MULTI_CPU:
        return
    if fsdp_plugin is not None:
        self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, fsdp_plugin
    PartialState._shared_state["distributed_type"] = self.distributed_type


if __name__ == "__main__":
    machine.ON_CPU = ("ddp", "fsdp2")
    page.draw = draw_nothing
    AcceleratorState.__init__ = divide_on_cpu
    sys.exit(main())
