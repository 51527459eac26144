"""The index of a folder of runs: a table of them, the newest first, each with a link to its report.

write_index(Path("outputs"))       ->  outputs/index.html
"""

import os
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from rlhf_exp.errors import printable
from rlhf_exp.report.page import Block, Heading, Table, Text, to_html
from rlhf_exp.runs.folder import write_text
from rlhf_exp.runs.listing import list_runs, tabulate
from rlhf_exp.runs.load import NotARun, read_json

FIRST = ("run", "status", "health", "accuracy", "gain")
"""Columns that stand before the settings, which may be many."""


def write_index(folder: Path) -> Path:
    """Write index.html into the folder, and return its path. Refused runs are only counted.

    Raises:
        ConfigError: there is no run in the folder.
        OSError: it cannot be written.
    """
    found = list_runs(folder)[::-1]
    runs = [run for run in found if run["status"] != "refused"]
    shared, columns = tabulate(runs)
    places = [Path(run["run"]).relative_to(folder) for run in runs]
    columns["run"] = [cell.removeprefix(f"{folder}/") for cell in columns.get("run", [])]
    columns["health"] = [_read_health(folder / place) for place in places]
    pages = [place / "report.html" for place in places]
    links = [quote(os.fsencode(page)) if (folder / page).is_file() else "" for page in pages]
    shown = {name: columns[name] for name in dict.fromkeys([*FIRST, *columns]) if name in columns}
    counts = [f"{n} {status}" for status, n in Counter(run["status"] for run in found).most_common()]
    alike = f"; all: {' '.join(f'{name}={value}' for name, value in shared.items())}" if shared else ""
    table = Table(list(shown), [list(row) for row in zip(*shown.values(), strict=True)], links=links)
    blocks: list[Block] = [Heading(f"Runs in {folder}", 1), Text(f"{', '.join(counts)}{alike}"), table]
    write_text(folder / "index.html", to_html(blocks, {}))
    return folder / "index.html"


def _read_health(run_dir: Path) -> str:
    try:
        return printable(str(read_json(run_dir / "diagnosis.json").get("health", "-")))
    except NotARun:
        return "-"
