"""`hub`: huggingface_hub's client without a network. It knows one token, and keeps what it is given."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import httpx
import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import filter_repo_objects

from rlhf_exp.config import hub as settings

TOKEN = "hf_standin"


@dataclass
class Hub:
    """`files` of each repository by path, `created` as (repository, private), `tokens` that were asked about."""

    files: dict = field(default_factory=dict)
    created: list = field(default_factory=list)
    tokens: list = field(default_factory=list)
    refuse_commits: bool = False

    def create_repo(self, repo_id, *, private, exist_ok):
        self.created.append((repo_id, private))

    def upload_folder(self, *, repo_id, folder_path, ignore_patterns, commit_message):
        if self.refuse_commits:
            raise refuse(403, "403 Forbidden: no right to write here")
        names = [str(path.relative_to(folder_path)) for path in folder_path.rglob("*") if path.is_file()]
        kept = filter_repo_objects(names, ignore_patterns=ignore_patterns)
        self.files[repo_id] = {name: (folder_path / name).read_bytes() for name in kept}
        return SimpleNamespace(commit_url=f"https://hub/{repo_id}/commit/1")

    def whoami(self, token):
        self.tokens.append(token)
        if token != TOKEN:
            raise refuse(401, "401 Unauthorized")


def refuse(status, message):
    return HfHubHTTPError(message, response=httpx.Response(status, request=httpx.Request("POST", "https://hub")))


@pytest.fixture
def hub(monkeypatch):
    found = Hub()
    for name in ("create_repo", "upload_folder", "whoami"):
        answer = getattr(found, name)
        monkeypatch.setattr(HfApi, name, lambda client, *args, answer=answer, **more: answer(*args, **more))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(settings, "_answers", lambda host, port: True)
    return found
