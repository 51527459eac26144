"""Gives each process all weights of a model, where an engine divides them (`scale=`), so that it can use it on its own.

    with whole_weights(policy):      # all ranks enter and leave together
        ...                          # as many forward passes as this rank likes, without gradient

Without FSDP2 nothing changes. Each process needs memory for all weights.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.distributed.fsdp import FSDPModule


@contextmanager
def whole_weights(model: nn.Module) -> Iterator[None]:
    """Keep every part of the model gathered, where a pass would gather it and let it go again: the passes of one rank
    would wait for those of the others, which may take fewer."""
    parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
            part.set_reshard_after_forward(part is not model, recurse=False)  # the root is needed again at once
