"""Texts of runs and rows never become elements of a page: it is parsed, and compared with that of plain texts."""

import json
import re
import shutil
from html.parser import HTMLParser
from importlib import import_module

import pytest

from rlhf_exp.analysis.report import write_report
from rlhf_exp.analysis.report.page import TEXTS, Callout, to_markdown
from rlhf_exp.commands import COMMANDS
from rlhf_exp.errors import UNPRINTABLE, printable
from rlhf_exp.runs.files import write_json, write_jsonl
from tests.analysis.report.test_golden import GOLDEN, SEEDS

HOSTILE = "</pre></td></title><script>alert(1)</script><img src=x onerror=alert(2)>\"'><a href=javascript:x>"
CODES = (
    "\x1b[31m\x1b]0;title\x07\x9b2J\u202e\r\ud800"  # colour, title, clears the screen, right to left, half a character
)
PLAIN = "a plain text"
KINDS = ("grpo", "reward_model", "dpo")


class Markup(HTMLParser):
    """Every element of a page with the names of its attributes, and its whole text, without the page's own scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text = set(), []
        self.feed(without_scripts(text))

    def handle_starttag(self, tag, attrs):
        self.elements.add((tag, *sorted(name for name, _ in attrs)))
        links = [value for name, value in attrs if name in ("href", "src") and value not in TEXTS["files"]]
        assert not [value for value in links if not re.match("data:image/|#s[0-9]+$", value)]

    def handle_data(self, data):
        self.text.append(data)


def without_scripts(page):
    """A page up to the scripts at its end."""
    return page.partition("<script>\n")[0]


def replace_texts(value, text):
    """`value` with every text in it replaced, but those that a page chooses by."""
    if isinstance(value, dict):
        kept = {"which", "decoding", "outcome", "id", "severity", "status", "health", "algo", "started", "kind"}
        kept.add("policy")
        return {key: item if key in kept else replace_texts(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_texts(item, text) for item in value]
    return text if isinstance(value, str) else value


def write_texts(run_dir, text):
    """Replace the texts in each file of a run, and add a finding and facts."""
    for path in run_dir.glob("*.json"):
        write_json(path, replace_texts(json.loads(path.read_text()), text))
    for path in run_dir.glob("*.jsonl"):
        write_jsonl(path, [replace_texts(json.loads(line), text) for line in path.read_text().splitlines()])
    finding = {"name": text, "severity": "warning", "steps": [1, 2], "evidence": text, "cause": text, "remedy": text}
    write_json(run_dir / "diagnosis.json", {"findings": [finding], "health": "warning"})
    write_json(run_dir / "data.json", {"read": {text: 3}, "dropped": {f"kind {text}": {text: 2}}, "source": text})
    write_json(run_dir / ".hydra" / "overrides.yaml", [text])


def compare_pages(write):
    """The page of hostile texts, after it was compared with that of plain ones; `write(name, text)` gives a page."""
    plain, hostile = (Markup(write(name, text).read_text()) for name, text in (("plain", PLAIN), ("hostile", HOSTILE)))
    assert hostile.elements - {("wbr",)} == plain.elements - {("wbr",)}
    assert not {"script", "iframe", "object"} & {tag for tag, *_ in hostile.elements - {("script", "type")}}
    return hostile


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_of_a_run_becomes_an_element_of_its_page(kind, tmp_path):
    def write(name, text):
        run_dir = shutil.copytree(GOLDEN / kind, tmp_path / name)
        write_texts(run_dir, text)
        return write_report([run_dir], run_dir)

    assert sum("<script>alert(1)</script>" in text for text in compare_pages(write).text) > 3


def test_no_text_of_several_runs_becomes_an_element_of_their_comparison(tmp_path):
    def write(name, text):
        runs = [shutil.copytree(GOLDEN / run, tmp_path / name / run) for run in SEEDS]
        for i, run_dir in enumerate(runs):
            write_texts(run_dir, text)
            config = run_dir / ".hydra" / "config.yaml"
            config.write_text(config.read_text().replace("loss_type: grpo", f"loss_type: {json.dumps(f'{text} {i}')}"))
        return write_report(runs, tmp_path / name)

    assert any("<script>alert(1)</script>" in text for text in compare_pages(write).text)


def test_only_names_between_single_backticks_stay_as_they_are_in_a_remark():
    told = "`a_b* c` is above `d`; ``<img src=x>` is not"
    written = to_markdown([Callout("info", "Best.", told)])
    assert written == r"> **Best.** `a_b* c` is above `d`; \`\`\<img src=x>\` is not"


def test_no_code_for_a_terminal_comes_from_a_text_a_name_a_status_or_a_title(tmp_path, monkeypatch, capsys):
    name = CODES.replace("\ud800", "").replace("\r", "")
    monkeypatch.chdir(tmp_path)
    run_dir = shutil.copytree(GOLDEN / "grpo", tmp_path / name)
    (tmp_path / "s.yaml").write_text(json.dumps({"title": name, "stages": {"a": {"options": ["algo=none"]}}}))
    others = [shutil.copytree(GOLDEN / kind, tmp_path / kind) for kind in KINDS]
    for other in others:
        write_texts(other, "x" + CODES.replace("\ud800", ""))
        (other / ".hydra" / "overrides.yaml").write_text(json.dumps(["x" + CODES.replace("\ud800", "")]))
    torn = shutil.copytree(GOLDEN / "grpo", tmp_path / "torn")
    write_json(torn / "run.json", json.loads((torn / "run.json").read_text()) | {"status": name})
    for command, *arguments in (
        *(("report", run) for run in (run_dir, torn, *others)),
        ("report", run_dir, *others, "--out", tmp_path / name / "x"),
        ("runs", tmp_path), ("diagnose", tmp_path), ("samples", tmp_path / f"{name} x"),
        ("study", "s.yaml", "--dry-run", "--out", run_dir), ("study", name), ("calibrate", tmp_path),
        ("describe", f"x={name}"),
    ):  # fmt: skip
        import_module(COMMANDS[command]).main([str(text) for text in arguments])
        shown = capsys.readouterr()
        assert UNPRINTABLE.findall(shown.out + shown.err) == [], command
        assert "u001b" in shown.out + shown.err or command == "calibrate", command
    for page in (run / f"report.{end}" for run in others for end in ("md", "html")):
        text = without_scripts(page.read_text())
        assert "u001b" in text and UNPRINTABLE.findall(text) == []


def test_a_printable_text_is_read_back_as_json():
    text = CODES.replace("\ud800", "")
    assert json.loads(f'"{printable(text)}"') == text
