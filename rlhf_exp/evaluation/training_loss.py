"""Whether the loss that sft or dpo logs in training is the one that is measured on held-out rows. Pure.

explain_other_loss("dpo", {"loss_type": ["ipo"]})     # "algo.args.loss_type=[ipo]"
"""

from collections.abc import Mapping
from typing import Any

from rlhf_exp.config.values import show

COMPARABLE: dict[str, dict[str, tuple[Any, ...]]] = {
    "sft": {
        "loss_type": (None, "nll"),
        "completion_only_loss": (None, True),
        "assistant_only_loss": (None, False),
        "packing": (None, False),
        "label_smoothing_factor": (None, 0),
        "truncation_mode": (None, "keep_start"),
    },
    "dpo": {
        "loss_type": (None, "sigmoid", ["sigmoid"]),
        "loss_weights": (None, [1]),
        "label_smoothing": (None, 0),
        "f_divergence_type": (None, "reverse_kl"),
        "ld_alpha": (None, 1),
        "use_weighting": (None, False),
        "sync_ref_model": (None, False),
        "max_length": (None,),
    },
}
"""Of each algorithm with a held-out loss, TRL's arguments that change the training loss, and the values with which it
is the mean of -log p(token) over whole completions, and of -log sigmoid(margin) over pairs of whole answers."""


def explain_other_loss(algo: str, args: Mapping[str, Any]) -> str | None:
    """The first argument under which the training loss is another one than the held-out loss; None where they are the
    same quantity."""
    for name, values in COMPARABLE[algo].items():
        if args.get(name) not in values:
            return f"algo.args.{name}={show(args[name])}"
    return None
