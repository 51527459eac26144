"""Opens a page in Debian's Chromium without a window, and asks it questions."""

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

CHROMIUM = shutil.which("chromium")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: apt install chromium)")

ASK = """<script>
addEventListener("error", (event) => (document.documentElement.dataset.error = event.message));
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const all = (selector) => [...document.querySelectorAll(selector)];
const choose = (element, value) => {{
  element.value = value;
  element.dispatchEvent(new Event(element.tagName === "SELECT" ? "change" : "input"));
}};
addEventListener("load", async () => {{
  while (!("ready" in document.documentElement.dataset)) await wait(20);
  const found = await (async () => {{ {question} }})();
  const answer = document.createElement("pre");
  answer.id = "answer";
  answer.textContent = JSON.stringify([found, document.documentElement.dataset.error ?? null]);
  document.body.append(answer);
}});
</script>"""


def ask(page, question, tmp_path, *, fragment="", size="1280,900", dark=False):
    """What `question`, the body of an async function in JavaScript, returns on the page; no error may happen on it."""
    copy = page.with_name("asked.html")
    text = page.read_text(encoding="utf-8")
    copy.write_text(text.replace("<body>", "<body>" + ASK.format(question=question)), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={size}", "--virtual-time-budget=20000"]
    flags += [f"--blink-settings=preferredColorScheme={int(not dark)}"]
    command = [CHROMIUM, *flags, "--dump-dom", f"{copy.resolve().as_uri()}{fragment}"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    answer = re.search(r'<pre id="answer">(.*?)</pre>', shown, re.DOTALL)
    assert answer, shown[-2000:]
    found, error = json.loads(unescape(answer[1]))
    assert error is None
    return found
