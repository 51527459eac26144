import base64
import re

import pytest
from markdown_it import MarkdownIt

from rlhf_exp.errors import printable
from rlhf_exp.report.page import Callout, Code, Figures, Heading, Pair, Table, Text, write_page

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
HOSTILE = '<script>alert("x")</script> | `code` ](http://example.org) *b*'


@pytest.mark.parametrize(
    "block",
    [
        Heading(HOSTILE),
        Text(HOSTILE),
        Table([HOSTILE, "b"], [[HOSTILE, "1"]]),
        Code(HOSTILE),
        Callout("warning", HOSTILE, HOSTILE, HOSTILE),
        Pair(HOSTILE, HOSTILE, (HOSTILE, HOSTILE), (HOSTILE, HOSTILE)),
        Pair(HOSTILE, HOSTILE, (HOSTILE, HOSTILE), (HOSTILE, HOSTILE), folded=True),
    ],
)
def test_text_never_becomes_markup(block, tmp_path):
    assert "<script" not in block.html()
    if not isinstance(block, Code):
        markdown = re.sub(r"```text.*?```", "", block.markdown(tmp_path), flags=re.DOTALL)
        assert not re.search(r"(?<!\\)<script", markdown.replace(f"`` {HOSTILE} ``", ""))


def test_a_cell_cannot_open_another(tmp_path):
    lines = Table(["a", "b"], [["x | y", "1"]]).markdown(tmp_path).splitlines()
    assert lines == ["| a | b |", "| --- | ---: |", r"| x \| y | 1 |"]


def test_a_fence_is_longer_than_what_it_holds(tmp_path):
    assert Code("a ```` b").markdown(tmp_path) == "`````text\na ```` b\n`````"


def test_numbers_stand_to_the_right_and_words_to_the_left():
    table = Table(["name", "value", "health"], [["a", "+1.0 [0.5, 1.5]", "ok"], ["b", "-", "-"]]).html()
    assert '<th class="n">value</th>' in table
    assert "<th>name</th>" in table
    assert "<th>health</th>" in table
    assert '<td class="n">+1.0 <small>[0.5, 1.5]</small></td>' in table


def test_the_page_is_one_file_without_scripts_or_outside_resources(tmp_path):
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "dot.png").write_bytes(PIXEL)
    page = write_page([Heading("A & B", 1), Figures([(tmp_path / "plots" / "dot.png", "a dot")])], tmp_path)
    text = page.read_text()
    assert page == tmp_path / "report.html"
    assert "<title>A &amp; B</title>" in text
    assert f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}" in text
    assert not re.search(r"<script|<link|https?://|url\(|@import", text)
    assert "![a dot](plots/dot.png)" in (tmp_path / "report.md").read_text()


def test_a_long_name_breaks_at_its_marks_and_the_first_column_is_never_of_numbers():
    table = Table(["run", "n"], [["outputs/compare/seed-0_compare_dr_grpo", "1"], ["0", "2"]]).html()
    assert "<td>outputs/<wbr>compare/<wbr>seed-0_<wbr>compare_<wbr>dr_<wbr>grpo</td>" in table
    assert "<td>0</td>" in table and "<th>run</th>" in table
    assert "<wbr>" not in Table(["a", "b"], [["seed-0_x", "x"]]).html()


def test_wide_tables_scroll_and_the_page_has_a_dark_style(tmp_path):
    text = write_page([Heading("A", 1), Table(["a"], [["b"]])], tmp_path).read_text()
    assert '<div class="scroll"><table' in text and ".scroll { overflow-x: auto; }" in text
    assert "@media (prefers-color-scheme: dark)" in text and "overflow-wrap: anywhere; min-width" not in text


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
def test_markdown_shows_every_text_as_it_is(text, tmp_path):
    """As GitHub reads it: no text opens anything, and a fence holds its own text alone."""
    for block in (
        Heading(text), Text(text), Table([text, text], [[text, text]]), Callout("info", text, text, text),
        Pair(text, text, (text, text), (text, text)), Code(text),
    ):  # fmt: skip
        tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(block.markdown(tmp_path))
        opened = {token.type for outer in tokens for token in (outer, *(outer.children or ()))}
        assert not opened & OPENS
        assert not {kind for kind, owner in PLAIN.items() if kind in opened and not isinstance(block, owner)}
        fences = [token.content for token in tokens if token.type == "fence"]
        assert set(fences) <= {printable(text) + "\n"}
        assert len(fences) == {Code: 1, Pair: 3}.get(type(block), 0)
