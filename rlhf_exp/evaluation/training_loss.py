"""Whether the loss that an algorithm logs in training is the one that is measured on held-out rows. Pure.

explain_other_loss("dpo", {"loss_type": ["ipo"]})     # "algo.args.loss_type=[ipo]"
"""

from collections.abc import Mapping
from typing import Any

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.values import show


def explain_other_loss(algo: str, args: Mapping[str, Any]) -> str | None:
    """The first argument under which the training loss is another one than the held-out loss; None where they are the
    same quantity."""
    for name, values in ALGORITHMS[algo].held_out_loss.items():
        if args.get(name) not in values:
            return f"algo.args.{name}={show(args[name])}"
    return None
