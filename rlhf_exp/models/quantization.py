"""Keeps 4-bit weights in the layout in which they were stored, on every processor.

keep_unpacked(model)     # after every load, before the first forward
"""

from torch import nn


def keep_unpacked(model: nn.Module) -> None:
    """Switch off the packed layout that bitsandbytes gives 4-bit weights for inference.

    On a CPU with AVX512-BF16, the first forward in evaluation mode converts them (bitsandbytes 0.50.2,
    `Linear4bit.forward`), and training mode does not convert them back: `gemv_4bit`, which is then used in every
    forward, has no derivative, so the gradient through these layers is lost, and layers with a bias fail. Its products
    are also rounded differently, so the same model would have other measurements on such a CPU.
    """
    for module in model.modules():
        if "support_avx512bf16_for_cpu" in vars(module):
            module.support_avx512bf16_for_cpu = False
