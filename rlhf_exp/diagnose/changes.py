"""What measurably changed on held-out rows, harmless or not: a healthy run that is cut off more often says so too.

list_changes(run)    # ["truncation 2.1% -> 14.3%, 95% interval of the difference +9.8 to +14.6 points"]
"""

from rlhf_exp.diagnose.signals import Signals

SHOWN = (
    ("accuracy", "difference", "accuracy", True),
    ("truncation_rate", "truncation_rate", "truncation", True),
    ("mean_tokens", "mean_tokens", "length in tokens", False),
)
"""Figure of one model, of the paired difference, its name, whether it is a share."""


def list_changes(run: Signals) -> list[str]:
    """A line for each figure whose paired difference has a 95% interval without 0."""
    lines = []
    for figure, paired, name, is_share in SHOWN:
        before, after, change = (
            run.measured(path) for path in (f"baseline/{figure}", f"trained/{figure}", f"paired/{paired}")
        )
        if before is None or after is None or change is None or change["low"] <= 0 <= change["high"]:
            continue
        unit, factor = ("%", 100) if is_share else ("", 1)
        low, high = factor * change["low"], factor * change["high"]
        line = (
            f"{name} {factor * before['value']:.1f}{unit} -> {factor * after['value']:.1f}{unit}, 95% interval of the"
        )
        lines.append(f"{line} difference {low:+.1f} to {high:+.1f}{' points' if is_share else ''}")
    return lines
