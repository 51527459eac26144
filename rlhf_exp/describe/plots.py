"""The plots of a task's data.

draw_histograms(figures, out)   ->  [(out/plots/prompt_tokens.png, caption), ...]
draw_length_bias(figures, out)  ->  [(out/plots/longer_wins.png, caption)]
"""

from pathlib import Path
from typing import Any

from rlhf_exp.report.plots import BLUE, GREY, PALETTE, Picture, add_axes, name_rows, open_figure, plot_intervals


def main_unit(figures: dict[str, Any]) -> str:
    """Tokens, or words if no tokens were counted."""
    return "tokens" if "tokens" in figures["histograms"] else "words"


def draw_histograms(figures: dict[str, Any], out: Path) -> list[Picture]:
    """The prompt's lengths, and those of the answers over each other."""
    unit = main_unit(figures)
    pictures = []
    for name, texts in (("prompt", ["prompt"]), ("answers", figures["answers"])):
        found = {text: figures["histograms"][unit][text] for text in texts if text in figures["histograms"][unit]}
        if not found:
            continue
        beyond = sum(histogram["beyond"] for histogram in found.values())
        more = f"; {beyond:,} texts lie beyond the right end" if beyond else ""
        caption = f"Length of the {name} in {unit}{more}"
        with open_figure(out, f"{name}_{unit}", caption) as (figure, picture):
            axes = add_axes(figure, unit, "rows")
            for (text, histogram), color in zip(found.items(), PALETTE, strict=False):
                axes.stairs(histogram["counts"], histogram["edges"], color=color, label=text, linewidth=1.6)
            axes.set(xlim=(0, None), ylim=(0, None))
            if len(found) > 1:
                figure.legend(loc="outside upper left", ncols=2)
        pictures.append(picture)
    return pictures


def draw_length_bias(figures: dict[str, Any], out: Path) -> list[Picture]:
    """How often the longer answer is the chosen one, with its interval: one dot per subset."""
    unit = main_unit(figures)
    rows = {name: part[unit]["longer_wins"] for name, part in figures["subsets"].items() if "longer_wins" in part[unit]}
    if not rows:
        return []
    caption = (
        f"Share of the pairs whose longer answer, in {unit}, is the chosen one, with 95% intervals; ties count half"
    )
    with open_figure(out, "longer_wins", caption, height=1.1 + 0.32 * len(rows)) as (figure, picture):
        axes = add_axes(figure, "the longer answer is the chosen one, %")
        axes.axvline(50, color=GREY, linestyle="--", linewidth=1.2)
        plot_intervals(axes, range(len(rows)), list(rows.values()), BLUE)
        name_rows(axes, range(len(rows)), list(rows), margin=0.5)
    return [picture]
