"""What a reader sees and does on the page of a task's data, in Chromium."""

import json

from rlhf_exp.describe.__main__ import main
from tests.analysis.report.browser import ask, needs_browser

pytestmark = needs_browser

HOSTILE = "</script><img src=x onerror=document.body.remove()><script>alert(1)</script>"


def test_rows_are_filtered_by_split_and_compared_and_stay_text(tmp_path):
    rows = [
        {"prompt": f"{HOSTILE} {i}", "good": f"yes {i}", "bad": "no no", "note": HOSTILE,
         "part": "test" if i % 4 == 0 else "train"} for i in range(20)
    ]  # fmt: skip
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = ["task.chosen_column=good", "task.rejected_column=bad", "task.split_column=part"]
    assert main(["task=file", f"task.path={path}", "model=tiny_gpt2", *columns, f"output_dir={tmp_path / 'out'}"]) == 0
    found = ask(
        tmp_path / "out" / "describe.html",
        """
        const count = () => all("#rows .count")[0].textContent;
        const counts = [count()];
        const split = all("#rows .tools select").find((one) => [...one.options].some((o) => o.value === "test"));
        choose(split, "test");
        counts.push(count());
        all("#rows .tools input[type=checkbox]").at(-1).click();
        const sides = [...all("#rows .card")[0].querySelectorAll(".pair > div")];
        const marks = sides.map((side) => side.querySelectorAll("ins, del").length > 0);
        const texts = all("#rows .card .prompt").map((prompt) => prompt.textContent);
        return [counts, marks, texts.filter((text) => /^<.script><img src=x onerror/.test(text)).length,
                all("img").length, document.documentElement.scrollWidth <= innerWidth];
        """,
        tmp_path,
    )
    shown = found[0][1].split()[0]
    assert found == [["20 of 20", f"{shown} of 20"], [False, True, False], int(shown), 0, True] and shown == "5"
