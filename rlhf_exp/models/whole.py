"""Gives each process all weights of a model, where an engine divides them (`scale=`), so that it can use it on its own.

    with whole_weights(policy):      # all ranks enter and leave together
        ...                          # as many forward passes as this rank likes, without gradient
    with loaded_whole():
        model = AutoModelForCausalLM.from_pretrained(path)

Without FSDP2 nothing changes. Each process needs memory for all weights, as with DeepSpeed's ZeRO-3, whose weights TRL
gathers for sampling.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.distributed.fsdp import FSDPModule
from transformers.integrations import deepspeed


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


@contextmanager
def loaded_whole() -> Iterator[None]:
    """Inside the `with` models are loaded whole. Once the arguments name ZeRO-3, transformers divides each
    model as it loads it, also those that only measure."""
    known = deepspeed._hf_deepspeed_config_weak_ref
    deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        deepspeed._hf_deepspeed_config_weak_ref = known
