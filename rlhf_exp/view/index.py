"""The index of a folder of runs: a table of them and one of the reports on several, each row with a link to its report.

describe_folder(Path("outputs"))   ->  [Heading("Runs in outputs", 1), ..., Table(["run", "status", ...], ...)]
write_index(Path("outputs"))       ->  outputs/index.html
"""

import os
from contextlib import suppress
from datetime import UTC, datetime
from glob import glob
from pathlib import Path
from urllib.parse import quote

from rlhf_exp.report.page import Block, Heading, Table, Text, to_html
from rlhf_exp.runs.folder import write_text
from rlhf_exp.runs.listing import list_runs, tabulate
from rlhf_exp.runs.load import DEPTH

PAGE, REPORT = "index.html", "report.html"
FEW = 8
"""So many reports on several runs are shown unfolded."""


def write_index(folder: Path) -> Path:
    """Write the index into the folder and return its path.

    Raises:
        ConfigError: there is no run in the folder.
        OSError: it cannot be written.
    """
    write_text(folder / PAGE, to_html(describe_folder(folder), {}))
    return folder / PAGE


def describe_folder(folder: Path, served: bool = False) -> list[Block]:
    """The runs of a folder, the newest first, and its reports on several runs.

    Args:
        served: also link runs that are still running, whose pages are made only when they are asked for.

    Raises:
        ConfigError: there is no run in the folder.
    """
    found = list_runs([folder])[::-1]
    runs = found[found["status"] != "refused"]
    cells, places = tabulate(runs), [Path(run).relative_to(folder) for run in runs["folder"]]
    cells["folder"] = cells["folder"].str.removeprefix(f"{folder}/")
    links = [_link(folder, place, served and status == "running")
             for place, status in zip(places, runs["status"], strict=True)]  # fmt: skip
    counts = [f"{n} {status}" for status, n in found["status"].value_counts().items()]
    return [
        Heading(f"Runs in {folder}", 1),
        Text(", ".join(counts)),
        *_describe_reports(folder, places),
        Heading("Runs"),
        Table(list(cells), cells.values.tolist(), links=links),
    ]


def find_report(folder: Path, name: Path | str) -> Path | None:
    """Where a report really is, whether or not it exists; None if that is not inside of the folder, or if it is another
    file, to which a link or a name with .. may lead."""
    with suppress(OSError, ValueError):  # a name that no file can have
        found, root = (folder / name).resolve(), folder.resolve()
        return found if found.name == REPORT and found.is_relative_to(root) and found.parent.is_dir() else None
    return None


def _describe_reports(folder: Path, runs: list[Path]) -> list[Block]:
    """The reports that lie in no run: those of studies, sweeps and comparisons."""
    pages = (Path(name) for depth in range(DEPTH + 1) for name in glob("*/" * depth + REPORT, root_dir=folder))
    rows, links = [], []
    for place in sorted(page.parent for page in pages if not {*page.parents} & {*runs}):
        if link := _link(folder, place):
            written = datetime.fromtimestamp((folder / place / REPORT).stat().st_mtime, UTC)
            below = sum(place in run.parents for run in runs)
            rows.append([str(folder if place == Path() else place), str(below), f"{written:%Y-%m-%d %H:%M}"])
            links.append(link)
    if not rows:
        return []
    folded = f"{len(rows)} reports" if len(rows) > FEW else ""
    table = Table(["report", "runs below", "written (UTC)"], rows, folded, links=links)
    return [Heading("Reports on several runs"), table]


def _link(folder: Path, place: Path, is_live: bool = False) -> str:
    """The address of the report in `place`; empty if there is none that may be served."""
    found = find_report(folder, place / REPORT)
    return quote(os.fsencode(place / REPORT)) if found and (is_live or found.is_file()) else ""
