"""Changes loaded models in place, so that they score padded rows correctly and 4-bit weights keep their gradient.

patch_model(model)     # after every load, before the first forward; a second call changes nothing
patch_head(model)      # of a trainer that samples under autocast
"""

import inspect
from typing import Any

import torch
from torch import nn


def patch_model(model: nn.Module) -> None:
    """Apply both patches."""
    patch_position_ids(model)
    keep_unpacked(model)


def patch_position_ids(model: nn.Module) -> None:
    """Make every backbone in `model` that has GPT-2's table of learned positions, `wpe`, take its position ids from
    the attention mask if the caller passes none.

    GPT-2, GPT-Neo and GPTBigCode number the columns of a batch from 0, padding included, unless the caller passes
    position ids. transformers' `generate` passes them and TRL 1.16 does not: a left-padded prompt is then scored at
    other positions than it was sampled at, wrong by several nats per token. Rotary models (Llama, Qwen) see only
    differences of positions, OPT and BioGPT count by the mask themselves, and RoBERTa counts from another origin: they
    are not changed. The hook is on the backbone, inside everything that wraps it: the heads, TRL's fused head, PEFT,
    checkpointing.
    """
    for module in model.modules():
        if isinstance(getattr(module, "wpe", None), nn.Embedding):
            if _fill_positions not in module._forward_pre_hooks.values():
                module.register_forward_pre_hook(_fill_positions, with_kwargs=True)


def count_positions(attention_mask: torch.Tensor, width: int) -> torch.Tensor:
    """Positions of the last `width` columns, (batch, width) int64: the first real token of each row has 0, as has
    the padding before it.

    Args:
        attention_mask: (batch, columns), 1 on real tokens; with a cache it has a column for each cached token too.
    """
    return (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -width:]


def keep_unpacked(model: nn.Module) -> None:
    """Switch off the packed layout that bitsandbytes gives 4-bit weights for inference.

    On a CPU with AVX512-BF16, the first forward in evaluation mode converts them (bitsandbytes 0.50.2,
    `Linear4bit.forward`), and training mode does not convert them back: `gemv_4bit`, which is then used in every
    forward, has no derivative, so the gradient through these layers is lost, and layers with a bias fail. Its products
    are also rounded differently, so the same model would have other measurements on such a CPU.
    """
    for module in model.modules():
        if "support_avx512bf16_for_cpu" in vars(module):
            vars(module)["support_avx512bf16_for_cpu"] = False


def patch_head(model: nn.Module) -> None:
    """Make the head compute logits in the weights' precision on a CPU also under autocast: bfloat16 has eight bits, and
    would round logits of 20 to eighths and those of GPT-2, around -100, to halves of a nat."""
    head = model.get_output_embeddings()  # type: ignore[operator]
    forward = head.forward

    def compute(states: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            return forward(states.to(head.weight.dtype))

    if head.weight.device.type == "cpu":
        head.forward = compute


def _fill_positions(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
    given = inspect.signature(module.forward).bind_partial(*args, **kwargs).arguments
    mask = given.get("attention_mask")
    if given.get("position_ids") is not None or mask is None or mask.ndim != 2:
        return None
    tokens = given["input_ids"] if given.get("input_ids") is not None else given["inputs_embeds"]
    return args, {**kwargs, "position_ids": count_positions(mask, tokens.shape[1])}
