"""A server for the browser on this machine: the index of a folder with its reports, or one report on given runs. The
page of a run that is going on is made anew for each request, and reloads itself when the run has written something.

    serve(Site(Path("outputs")), port=0, lambda address: print(address))      # until it is interrupted

It answers GET and HEAD, serves nothing but these pages, and writes nothing.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from rlhf_exp.errors import ConfigError
from rlhf_exp.report import render_report
from rlhf_exp.report.page import ASSETS, Heading, Text, to_html
from rlhf_exp.runs.lock import find_owner
from rlhf_exp.view.index import PAGE, REPORT, describe_folder, find_report

HOST = "127.0.0.1"
NAMES = re.compile(r"(127\.0\.0\.1|localhost)(:\d+)?")
"""What a browser may call this server. Another page can let its own name point here, and would then read answers."""
WATCHED = ("run.json", "metrics.jsonl", "alarms.jsonl", "completions.jsonl", "samples.jsonl")
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


class AsWritten(bytes):
    """A report of a file, which may be another's, with scripts of its own: it can read no other page from here."""


class Report(NamedTuple):
    """A page: the runs that it is about, none for a report that is only read, and its file where there may be one."""

    runs: tuple[Path, ...]
    file: Path | None


class Site(NamedTuple):
    """What is served: the index of a folder and the reports in it, or where runs are given one report on these."""

    folder: Path
    runs: tuple[Path, ...] = ()

    def find(self, path: str) -> Report | None:
        """The report at the path of an address, None if there is none; the index is at / where no runs are given."""
        name = os.fsdecode(unquote_to_bytes(path)).strip("/")
        if self.runs:
            alone = find_report(self.runs[0], REPORT) if len(self.runs) == 1 else None
            return None if name else Report(self.runs, alone)
        file = find_report(self.folder, name)
        if file is None:
            return None
        return Report((file.parent,) if (file.parent / "run.json").is_file() else (), file)

    def read(self, path: str) -> bytes | None:
        """The page at the path; None if there is none."""
        if not self.runs and path in ("/", f"/{PAGE}"):
            return to_html(describe_folder(self.folder, served=True), {}).encode()
        return (report := self.find(path)) and make_page(report)

    def read_state(self, path: str) -> bytes | None:
        return (report := self.find(path)) and read_state(report.runs).encode()


def make_page(report: Report) -> bytes | None:
    """The report as it was written; of runs that are going on, or have no report, as it is now."""
    state, is_live = read_state(report.runs), any(map(find_owner, report.runs))
    if report.file and report.file.is_file() and not is_live:
        return AsWritten(report.file.read_bytes())
    if not report.runs:
        return None
    try:
        page = render_report([*report.runs])
    except (ConfigError, OSError) as error:
        is_live, names = True, ", ".join(path.name for path in report.runs)
        page = to_html([Heading(f"{names}: there is no report yet", 1), Text(f"This page reloads. {error}")], {})
    if is_live:
        start, end, rest = page.rpartition("</body>")
        script = (ASSETS / "page" / "live.js").read_text(encoding="utf-8")
        page = f'{start}<script data-state="{state}">\n{script}</script>\n{end}{rest}'
    return page.encode()


def read_state(runs: tuple[Path, ...]) -> str:
    """A word that changes when one of the runs begins, writes something or ends."""
    facts = []
    for run in runs:
        facts.append(str(find_owner(run)))
        for name in WATCHED:
            with suppress(OSError):
                found = (run / name).stat()
                facts.append(f"{name} {found.st_mtime_ns} {found.st_size}")
    return sha256("\n".join(facts).encode()).hexdigest()[:16]


class Server(ThreadingHTTPServer):
    """Serves one site on this machine alone."""

    def __init__(self, site: Site, port: int) -> None:
        super().__init__((HOST, port), Handler)
        self.site = site
        self.lock = Lock()  # matplotlib's settings, and a file lock's object, are those of the process

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}/"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if not NAMES.fullmatch(self.headers.get("Host", "")):
            return self._send(403, b"this server answers only to 127.0.0.1 and localhost\n")
        site, content, form = self.server.site, None, "plain" if path == "/state" else "html"
        with self.server.lock, suppress(ConfigError, OSError):  # what has vanished is no page
            content = site.read_state(query.removeprefix("run=")) if path == "/state" else site.read(path)
        return self._send(404, b"no such page\n") if content is None else self._send(200, content, form)

    do_HEAD = do_GET

    def _send(self, status: int, content: bytes, form: str = "plain") -> None:
        with suppress(ConnectionError):  # the browser has gone on
            self.send_response(status)
            for name, value in HEADERS.items():
                self.send_header(name, value)
            if isinstance(content, AsWritten):
                self.send_header("Content-Security-Policy", "sandbox allow-scripts")
            self.send_header("Content-Type", f"text/{form}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    def log_message(self, *words: object) -> None:
        """Print nothing: a live page asks every few seconds."""


def serve(site: Site, port: int, announce: Callable[[str], None]) -> None:
    """Serve until Ctrl-C.

    Raises:
        OSError: the port is taken, or may not be used.
    """
    with Server(site, port) as server, suppress(KeyboardInterrupt):
        announce(server.address)
        server.serve_forever()
