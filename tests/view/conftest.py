"""`outputs`: a folder with the copy of a golden run in it. `hold` keeps the lock of a run, as a process that trains
does. `serve` starts the server, and returns a function that asks it."""

import shutil
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from threading import Thread
from typing import NamedTuple

import pytest

from rlhf_exp.runs.folder import read_record, write_json
from rlhf_exp.view.server import Server
from tests.report.test_golden import GOLDEN
from tests.runs.building import held


class Answer(NamedTuple):
    status: int
    text: str
    headers: dict[str, str]


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "outputs"
    run_dir = shutil.copytree(GOLDEN / "grpo", folder / "countdown" / "run")
    (run_dir / "report.html").write_text("<p>as it was written</p>")
    return folder


@pytest.fixture
def hold():
    @contextmanager
    def hold(run_dir):
        write_json(run_dir / "run.json", read_record(run_dir) | {"status": "running"})
        with held(run_dir):
            yield

    return hold


@pytest.fixture
def serve():
    with ExitStack() as stack:

        def start(site):
            server = stack.enter_context(Server(site, 0))
            Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)

            def ask(path="/", method="GET", host="localhost"):
                connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
                connection.putrequest(method, path, skip_host=True)
                if host is not None:
                    connection.putheader("Host", host)
                connection.endheaders()
                answer = connection.getresponse()
                found = Answer(answer.status, answer.read().decode(), dict(answer.headers))
                connection.close()
                return found

            ask.address = server.address
            return ask

        yield start
