"""What a reader sees and does on the pages, in Chromium."""

import json
import shutil

import pytest

from rlhf_exp.analysis.report import samples, write_report
from rlhf_exp.analysis.report.page import Heading, Table, Widget, write_page
from rlhf_exp.runs.files import write_json, write_jsonl
from tests.analysis.report.browser import ask, needs_browser
from tests.analysis.report.test_golden import COMPARISONS, GOLDEN, SEEDS
from tests.analysis.report.test_markup import HOSTILE, write_texts

pytestmark = needs_browser


def test_a_run_shows_its_curves_and_all_of_its_samples(run_dir, tmp_path):
    page = write_report([run_dir], run_dir)
    found = ask(
        page,
        """
        const curves = all("#curves canvas").length;
        const [axis, also] = all("#curves select");
        choose(also, "learning_rate_of_nothing");
        choose(also, "step_time");
        const more = all("#curves canvas").length;
        choose(axis, "trained_tokens");
        const label = all("#curves figcaption").map((caption) => caption.textContent);
        return [curves, more, label[0], all("#samples .count")[0].textContent, all("#samples .card").length,
                document.documentElement.scrollWidth <= innerWidth];
        """,
        tmp_path,
    )
    assert found[0] > 5 and found[1] == found[0] + 1 and found[2].startswith("step_time")
    assert found[3:] == ["24 of 24", 5, True]


def test_the_first_screen_has_the_verdict_the_health_the_picture_and_what_else_changed(run_dir, tmp_path):
    question = """
        const shown = [...all(".beside .callout"), ...all("#progress canvas")];
        location.hash = all("nav a").at(-1).hash;
        await wait(100);
        return [shown.map((one) => one.getBoundingClientRect().bottom <= innerHeight), all("nav a").length,
                document.querySelector(location.hash).open];
        """
    page = write_report([run_dir], run_dir)
    assert ask(page, question, tmp_path, size="1440,900") == [[True] * 5, 7, True]


def test_samples_that_the_page_has_no_room_for_are_loaded_from_a_file_beside_it(run_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "MOST_LETTERS", 6_000)
    page = write_report([run_dir], run_dir)
    script = """
        const count = () => all("#samples .count")[0].textContent;
        const before = count();
        all("#samples .label button")[0].click();
        for (let i = 0; i < 100 && count() === before; i++) await wait(20);
        choose(all("#samples input[type=search]")[0], "no such text");
        return [before, count(), all("#samples .label button").length];
        """
    before, after, buttons = ask(page, script, tmp_path)
    some = int(before.split()[0])
    assert 0 < some < 24 and before == f"{some} of {some}" and after == "0 of 24" and buttons == 0
    (run_dir / "plots" / "samples.js").unlink()
    missing = """
        all("#samples .label button")[0].click();
        for (let i = 0; i < 100 && all("#samples .label button").length; i++) await wait(20);
        return all("#samples .label")[0].textContent;
        """
    assert ask(page, missing, tmp_path).endswith("plots/samples.js is not beside this page.")


def test_samples_are_searched_filtered_sorted_compared_and_linked(run_dir, tmp_path):
    page = write_report([run_dir], run_dir)
    lines = [json.loads(line) for line in (run_dir / "samples.jsonl").read_text().splitlines()]
    after = [row for row in lines if row["which"] == "trained" and row["decoding"] == "sampled" and not row["sample"]]
    right = sum(row["outcome"] == "correct" for row in after)
    found = ask(
        page,
        """
        const count = () => all("#samples .count")[0].textContent;
        const [change, before, outcome, cut, sort] = all("#samples .tools select");
        choose(outcome, "correct");
        const right = count();
        choose(outcome, "");
        choose(sort, "tokens");
        const read = (facts) => Number(facts.textContent.match(/tokens (\\d+)/)[1]);
        const lengths = all("#samples .card .facts").map(read);
        const boxes = all("#samples input[type=checkbox]");
        boxes[1].click();
        const marked = all("#samples ins, #samples del").length;
        choose(all("#samples input[type=search]")[0], "no such text");
        const none = count();
        return [right, lengths, marked, none, all("#samples mark").length];
        """,
        tmp_path,
    )
    assert found[0] == f"{right} of 24" and found[3] == "0 of 24"
    assert found[1] == sorted((row["tokens"] for row in after), reverse=True)[:5]
    assert found[2] > 0
    linked = after[20]["id"]
    shown = 'return all("#samples .card").map((card) => card.querySelector("a").textContent);'
    assert ask(page, shown, tmp_path, fragment=f"#samples={linked.replace(' ', '%20')}") == [linked]


def test_a_comparison_has_a_curve_for_each_setting_that_can_be_hidden_and_tables_that_sort(tmp_path):
    runs = [shutil.copytree(GOLDEN / name, tmp_path / name) for name in SEEDS]
    page = write_report(runs, tmp_path / "out")
    found = ask(
        page,
        """
        const names = all("#curves .legend button").map((button) => button.textContent);
        all("#curves .legend button")[0].click();
        const pressed = all("#curves .legend button").map((button) => button.getAttribute("aria-pressed"));
        const table = all("table").find((one) => one.textContent.includes("health"));
        const place = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === "trained");
        const values = () => [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[place].textContent));
        const head = table.tHead.rows[0].cells[place].querySelector("button");
        head.click();
        const down = values();
        head.click();
        return [names.length, pressed, down, values()];
        """,
        tmp_path,
    )
    assert found[0] == 2 and found[1] == ["false", "true"]
    assert found[2] == sorted(found[2], reverse=True) and found[3] == sorted(found[3])


def test_findings_are_marked_on_the_axis_and_named_under_the_cursor(run_dir, tmp_path):
    finding = {"name": "kl_drift", "severity": "warning", "steps": [2, 4], "evidence": "it drifts", "cause": "c",
               "remedy": ""}  # fmt: skip
    write_json(run_dir / "diagnosis.json", {"findings": [finding], "health": "warning"})
    found = ask(
        write_report([run_dir], run_dir),
        """
        const over = all("#curves .u-over")[0];
        const box = over.getBoundingClientRect();
        const move = (share) => over.dispatchEvent(new MouseEvent("mousemove", {bubbles: true, view: window,
          clientX: box.left + share * box.width, clientY: box.top + 50}));
        over.dispatchEvent(new MouseEvent("mouseenter", {bubbles: true, view: window}));
        const texts = [];
        for (const share of [0.02, 0.5, 0.99]) {
          move(share);
          await wait(100);
          texts.push(all("#curves .tip")[0].textContent);
        }
        return texts;
        """,
        tmp_path,
    )
    assert "kl drift: it drifts" in "".join(found) and all(text.startswith("step ") for text in found)


def test_no_text_of_a_run_becomes_an_element_or_runs(run_dir, tmp_path):
    write_texts(run_dir, HOSTILE)
    texts = dict.fromkeys(("id", "prompt", "completion", "outcome"), HOSTILE)
    rows = [texts | {"step": 1, "sample": i, "tokens": 3, "reward": 1.0} for i in range(3)]
    write_jsonl(run_dir / "completions.jsonl", rows)
    page = write_report([run_dir], run_dir)
    found = ask(
        page,
        """
        all("input[type=checkbox]").forEach((box) => box.click());
        return [all("img[src=x]").length, all("a[href^=javascript]").length, all(".card script").length,
                all(".card")[0].textContent.includes("<script>alert(1)")];
        """,
        tmp_path,
    )
    assert found == [0, 0, 0, True]


def test_tokens_are_coloured_by_a_figure(tmp_path):
    side = {"caption": "After", "text": "a b", "tokens": ["a", " b"], "colours": {"KL": [0.5, -1.0]}}
    content = {"fields": [], "rows": [{"id": "1", "prompt": "p", "values": {}, "sides": [side]}]}
    page = write_page([Heading("x", 1), Widget("samples", "samples", content, [])], tmp_path)
    script = 'choose(all("select")[0], "KL"); return all(".card span").map((s) => [s.textContent, s.title]);'
    assert ask(page, script, tmp_path) == [["a", "KL 0.5"], [" b", "KL -1"]]


def test_a_table_sorts_numbers_with_what_has_none_at_the_end(tmp_path):
    rows = [["a", "9.5 [1, 2]", "2 min 5 s"], ["b", "-", "59 s"], ["c", "1,000", "1 h 0 min"]]
    page = write_page([Heading("x", 1), Table(["", "n", "time"], rows)], tmp_path)
    script = """
        const order = () => [...document.querySelector("tbody").rows].map((row) => row.cells[0].textContent).join("");
        const heads = all("th button");
        const found = [];
        for (const head of [heads[1], heads[1], heads[1], heads[2]]) { head.click(); found.push(order()); }
        return found;
        """
    assert ask(page, script, tmp_path) == ["cab", "acb", "abc", "cab"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Those of a run and of a comparison, whose pictures have no pixels."""
    folder = tmp_path_factory.mktemp("pages")
    several = [GOLDEN / name for name in COMPARISONS["mixed"]]
    return [write_report([GOLDEN / "grpo"], folder / "one"), write_report(several, folder / "several")]


def ask_frame(page, question, tmp_path, **attributes):
    """`ask` about `here`, the document of the page in a frame: of any width, which a window has not, or without
    scripts."""
    frame = json.dumps({"srcdoc": page.read_text(encoding="utf-8"), **attributes}).replace("<", "\\u003c")
    script = f"""
        const frame = make("iframe", {frame});
        document.body.append(frame);
        const find = (selector) => [...frame.contentDocument.querySelectorAll(selector)];
        const isWhole = () => frame.contentDocument.readyState === "complete";
        while (!isWhole() || !find("html[data-ready], noscript img").length) await wait(20);
        const here = frame.contentDocument.documentElement;
        """
    return ask(page, script + question, tmp_path)


@pytest.mark.parametrize("width", [390, 1920])
def test_a_page_is_never_wider_than_the_window_and_a_wide_one_has_health_beside_the_verdict(pages, tmp_path, width):
    question = """
        find("details").forEach((one) => (one.open = true));
        const [verdict, health] = find("main .callout").map((one) => one.getBoundingClientRect());
        return [frame.contentWindow.innerWidth, here.scrollWidth, verdict.right <= health.left];
        """
    style = f"border: 0; width: {width}px; height: 900px"
    (shown, needed, beside), several = (ask_frame(page, question, tmp_path, style=style) for page in pages)
    assert (shown, beside) == (width, width > 700) and needed <= width
    assert several[0] == width and several[1] <= width


@pytest.mark.parametrize("dark", [False, True])
def test_a_page_is_as_dark_as_its_reader_wants_it(pages, tmp_path, dark):
    script = "return ['backgroundColor', 'color'].map((key) => getComputedStyle(document.body)[key].match(/\\d+/g));"
    ground, text = (sum(map(int, colour)) for colour in ask(pages[0], script, tmp_path, dark=dark))
    assert (ground < 100 and text > 600) if dark else (ground > 700 and text < 150)


def test_without_scripts_a_page_has_its_tables_pictures_and_samples(pages, tmp_path):
    question = """
        const count = (selector) => find(selector).filter((one) => one.checkVisibility()).length;
        return ["table", "noscript img", "noscript .pair"].map(count);
        """
    tables, pictures, samples = ask_frame(pages[0], question, tmp_path, sandbox="allow-same-origin")
    assert tables > 2 and pictures > 5 and samples > 2


def test_a_printed_page_has_its_folded_parts_and_no_buttons(pages, tmp_path):
    script = """
        const see = () => ["details > p", "details > .scroll", ".tools"].map((what) =>
          all(what).filter((one) => !one.closest(".tools details") && one.checkVisibility()).length);
        const before = see();
        for (const rule of all("style").flatMap((style) => [...style.sheet.cssRules])) {
          if (rule.media?.mediaText === "print") rule.media.mediaText = "all";
        }
        return [before, see(), all("details > p").length];
        """
    before, printed, texts = ask(pages[0], script, tmp_path)
    assert before[0] == 0 < before[2] and printed[0] == texts and printed[1] > before[1] and printed[2] == 0


def test_a_table_is_sorted_from_the_keyboard(pages, tmp_path):
    """Enter clicks a focused button, by the browser."""
    script = """
        const heads = all("th .sort");
        heads[1].focus();
        const focused = document.activeElement;
        focused.click();
        return [focused.tagName, focused === heads[1], heads.every((one) => one.tabIndex === 0),
                focused.closest("th").ariaSort, all(".scroll").every((one) => one.tabIndex === 0)];
        """
    assert ask(pages[1], script, tmp_path) == ["BUTTON", True, True, "descending", True]


def test_a_comparison_has_held_out_points_by_setting_with_the_interval_of_a_run_that_is_alone(tmp_path):
    runs = [shutil.copytree(GOLDEN / name, tmp_path / name) for name in ("grpo", "ppo")]
    found = ask(
        write_report(runs, tmp_path / "out"),
        """
        const figure = all("#curves figure").find((one) => one.textContent.startsWith("On validation rows"));
        const over = figure.querySelector(".u-over");
        const box = over.getBoundingClientRect();
        over.dispatchEvent(new MouseEvent("mouseenter", {bubbles: true, view: window}));
        over.dispatchEvent(new MouseEvent("mousemove", {bubbles: true, view: window, clientX: box.left + 2,
                                                        clientY: box.top + 50}));
        await wait(100);
        return [figure.textContent, figure.querySelector(".tip").textContent];
        """,
        tmp_path,
    )
    assert found[0].startswith("On validation rows, in training (accuracy)")
    at_start = "0.3125 [0.1416, 0.556]"
    assert found[1] == f"tokens trained on 0grpo {at_start}ppo {at_start}"
