"""vLLM on a CPU: what must be set before an engine is built, in this process.

    LLM(model=source.path, **prepare_vllm_on_cpu(source))

vLLM's own variables win where they are set, such as VLLM_CPU_KVCACHE_SPACE, the cache's size in GiB.
"""

import os
from typing import Any

import torch

from rlhf_exp.models.source import ModelSource

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in this process, where weights reach it
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else the training's threads are bound to cores too
    "VLLM_CPU_KVCACHE_SPACE": "1",  # else a share of all memory, less what training takes
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",  # else each engine reports to vLLM's makers
}

OPTIONS = {"enforce_eager": True, "enable_chunked_prefill": False}
"""Arguments of `vllm.LLM`: no compilation, which takes half a minute and makes small models slower; whole prompts, as
vLLM 0.30 cannot divide one that has a seed."""


def prepare_vllm_on_cpu(source: ModelSource) -> dict[str, Any]:
    """Set vLLM up for a CPU; a second call changes nothing. Returns arguments of `vllm.LLM`: the dtype of the model as
    it is trained (vLLM's `auto` makes bfloat16 of float32), and OPTIONS.

    vLLM 0.30 packs the weight of each linear layer and drops the parameter, so that weights loaded later fail or, in
    the output layer, have no effect. This is switched off for all engines of this process.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from vllm.model_executor.layers import utils  # reads the variables above

    utils.dispatch_cpu_unquantized_gemm = _use_weight_as_it_is
    return {"dtype": source.name_dtype(), "use_tqdm_on_load": False, **OPTIONS}


def _use_weight_as_it_is(layer: torch.nn.Module, remove_weight: bool) -> None:
    layer.cpu_linear = torch.nn.functional.linear
