import base64
import random
import re

import numpy as np
import pytest
import torch
from markdown_it import MarkdownIt

from rlhf_exp.analysis.report import write_live, write_report
from rlhf_exp.analysis.report.columns import DIFFERENCE
from rlhf_exp.analysis.report.page import (
    ASSETS,
    Callout,
    Code,
    Figures,
    Heading,
    Pair,
    Table,
    Text,
    to_markdown,
    write_page,
)
from rlhf_exp.analysis.report.plots import Line, Panel, Plot, choose_mark, choose_style, draw, plot_gains
from rlhf_exp.errors import printable
from rlhf_exp.evaluation.preferences import summarise_preferences
from rlhf_exp.runs import records


def test_the_page_is_one_file_without_outside_resources(tmp_path, drawn):
    plot = Plot("dot", "a dot", [Panel("x", "y", [Line([1], [2])])])
    page = write_page([Heading("A & B", 1), Figures([plot])], tmp_path)
    text, picture = page.read_text(), (tmp_path / "plots" / "dot.png").read_bytes()
    assert page == tmp_path / "report.html" and "<title>A &amp; B</title>" in text
    assert f"data:image/png;base64,{base64.b64encode(picture).decode()}" in text
    scripts = re.findall(r"(?s)<script>\n(.*?)</script>", text)
    assert len(scripts) == 2 and "WIDGETS" in scripts[0]
    outside = re.sub(r"(?s)<script>\n.*?</script>", "", text)
    assert not re.search(r"<script|<link|https?://|url\(|@import", outside)
    assert "![a dot](plots/dot.png)" in (tmp_path / "report.md").read_text()


MARKS = [
    "<script>x</script>", "```\n<b>", "`a` <b>", "````\n</pre>", "# h", "- <b>", "1. x", "> q",
    "    code", "a\r```\r<b>",
    "&lt;b&gt; &#60;", "~~~\n<b>\n~~~", "[a](javascript:x)", "[a]: http://x", "![a](x)", "*b* _c_ __d__",
    "<div>\n\n<b>",
    "---", "===", "| a |\n|---|", "a\x0c```\x0c<b>", "a\u2028```\u2028<b>", "<!-- x", "+ a", "\\<b>", "`", "\\`<b>\\`",
]  # fmt: skip
PLAIN = {"heading_open": Heading, "blockquote_open": Callout, "table_open": Table, "fence": (Code, Pair)}
OPENS = {"html_block", "html_inline", "link_open", "image", "bullet_list_open", "ordered_list_open", "hr", "em_open"}


@pytest.mark.parametrize("text", MARKS)
def test_markdown_shows_every_text_as_it_is(text):
    """As GitHub reads it: no text opens anything, and a fence holds its own text alone."""
    for block in (
        Heading(text), Text(text), Table([text, text], [[text, text]]), Callout("info", text, text),
        Pair(text, text, ((text, text), (text, text))), Code(text),
    ):  # fmt: skip
        tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(to_markdown([block]))
        opened = {token.type for outer in tokens for token in (outer, *(outer.children or ()))}
        assert not opened & OPENS
        assert not {kind for kind, owner in PLAIN.items() if kind in opened and not isinstance(block, owner)}
        fences = [token.content for token in tokens if token.type == "fence"]
        assert set(fences) <= {printable(text) + "\n"}
        assert len(fences) == {Code: 1, Pair: 3}.get(type(block), 0)


def test_the_curves_of_eight_settings_differ_in_colour_on_paper_and_on_the_page():
    colours = {choose_style(place)["color"] for place in range(8)}
    style = (ASSETS / "report.css").read_text()
    assert len(colours) == len(re.findall(r"i\.c\d ", style)) == len(set(re.findall(r"--c\d: (#\w+)", style)[:8])) == 8
    assert choose_mark(8)["color"] == choose_mark(0)["color"] and choose_mark(8)["marker"] != choose_mark(0)["marker"]


def test_intervals_of_shares_that_are_all_or_nothing_can_be_drawn(tmp_path, drawn):
    """By rounding, a bound of Wilson's interval can lie on the wrong side of 0 or 1."""
    pair = records.Pair(which="trained", id="x", subset="a", prompt="?", chosen="x", rejected="y", chosen_reward=1.0,
                rejected_reward=0.0, margin=0.0, chosen_tokens=2, rejected_tokens=1)  # fmt: skip
    rows = [[pair.model_copy(update={"margin": margin})] * n for n in range(1, 200) for margin in (1.0, -1.0)]
    shares = [summarise_preferences(same)["accuracy"] for same in rows]
    assert {share["value"] for share in shares} == {0, 1}
    draw(plot_gains([("", share) for share in shares], DIFFERENCE, [True] * len(shares)), tmp_path)


def test_the_page_of_a_run_that_trains_reloads_itself_and_takes_no_random_number(run_dir, edit_info):
    edit_info(run_dir, status="running")
    before = random.getstate(), torch.get_rng_state().tolist(), str(np.random.get_state())
    write_live(run_dir)
    assert before == (random.getstate(), torch.get_rng_state().tolist(), str(np.random.get_state()))
    reload, page = '<meta http-equiv="refresh"', run_dir / "report.html"
    assert reload in page.read_text() and not (run_dir / "plots").exists()
    edit_info(run_dir, status="stopped")
    assert reload not in write_report([run_dir], run_dir).read_text()
