"""The index of a folder of runs."""

import os
import re
import shutil

import pytest

from rlhf_exp.analysis.report.__main__ import main
from rlhf_exp.analysis.report.index import write_index
from tests.analysis.report.test_golden import GOLDEN
from tests.analysis.report.test_markup import HOSTILE, write_texts


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    """A folder with the copy of a golden run in it."""
    monkeypatch.chdir(tmp_path)
    run_dir = shutil.copytree(GOLDEN / "grpo", tmp_path / "outputs" / "countdown" / "run")
    (run_dir / "report.html").touch()
    return tmp_path / "outputs"


def read_links(page):
    return re.findall(r'<a href="([^"]*)">([^<]*)</a>', page.read_text())


def test_each_run_is_a_row_with_the_way_to_its_report(outputs):
    shutil.copytree(GOLDEN / "grpo_seed1", outputs / "countdown" / "unreported")
    shutil.copytree(GOLDEN / "failed", outputs / "failed")
    page = write_index(outputs)
    assert page == outputs / "index.html"
    assert read_links(page) == [("countdown/run/report.html", "countdown/run")]
    text = page.read_text()
    assert "2 finished, 1 failed" in text
    for cell in ("countdown/unreported", "failed", "health", "accuracy", "time"):
        assert f">{cell}<" in text


@pytest.mark.parametrize("name", ["a b&c=d?e#f", "<img src=x onerror=alert(1)>", "javascript:alert(1)", "50%+é", '"x\'',
                                  os.fsdecode(b"not-utf8-\xff")])  # fmt: skip
def test_a_name_of_a_folder_is_text_and_its_link_has_no_scheme(outputs, name):
    run_dir = (outputs / "countdown" / "run").rename(outputs / name)
    write_texts(run_dir, HOSTILE + "\x1b[31m")
    text = write_index(outputs).read_text()
    assert "<img" not in text and "<script>alert" not in text and "\x1b" not in text
    [(link, _)] = read_links(outputs / "index.html")
    assert re.fullmatch(r"[\w%.-]+/report\.html", link)


def test_the_report_of_a_folder_of_runs_has_an_index_beside_it(outputs, capsys):
    shutil.copytree(GOLDEN / "grpo_seed1", outputs / "other")
    assert main(["outputs"]) == 0
    assert capsys.readouterr().out.endswith("written: outputs/report.html\nwritten: outputs/index.html\n")
    assert main(["outputs", "--out", "there"]) == main(["outputs/other"]) == 0
    assert not {*outputs.parent.rglob("index.html")} - {outputs / "index.html"}
