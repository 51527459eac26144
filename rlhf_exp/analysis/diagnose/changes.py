"""What measurably changed on held-out rows, harmless or not: a healthy run that is cut off more often says so too.

list_changes(run)    # ["truncation 2.1% -> 14.3%, 95% interval of the difference +9.8 to +14.6 points"]
"""

from rlhf_exp.analysis.diagnose.signals import Signals

SHOWN = (
    ("accuracy", "difference", "accuracy", "%"),
    ("truncation_rate", "truncation_rate", "truncation", "%"),
    ("mean_tokens", "mean_tokens", "length in tokens", ""),
)
"""Figure of one model, of the paired difference, its name, and its unit."""


def list_changes(run: Signals) -> list[str]:
    """A line for each figure whose paired difference has a 95% interval without 0."""
    lines = []
    for figure, paired, name, unit in SHOWN:
        places = (f"baseline/{figure}", f"trained/{figure}", f"paired/{paired}")
        before, after, change = map(run.measured, places)
        if before and after and change and not change["low"] <= 0 <= change["high"]:
            scale, points = (100, " points") if unit else (1, "")
            line = f"{name} {scale * before['value']:.1f}{unit} -> {scale * after['value']:.1f}{unit}, 95% interval of"
            lines.append(f"{line} the difference {scale * change['low']:+.1f} to {scale * change['high']:+.1f}{points}")
    return lines
