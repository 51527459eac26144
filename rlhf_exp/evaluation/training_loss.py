"""Explains whether the loss that is logged in training is the quantity that is measured on held-out rows. Pure.

explain_other_loss("dpo", {"loss_type": ["ipo"]})     # "algo.args.loss_type=[ipo]"
"""

from collections.abc import Mapping
from typing import Any

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.values import show


def explain_other_loss(algo: str, args: Mapping[str, Any]) -> str | None:
    """The first argument that makes the training loss another quantity than the held-out loss; None if they are the
    same quantity."""
    for name, values in ALGORITHMS[algo].held_out_loss.items():
        if args.get(name) not in values:
            return f"algo.args.{name}={show(args[name])}"
    return None
