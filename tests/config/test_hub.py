import os
import socket
import time

import pytest

from rlhf_exp.config import hub
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.hub import prepare_hub


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", *hub.PROXIES):
        monkeypatch.setenv(name, "x")  # so that what the test sets is taken back
        monkeypatch.delenv(name)


@pytest.fixture
def server(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{listening.getsockname()[1]}")
        yield listening


def test_what_is_local_asks_nobody(monkeypatch):
    monkeypatch.setattr(hub, "_answers", lambda host, port: pytest.fail("asked"))
    prepare_hub(compose_config())


@pytest.mark.parametrize("overrides", [["model=gpt2"], ["task=gsm8k"], ["algo=dpo", "task=hh_rlhf"]])
def test_hub_ids_are_seen(overrides, monkeypatch):
    monkeypatch.setattr(hub, "_answers", lambda host, port: False)
    prepare_hub(compose_config(overrides))
    assert os.environ["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize(
    ("answers", "proxy", "offline"), [(True, "", None), (False, "", "1"), (False, "http://x", None)]
)
def test_only_a_hub_that_neither_answers_nor_has_a_proxy_is_given_up_and_at_once(
    server, monkeypatch, answers, proxy, offline
):
    if not answers:
        server.close()
    if proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
    start = time.perf_counter()
    prepare_hub(compose_config(["model=gpt2"]))
    assert os.environ.get("HF_HUB_OFFLINE") == offline
    assert time.perf_counter() - start < hub.TIMEOUT_S + 2
