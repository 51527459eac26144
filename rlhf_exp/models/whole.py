"""Whole weights of a model on each process, where an engine divides them (`scale=`), so that each can use it alone.

    with whole_weights(policy):      # all ranks enter and leave together
        ...                          # as many forward passes as this rank likes, without gradient

    with loading_whole():            # each rank, or one alone
        model = AutoModelForCausalLM.from_pretrained(path)

Without FSDP2 and ZeRO-3 nothing changes. Each process needs memory for all weights.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule
from transformers.integrations import deepspeed

HOOKS = ("_forward_pre_hooks", "_forward_hooks")
"""Of a module, by which DeepSpeed gathers and divides its weights."""


@contextmanager
def whole_weights(model: nn.Module) -> Iterator[None]:
    """Keep every part of the model gathered, where a pass would gather it and let it go again: the passes of one rank
    would wait for those of the others, which may take fewer."""
    if any(hasattr(parameter, "ds_id") for parameter in model.parameters()):
        with _whole_of_zero(model):
            yield
        return
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
def loading_whole() -> Iterator[None]:
    """Models that are loaded or made inside are whole: under ZeRO-3 transformers would divide any, not only those that
    the trainer makes, and one process that loads alone would wait for the others."""
    engine = deepspeed._hf_deepspeed_config_weak_ref
    deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        deepspeed._hf_deepspeed_config_weak_ref = engine


@contextmanager
def _whole_of_zero(model: nn.Module) -> Iterator[None]:
    """By DeepSpeed, without its hooks, which would divide each part again after its pass. TRL gathers for sampling
    itself: what is there already is left alone."""
    from deepspeed.runtime.zero.partition_parameters import GatheredParameters, ZeroParamStatus

    parameters: list[Any] = list(model.parameters())  # DeepSpeed has given them attributes
    for parameter in parameters:
        parameter.ds_active_sub_modules.clear()
    lacking = [parameter for parameter in parameters if parameter.ds_status == ZeroParamStatus.NOT_AVAILABLE]
    hooks = [(module, name, getattr(module, name)) for module in model.modules() for name in HOOKS]
    with GatheredParameters(lacking, enabled=bool(lacking)):
        for module, name, found in hooks:
            kept = ((key, hook) for key, hook in found.items() if not hook.__module__.startswith("deepspeed"))
            setattr(module, name, OrderedDict(kept))
        try:
            yield
        finally:
            for module, name, found in hooks:
                setattr(module, name, found)
