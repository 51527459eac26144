"""rlhf_exp: a thin experiment layer over TRL."""

import logging

# On a CPU with AVX512-BF16, importing bitsandbytes 0.50.2 warns of a faster kernel in a package that is not needed:
# 4-bit weights are never packed for it (models/patches.py). The rest of what it logs is shown.
logging.getLogger("bitsandbytes.backends.cpu.ops").addFilter(
    lambda record: not str(record.msg).startswith("Failed to load CPU gemm_4bit_forward from kernels-community")
)
