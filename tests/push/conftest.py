"""A stand-in of the hub's HTTP API on this machine, as far as huggingface_hub's own client needs it to create, upload
and download. `hub`: the stand-in; the client in this process asks it, with a token that it knows."""

import base64
import hashlib
import json
import re
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from huggingface_hub import constants

from rlhf_exp.config.hub import PROXIES

TOKEN = "hf_standin"
LFS = re.compile(r"\.safetensors$")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    for name in ("HF_HUB_OFFLINE", *PROXIES):
        monkeypatch.delenv(name, raising=False)
    with serve() as hub:
        environment = {"HF_TOKEN": TOKEN, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "hf_home")}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        settings = {
            **{"ENDPOINT": hub.endpoint, "HUGGINGFACE_CO_URL_TEMPLATE": f"{hub.endpoint}/{{repo_id}}/resolve/"},
            **{"HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True, "HF_HUB_CACHE": str(tmp_path / "hf_home" / "hub")},
        }
        settings["HUGGINGFACE_CO_URL_TEMPLATE"] += "{revision}/{filename}"
        for name, value in settings.items():  # read from the environment when it was imported
            monkeypatch.setattr(constants, name, value)
        yield hub


class Hub:
    """`files` of each repository by path, `calls` as METHOD PATH, `created` as the requests to create repositories."""

    def __init__(self):
        self.files, self.calls, self.created, self.blobs = {}, [], [], {}
        self.refuse_commits = False


@contextmanager
def serve():
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def do_GET(self):
            self._answer()

        do_HEAD = do_POST = do_PUT = do_GET

        def _answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            hub.calls.append(f"{self.command} {self.path}")
            try:
                status, answer, headers = self._route(self.path.split("?")[0], body)
            except KeyError:
                status, answer, headers = 404, {"error": f"no such thing as {self.path}"}, {}
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def _route(self, path, body):
            if found := re.fullmatch(r"/lfs/(\w+)", path):
                assert hashlib.sha256(body).hexdigest() == found[1]
                hub.blobs[found[1]] = body
                return 200, {}, {}
            if found := re.fullmatch(r"/([\w-]+/[\w.-]+)/resolve/\w+/(.+)", path):
                content = hub.files[found[1]][found[2]]
                headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": "a" * 40}
                return 200, content, headers
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return 401, {"error": "Invalid username or password."}, {}
            if path == "/api/whoami-v2":
                return 200, {"type": "user", "name": "me"}, {}
            if path == "/api/repos/create":
                asked = json.loads(body)
                hub.created.append(asked)
                repo = f"{asked['organization']}/{asked['name']}"
                hub.files.setdefault(repo, {})
                return 200, {"url": f"{endpoint}/{repo}", "id": repo}, {}
            if path == "/api/validate-yaml":
                return 200, {"errors": [], "warnings": []}, {}
            if found := re.fullmatch(r"/([\w-]+/[\w.-]+)\.git/info/lfs/objects/batch", path):
                objects = [
                    asked | {"actions": {"upload": {"href": f"{endpoint}/lfs/{asked['oid']}"}}}
                    for asked in json.loads(body)["objects"]
                ]
                return 200, {"transfer": "basic", "objects": objects}, {}
            if found := re.fullmatch(r"/api/models/([\w-]+/[\w.-]+)/tree/\w+(/.*)?", path):
                below = "" if found[2] is None else f"{found[2][1:]}/"
                sizes = {name: len(content) for name, content in hub.files[found[1]].items() if name.startswith(below)}
                return 200, [{"type": "file", "path": name, "size": n, "oid": ""} for name, n in sizes.items()], {}
            found = re.fullmatch(r"/api/models/([\w-]+/[\w.-]+?)(/preupload|/commit|/revision)?(/\w+)?", path)
            if found is None:
                raise KeyError(path)
            repo, what = found[1], found[2]
            if what == "/preupload":
                asked = json.loads(body)["files"]
                files = [
                    {"path": file["path"], "uploadMode": "lfs" if LFS.search(file["path"]) else "regular",
                     "shouldIgnore": False, "oid": None}
                    for file in asked
                ]  # fmt: skip
                return 200, {"files": files}, {}
            if what == "/commit":
                if hub.refuse_commits:
                    return 403, {"error": "You have no right to write here."}, {}
                for line in body.splitlines():
                    entry = json.loads(line)
                    value = entry["value"]
                    if entry["key"] == "file":
                        hub.files[repo][value["path"]] = base64.b64decode(value["content"])
                    elif entry["key"] == "lfsFile":
                        hub.files[repo][value["path"]] = hub.blobs[value["oid"]]
                done = {"success": True, "commitOid": "a" * 40, "commitUrl": f"{endpoint}/{repo}/commit/{'a' * 40}"}
                return 200, done | {"hookOutput": "", "pullRequestUrl": None}, {}
            siblings = [{"rfilename": name} for name in hub.files[repo]]
            return 200, {"id": repo, "sha": "a" * 40, "siblings": siblings, "tags": [], "private": True}, {}

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint = hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
