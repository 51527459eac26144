"""What a reader sees and does on the pages, in Chromium: a page is opened once, and asked many things."""

import json

import pytest

from rlhf_exp.analysis.report import samples, write_report
from rlhf_exp.analysis.report.page import Heading, Table, Widget, write_page
from rlhf_exp.runs.files import write_json, write_jsonl
from tests.analysis.report.browser import ask, needs_browser
from tests.analysis.report.test_golden import COMPARISONS, GOLDEN
from tests.analysis.report.test_markup import HOSTILE, write_texts

pytestmark = needs_browser


def test_a_run_shows_its_curves_and_its_samples_which_can_be_searched_sorted_and_compared(run_dir, tmp_path):
    finding = {"name": "kl_drift", "severity": "warning", "steps": [2, 4], "evidence": "it drifts", "cause": "c",
               "remedy": ""}  # fmt: skip
    write_json(run_dir / "diagnosis.json", {"findings": [finding], "health": "warning"})
    page = write_report([run_dir], run_dir)
    found = ask(
        page,
        """
        const over = all("#curves .u-over")[0];
        const box = over.getBoundingClientRect();
        over.dispatchEvent(new MouseEvent("mouseenter", {bubbles: true, view: window}));
        const tips = [];
        for (const share of [0.02, 0.5, 0.99]) {
          over.dispatchEvent(new MouseEvent("mousemove", {bubbles: true, view: window,
            clientX: box.left + share * box.width, clientY: box.top + 50}));
          await wait(100);
          tips.push(all("#curves .tip")[0].textContent);
        }

        const curves = all("#curves canvas").length;
        const [axis, also] = all("#curves select");
        choose(also, "learning_rate_of_nothing");
        choose(also, "step_time");
        choose(axis, "trained_tokens");
        const added = [all("#curves canvas").length - curves, all("#curves figcaption")[0].textContent];

        const count = () => all("#samples .count")[0].textContent;
        const [change, before, outcome, cut, sort] = all("#samples .tools select");
        const counts = [count()];
        choose(outcome, "correct");
        counts.push(count());
        choose(outcome, "");
        choose(sort, "tokens");
        const read = (facts) => Number(facts.textContent.match(/tokens (\\d+)/)[1]);
        const lengths = all("#samples .card .facts").map(read);
        all("#samples input[type=checkbox]")[1].click();
        const marked = all("#samples ins, #samples del").length;
        choose(all("#samples input[type=search]")[0], "no such text");
        counts.push(count());
        return {tips, curves, added, counts, lengths, marked};
        """,
        tmp_path,
    )
    lines = [json.loads(line) for line in (run_dir / "samples.jsonl").read_text().splitlines()]
    after = [row for row in lines if row["which"] == "trained" and row["decoding"] == "sampled" and not row["sample"]]
    right = sum(row["outcome"] == "correct" for row in after)
    assert all(tip.startswith("step ") for tip in found["tips"]) and "kl drift: it drifts" in "".join(found["tips"])
    assert found["curves"] > 5 and found["added"][0] == 1 and found["added"][1].startswith("step_time")
    assert found["counts"] == ["24 of 24", f"{right} of 24", "0 of 24"]
    assert found["lengths"] == sorted((row["tokens"] for row in after), reverse=True)[:5] and found["marked"] > 0
    linked = after[20]["id"]
    shown = 'return all("#samples .card").map((card) => card.querySelector("a").textContent);'
    assert ask(page, shown, tmp_path, fragment=f"#samples={linked.replace(' ', '%20')}") == [linked]


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


def test_a_table_sorts_numbers_powers_and_dates_with_what_has_none_at_the_end_also_from_the_keyboard(tmp_path):
    """Enter clicks a focused button, by the browser."""
    rows = [["a", "9.5 [1, 2]", "2 min 5 s", "1e-5", "2026-02-01 10:00"],
            ["b", "-", "59 s", "5e-6", "2026-01-31 09:00"],
            ["c", "1,000", "1 h 0 min", "0.001", "2026-01-31 10:00"]]  # fmt: skip
    table = Table(["", "n", "time", "rate", "began"], rows, links=["a", "b", "c"])
    page = write_page([Heading("x", 1), table], tmp_path)
    script = """
        const order = () => [...document.querySelector("tbody").rows].map((row) => row.cells[0].textContent).join("");
        const [, n, time, rate, began] = all("th .sort");
        const orders = [n, n, n, time, rate, began].map((head) => { head.click(); return order(); });
        const tabs = [...all("th .sort"), ...all(".scroll")].map((one) => one.tabIndex);
        n.focus();
        return [orders, began.closest("th").ariaSort, tabs, document.activeElement === n, all("tbody a").length];
        """
    found = [["cab", "acb", "abc", "cab", "cab", "bca"], "ascending", [0] * 6, True, 3]
    assert ask(page, script, tmp_path) == found


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


def test_the_first_screen_has_the_verdict_the_health_and_the_picture_and_a_link_opens_its_part(pages, tmp_path):
    question = """
        const shown = [...all(".beside .callout"), ...all("#progress canvas")];
        location.hash = all("nav a").at(-1).hash;
        await wait(100);
        const opened = document.querySelector(location.hash).open;
        return [shown.map((one) => one.getBoundingClientRect().bottom <= innerHeight), opened];
        """
    assert ask(pages[0], question, tmp_path, size="1440,900") == [[True] * 5, True]


def test_a_page_is_never_wider_than_the_window_and_a_wide_one_has_health_beside_the_verdict(pages, tmp_path):
    question = """
        find("details").forEach((one) => (one.open = true));
        const seen = [];
        for (const width of [390, 1920]) {
          frame.style.width = `${width}px`;
          await wait(200);
          const [verdict, health] = find("main .callout").map((one) => one.getBoundingClientRect());
          seen.push([frame.contentWindow.innerWidth, here.scrollWidth <= width, verdict.right <= health.left]);
        }
        return seen;
        """
    style = "border: 0; width: 390px; height: 900px"
    one, several = (ask_frame(page, question, tmp_path, style=style) for page in pages)
    assert one == [[390, True, False], [1920, True, True]]
    assert [found[:2] for found in several] == [[390, True], [1920, True]]


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


def test_a_comparison_has_a_curve_for_each_setting_that_can_be_hidden_and_held_out_points(tmp_path):
    """A setting of one run has its interval."""
    page = write_report([GOLDEN / "grpo", GOLDEN / "ppo"], tmp_path / "out")
    names, pressed, caption, tip = ask(
        page,
        """
        const figure = all("#curves figure").find((one) => one.textContent.startsWith("On validation rows"));
        const over = figure.querySelector(".u-over");
        const box = over.getBoundingClientRect();
        over.dispatchEvent(new MouseEvent("mouseenter", {bubbles: true, view: window}));
        over.dispatchEvent(new MouseEvent("mousemove", {bubbles: true, view: window, clientX: box.left + 2,
                                                        clientY: box.top + 50}));
        await wait(100);
        const tip = figure.querySelector(".tip").textContent;
        const legend = () => all("#curves .legend button");
        const names = legend().map((button) => button.textContent);
        legend()[0].click();
        const pressed = legend().map((button) => button.getAttribute("aria-pressed"));
        return [names, pressed, figure.querySelector("figcaption").textContent, tip];
        """,
        tmp_path,
    )
    assert len(names) == 2 and pressed == ["false", "true"]
    assert caption.startswith("On validation rows, in training (accuracy, %)")
    at_start = "31.25 [14.16, 55.6]"
    assert tip == f"tokens trained on 0grpo {at_start}ppo {at_start}"
