"""The index of a folder of runs: a table of them, the newest first, each with a link to its report.

write_index(Path("outputs"))       ->  outputs/index.html
"""

import os
from pathlib import Path
from urllib.parse import quote

from rlhf_exp.analysis.report.page import Block, Heading, Table, Text, to_html
from rlhf_exp.runs.files import write_text
from rlhf_exp.runs.listing import COLUMNS, count_statuses, list_runs

LONGEST = 60
"""Letters of a folder's name."""


def shorten(name: str) -> str:
    """The begin and the end of a name, where its seed is."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}...{name[-LONGEST // 2 + 3 :]}"


def write_index(folder: Path) -> Path:
    """Write index.html into the folder, and return its path. Refused runs are only counted.

    Raises:
        ConfigError: there is no run in the folder.
        OSError: it cannot be written.
    """
    found = list_runs([folder])[::-1]
    runs = [run for run in found if run.status != "refused"]
    rows = [[shorten(name.removeprefix(f"{folder}/")), *cells] for name, *cells in (run.cells for run in runs)]
    pages = [run.path.relative_to(folder) / "report.html" for run in runs]
    links = [quote(os.fsencode(page)) if (folder / page).is_file() else "" for page in pages]
    table = Table(list(COLUMNS), rows, links=links)
    blocks: list[Block] = [Heading(f"Runs in {folder}", 1), Text(count_statuses(found)), table]
    write_text(folder / "index.html", to_html(blocks, {}))
    return folder / "index.html"
