import re

from rlhf_exp.describe import describe
from rlhf_exp.describe.page import terminal_table


def test_the_page_has_every_part_and_no_text_of_a_row(hh_config, tmp_path):
    out = tmp_path / "out"
    figures = describe(hh_config, out)
    html, markdown, json = ((out / f"describe.{end}").read_text() for end in ("html", "md", "json"))
    for heading in ("Lengths", "What a budget cuts off", "Length and preference", "Splits and repeats", "Odd rows"):
        assert f"<h2>{heading}</h2>" in html
        assert f"## {heading}\n" in markdown
    for text in (html, markdown, json, terminal_table(figures)):
        assert not re.search("bread|baker|flour|hurt|go on", text)
    assert {path.name for path in (out / "plots").iterdir()} == {
        "answers_tokens.png", "longer_wins.png", "prompt_tokens.png",
    }  # fmt: skip
    assert not re.search(r"<script|<link|src=.http|url\(", html)
    assert "| equal answers | chosen and rejected are the same text | dropped | 1 |" in markdown
    assert "| inline speaker | 0 | 1 |" in markdown


def test_without_a_grip_on_the_text_words_are_shown_with_the_reason(hh_overrides, tmp_path):
    from rlhf_exp.config.compose import compose_config

    cfg = compose_config(["algo=sft", *hh_overrides[:-1], "model=tiny"])
    figures = describe(cfg, tmp_path / "out")
    html = (tmp_path / "out" / "describe.html").read_text()
    assert figures["tokenizer"] is None
    assert "<b>No token counts.</b> model=tiny: its tokenizer does not know " in html
    assert "What a budget cuts off" not in html
    assert (tmp_path / "out" / "plots" / "prompt_words.png").exists()
    assert "chosen, words" in terminal_table(figures)
