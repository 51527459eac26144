"""The plots of a task's data.

plot_histograms(figures)   ->  [Plot("prompt_tokens", "Length of the prompt ...", ...), ...]
plot_length_bias(figures)  ->  [Plot("longer_wins", ...)]
"""

from typing import Any

from rlhf_exp.report.plots import BLUE, GREY, Line, Panel, Plot, choose_style, read_bounds


def main_unit(figures: dict[str, Any]) -> str:
    """Tokens, or words if no tokens were counted."""
    return "tokens" if "tokens" in figures["histograms"] else "words"


def plot_histograms(figures: dict[str, Any]) -> list[Plot]:
    """The prompt's lengths, and those of the answers over each other."""
    unit = main_unit(figures)
    histograms, plots = figures["histograms"][unit], []
    for name, texts in (("prompt", ["prompt"]), ("answers", figures["answers"])):
        found = {text: histograms[text] for text in texts if text in histograms}
        if not found:
            continue
        beyond = sum(histogram["beyond"] for histogram in found.values())
        more = f"; {beyond:,} texts lie beyond the right end" if beyond else ""
        lines = [
            Line(histogram["edges"], [*histogram["counts"], 0], text if len(found) > 1 else "",
                 style=choose_style(place) | {"drawstyle": "steps-post", "marker": None})
            for place, (text, histogram) in enumerate(found.items())
        ]  # fmt: skip
        panel = Panel(unit, "rows", lines, {"xlim": (0, None), "ylim": (0, None)})
        plots.append(Plot(f"{name}_{unit}", f"Length of the {name} in {unit}{more}", [panel]))
    return plots


def plot_length_bias(figures: dict[str, Any]) -> list[Plot]:
    """How often the longer answer is the chosen one, with its interval: one dot per subset."""
    unit = main_unit(figures)
    rows = {name: part[unit]["longer_wins"] for name, part in figures["subsets"].items() if "longer_wins" in part[unit]}
    if not rows:
        return []
    caption = (
        f"Share of the pairs whose longer answer, in {unit}, is the chosen one, with 95% intervals; ties count half"
    )
    shares, bounds = list(rows.values()), read_bounds(list(rows.values()), 100)
    half = Line([50, 50], [-1, len(rows)], style={"color": GREY, "linestyle": "--", "marker": None})
    style = {"color": BLUE, "marker": "o", "markersize": 6, "linestyle": "none"}
    dots = Line([100 * share["value"] for share in shares], range(len(rows)), x_bounds=bounds, style=style)
    panel = Panel("the longer answer is the chosen one, %", "", [half, dots], names=list(rows))
    return [Plot("longer_wins", caption, [panel], 1.1 + 0.32 * len(rows))]
