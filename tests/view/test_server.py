"""What the server answers, over real sockets."""

import re
import shutil
import subprocess
from urllib.request import urlopen

import pytest

from rlhf_exp.runs.folder import append_jsonl, read_jsonl, write_json
from rlhf_exp.view.server import Site
from tests.report.browser import CHROMIUM, needs_browser
from tests.report.test_golden import GOLDEN

RUN = "/countdown/run/report.html"
LIVE = "<script data-state="
NEXT = 7  # the golden run has 6 steps


def list_files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}


def test_the_index_and_the_reports_of_a_folder_are_served_on_this_machine_alone(outputs, serve):
    ask = serve(Site(outputs))
    assert ask.address.startswith("http://127.0.0.1:")
    with urlopen(ask.address) as answer:
        assert 'href="countdown/run/report.html"' in answer.read().decode()
    found = ask(RUN)
    assert (found.status, found.text) == (200, "<p>as it was written</p>")
    assert found.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "connect-src 'self'" in found.headers["Content-Security-Policy"]
    for path, policies in (("", 1), (RUN, 2)):  # of several all hold
        with urlopen(f"{ask.address}{path}") as answer:
            found_policies = answer.headers.get_all("Content-Security-Policy")
        assert ("sandbox allow-scripts" in found_policies, len(found_policies)) == (path == RUN, policies)
    assert ask(RUN, "HEAD").text == "" and ask(RUN, "HEAD").headers["Content-Length"] == "24"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_it_only_reads(outputs, serve, method):
    assert serve(Site(outputs))(RUN, method).status == 501


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@x", "", None])
def test_a_name_that_another_page_lets_point_here_is_refused(outputs, serve, host):
    ask = serve(Site(outputs))
    assert [ask(path, host=host).status for path in ("/", RUN, f"/state?run={RUN}")] == [403] * 3
    assert ask(RUN, host="127.0.0.1:8000").status == ask(RUN, host="localhost").status == 200


OUTSIDE = [
    "/../away/report.html", "/countdown/../../away/report.html", "/%2e%2e/away/report.html", "/..%2faway/report.html",
    "/countdown%2f..%2f..%2faway%2freport.html", "//away/report.html", "/link/report.html", "/linked/report.html",
    "/secret/report.html", "/a%00b/report.html", f"/{'a' * 5000}/report.html", "/state?run=/../away/report.html",
]  # fmt: skip
NO_REPORTS = ["/countdown/run/run.json", "/countdown/run/", "/countdown/run/.hydra/config.yaml", "/nope",
              "/countdown/report.html", "/state?run=/nope"]  # fmt: skip


@pytest.mark.parametrize("path", [*OUTSIDE, *NO_REPORTS])
def test_nothing_outside_of_the_folder_and_nothing_but_reports_is_served(outputs, serve, path):
    away = outputs.parent / "away"
    away.mkdir()
    (away / "report.html").write_text("away")
    (outputs / "link").symlink_to(away)
    for name, target in (("linked", away / "report.html"), ("secret", outputs / "countdown" / "run" / "run.json")):
        (outputs / name).mkdir()
        (outputs / name / "report.html").symlink_to(target)
    ask = serve(Site(outputs))
    found = ask(path)
    assert (found.status, found.text) == (404, "no such page\n")
    assert ask("/").text.count("<a ") == 1, "only the run's report is linked"


def test_a_run_that_is_going_on_is_shown_as_it_is_now_and_nothing_is_written_into_it(outputs, serve, hold):
    run_dir = outputs / "countdown" / "run"
    ask = serve(Site(outputs))
    with hold(run_dir):
        before = list_files(run_dir)
        page, state = ask(RUN).text, ask(f"/state?run={RUN}").text
        assert "grpo on countdown" in page and f'{LIVE}"{state}">' in page
        assert "running" in ask("/").text
        assert ask(f"/state?run={RUN}").text == state
        assert list_files(run_dir) == before
        append_jsonl(run_dir / "metrics.jsonl", read_jsonl(run_dir / "metrics.jsonl")[-1] | {"step": 999})
        assert "The last logged step is 999." in ask(RUN).text
        changed = ask(f"/state?run={RUN}").text
        assert changed != state
    assert ask(f"/state?run={RUN}").text != changed, "its process has ended"
    assert ask(RUN).text == "<p>as it was written</p>"


def test_a_running_run_without_a_report_is_linked_from_the_index_as_long_as_it_runs(outputs, serve, hold):
    run_dir = outputs / "countdown" / "run"
    (run_dir / "report.html").unlink()
    ask = serve(Site(outputs))
    with hold(run_dir):
        assert 'href="countdown/run/report.html"' in ask("/").text
    assert "href=" not in ask("/").text


def test_a_run_whose_report_cannot_be_made_yet_has_a_page_that_says_so_and_reloads(outputs, serve, hold):
    run_dir = outputs / "countdown" / "run"
    ask = serve(Site(run_dir, (run_dir,)))
    with hold(run_dir):
        write_json(run_dir / "evaluation.json", ["half"])
        found = ask("/")
        assert found.status == 200 and "run: there is no report yet" in found.text and LIVE in found.text
        shutil.copy(GOLDEN / "grpo" / "evaluation.json", run_dir)
        assert "grpo on countdown" in ask("/").text


def test_one_run_and_a_comparison_are_served_alone(outputs, serve):
    run_dir = outputs / "countdown" / "run"
    other = shutil.copytree(GOLDEN / "grpo_seed1", outputs / "other")
    one, two, three = (serve(Site(run_dir, runs)) for runs in ((run_dir,), (other,), (run_dir, other)))
    assert one("/").text == "<p>as it was written</p>"
    assert "grpo on countdown" in two("/").text and LIVE not in two("/").text
    assert "2 runs" in three("/").text
    assert [ask(path).status for ask in (one, three) for path in (RUN, "/report.html", "/index.html")] == [404] * 6
    assert not (other / "report.html").exists() and not (run_dir / "report.md").exists()


class Reader(Site):
    """Pages of a run that writes a row as soon as the first has been sent, with a reader's script: it chooses at the
    first load, and shows what is left of that at the second in the title."""

    def read(self, path):
        page, metrics = super().read(path), self.folder / "metrics.jsonl"
        if path == "/" and (last := read_jsonl(metrics)[-1])["step"] != NEXT:
            append_jsonl(metrics, last | {"step": NEXT})
        return page and page + READER


READER = b"""<script>
  const loads = (sessionStorage.loads = Number(sessionStorage.loads ?? 0) + 1);
  const axis = () => document.querySelector("#curves select");
  addEventListener("load", async () => {
    while (!("ready" in document.documentElement.dataset)) await new Promise((done) => setTimeout(done, 20));
    if (loads === 1) {
      axis().value = "trained_tokens";
      axis().dispatchEvent(new Event("change"));
      document.querySelectorAll("details").forEach((one) => (one.open = true));
      scrollTo(0, 700);
    }
    setInterval(() => {
      const folded = document.querySelectorAll("details:not([open])").length;
      if (loads > 1 && scrollY) sessionStorage.seen = `seen: ${scrollY}, ${axis().value}, ${folded} folded`;
      document.title = sessionStorage.seen ?? "";
    }, 50);
  });
</script>"""


@needs_browser
def test_a_live_page_reloads_and_keeps_what_was_chosen_and_where_the_reader_was(outputs, serve, hold, tmp_path):
    run_dir = outputs / "countdown" / "run"
    ask = serve(Reader(run_dir, (run_dir,)))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1280,900", "--virtual-time-budget=20000"]
    with hold(run_dir):
        command = [CHROMIUM, *flags, "--dump-dom", ask.address]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert f"The last logged step is {NEXT}." in shown
    assert re.search("<title>(.*)</title>", shown)[1] == "seen: 700, trained_tokens, 0 folded"
