"""The index of a folder of runs."""

import os
import re
import shutil
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest

from rlhf_exp.report.page import Heading, Table, write_page
from rlhf_exp.view.__main__ import main
from rlhf_exp.view.index import write_index
from rlhf_exp.view.server import Site
from tests.report.browser import ask, needs_browser
from tests.report.test_golden import GOLDEN
from tests.report.test_markup import HOSTILE, write_texts


def read_links(page):
    return re.findall(r'<a href="([^"]*)">([^<]*)</a>', page.read_text())


def test_each_run_is_a_row_with_the_way_to_its_report_and_studies_have_theirs(outputs):
    shutil.copytree(GOLDEN / "grpo_seed1", outputs / "countdown" / "unreported")
    shutil.copytree(GOLDEN / "failed", outputs / "failed")
    for place in (outputs, outputs / "countdown", outputs / "countdown" / "run" / "samples", outputs / "comparison"):
        place.mkdir(exist_ok=True)
        (place / "report.html").touch()
    page = write_index(outputs)
    assert page == outputs / "index.html"
    links = [(str(outputs) if name == str(outputs) else name, link) for link, name in read_links(page)]
    assert links == [(str(outputs), "report.html"), ("comparison", "comparison/report.html"),
                     ("countdown", "countdown/report.html"), ("countdown/run", "countdown/run/report.html"),
                     ]  # fmt: skip
    text = page.read_text()
    assert "2 finished, 1 failed" in text
    for cell in ("countdown/unreported", "failed", "health", "accuracy", "time"):
        assert f">{cell}<" in text


def test_refused_runs_are_counted_but_not_shown(outputs):
    refused = shutil.copytree(GOLDEN / "failed", outputs / "wrong")
    (refused / "run.json").write_text('{"status": "refused"}')
    text = write_index(outputs).read_text()
    assert "1 finished, 1 refused" in text and ">wrong<" not in text
    shutil.rmtree(outputs / "countdown")
    assert "1 refused" in write_index(outputs).read_text()


@pytest.mark.parametrize("name", ["a b&c=d?e#f", "<img src=x onerror=alert(1)>", "javascript:alert(1)", "50%+é", '"x\'',
                                  os.fsdecode(b"not-utf8-\xff")])  # fmt: skip
def test_a_name_of_a_folder_is_text_and_its_link_leads_there(outputs, serve, name):
    run_dir = (outputs / "countdown" / "run").rename(outputs / name)
    write_texts(run_dir, HOSTILE + "\x1b[31m")
    text = write_index(outputs).read_text()
    assert "<img" not in text and "<script>alert" not in text and "\x1b" not in text
    [(link, _)] = read_links(outputs / "index.html")
    assert ":" not in link and serve(Site(outputs))(f"/{link}").text == "<p>as it was written</p>"
    assert serve(Site(outputs))(f"/state?run=/{link}").status == 200


def test_a_run_elsewhere_is_listed_without_a_link(outputs):
    away = (outputs / "countdown" / "run").rename(outputs.parent / "away")
    (outputs / "here").symlink_to(away)
    page = write_index(outputs)
    assert ">here<" in page.read_text() and read_links(page) == []


def test_a_link_of_a_table_is_one_on_the_page_alone(tmp_path):
    table = Table(["run", "n"], [["a<b", "1"], ["c", "2"]], links=["x/a%3Cb.html", ""])
    text = write_page([Heading("x", 1), table], tmp_path).read_text()
    assert '<a href="x/a%3Cb.html">a&lt;b</a>' in text and text.count("<a ") == 1
    assert "href" not in (tmp_path / "report.md").read_text()


@needs_browser
def test_dates_and_powers_of_ten_are_sorted(tmp_path):
    rows = [["a", "1e-5", "2026-02-01 10:00"], ["b", "5e-6", "2026-01-31 09:00"], ["c", "0.001", "2026-01-31 10:00"]]
    page = write_page([Heading("x", 1), Table(["run", "rate", "began"], rows, links=["a", "b", "c"])], tmp_path)
    script = """
        const order = () => [...document.querySelector("tbody").rows].map((row) => row.cells[0].textContent).join("");
        const [, rate, began] = all("th button");
        const found = [];
        for (const head of [rate, began]) { head.click(); found.push(order()); }
        return [...found, all("tbody a").length];
        """
    assert ask(page, script, tmp_path) == ["cab", "bca", 3]


def test_the_command_writes_the_index_and_ends(outputs, capsys):
    assert main(["--index-only"]) == 0
    assert capsys.readouterr().out == "written: outputs/index.html\n"
    assert "Runs in outputs" in (outputs / "index.html").read_text()


MISTAKES = {
    "nope": "nope: no such folder", "--port 65536": "--port 65536: must be from 0 to 65535",
    "--port x": "argument --port: invalid int value: 'x'; see --help", "outputs nope": "nope: no such folder",
    "outputs/countdown/run --index-only": "--index-only: must have one folder of runs", "empty": "empty: no run in it",
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "line"), MISTAKES.items())
def test_a_mistake_is_one_line(outputs, capsys, arguments, line):
    (outputs.parent / "empty").mkdir()
    assert main(arguments.split()) == 2
    [shown] = capsys.readouterr().err.splitlines()
    assert shown.startswith(f"rlhf_exp view: {line}")


def test_a_port_that_is_taken_is_one_line(outputs, capsys, serve):
    port = serve(Site(outputs)).address.rstrip("/").rpartition(":")[2]
    assert main(["--port", port]) == 2
    assert capsys.readouterr().err == f"rlhf_exp view: --port {port}: Address already in use\n"


def test_the_command_serves_until_it_is_interrupted(outputs):
    command = [sys.executable, "-m", "rlhf_exp", "view", "outputs/countdown/run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        address = re.fullmatch(r"1 run: (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends it\)\n", line)[1]
        with urlopen(address) as answer:
            assert answer.read() == b"<p>as it was written</p>"
        process.send_signal(signal.SIGINT)
        assert (process.wait(timeout=30), process.stderr.read()) == (0, "")
    assert not (outputs / "index.html").exists()


def test_a_folder_that_cannot_be_written_is_shown_all_the_same(outputs, capsys, serve):
    (outputs / "index.html").mkdir()
    port = serve(Site(outputs)).address.rstrip("/").rpartition(":")[2]
    assert main(["--index-only"]) == 2
    assert capsys.readouterr().err == "rlhf_exp view: outputs: cannot be written, Is a directory\n"
    assert main(["--port", port]) == 2, "it went on to the server"
    assert "it is shown all the same" in capsys.readouterr().err
