import re

from rlhf_exp.describe.__main__ import describe
from rlhf_exp.describe.page import describe_data
from rlhf_exp.report.page import to_text


def test_the_page_has_every_part_and_no_text_of_a_row(hh_config, tmp_path):
    out = tmp_path / "out"
    figures = describe(hh_config, out)
    html, markdown, json = ((out / f"describe.{end}").read_text() for end in ("html", "md", "json"))
    for heading in ("Lengths", "What a budget cuts off", "Length and preference", "Splits", "Odd rows"):
        assert f"<h2>{heading}" in html and f"## {heading}" in markdown
    for text in (html, markdown, json, to_text(describe_data(figures))):
        assert not re.search("bread|baker|flour|hurt|go on", text)
    assert not re.search(r"<script|<link|src=.http|url\(", html)
    assert "| equal answers | chosen and rejected are the same text | dropped | 1 | 0 | 1 |" in markdown
