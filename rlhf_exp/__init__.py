"""rlhf_exp: a thin experiment layer over TRL.

from rlhf_exp import compose, run

done = run(compose(["algo=grpo", "task=countdown"]))
"""

import logging
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlhf_exp.api import compose, run
    from rlhf_exp.errors import ConfigError
    from rlhf_exp.runs.load import Run, load_run

__version__ = "0.2.0"

__all__ = ["ConfigError", "Run", "compose", "load_run", "run"]

_PLACES = {"ConfigError": "errors", "Run": "runs.load", "compose": "api", "load_run": "runs.load", "run": "api"}

# Threads of torch on a CPU wait for each other by spinning, 300,000 rounds by default: beside another process on the
# same cores a default step then takes five to twelve times as long, and with 20,000 three times (docs/results/cost.md).
# GNU's OpenMP reads this when torch is imported.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")

# On a CPU with AVX512-BF16, importing bitsandbytes 0.50.2 warns of a faster kernel in a package that is not needed:
# 4-bit weights are never packed for it (models/patches.py). The rest of what it logs is shown.
logging.getLogger("bitsandbytes.backends.cpu.ops").addFilter(
    lambda record: not str(record.msg).startswith("Failed to load CPU gemm_4bit_forward from kernels-community")
)


def __getattr__(name: str) -> Any:
    """What a program imports from here is loaded when it is asked for: `import rlhf_exp` costs nothing."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
