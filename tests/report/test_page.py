import base64
import re

import pytest

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
        assert not re.search(r"(?<!\\)<script", markdown.replace(f"`{HOSTILE}`", ""))


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
