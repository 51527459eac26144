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


@pytest.mark.parametrize(
    ("typed", "asked"), [("", 0), ("model=gpt2", 1), ("task=gsm8k", 1), ("algo=dpo task=hh_rlhf", 1)]
)
def test_the_hub_is_asked_only_for_what_is_on_it(typed, asked, monkeypatch):
    calls = []
    monkeypatch.setattr(hub, "_answers", lambda *address: calls.append(address))
    prepare_hub(compose_config(typed.split()))
    assert (len(calls), os.environ.get("HF_HUB_OFFLINE")) == (asked, "1" if asked else None)


@pytest.mark.parametrize(
    ("answers", "proxy", "offline"), [(True, "", None), (False, "", "1"), (False, "http://x", None)]
)
def test_only_a_hub_that_neither_answers_nor_has_a_proxy_is_given_up_and_at_once(monkeypatch, answers, proxy, offline):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        if not answers:
            server.close()
        if proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy)
        start = time.perf_counter()
        prepare_hub(compose_config(["model=gpt2"]))
    assert os.environ.get("HF_HUB_OFFLINE") == offline
    assert time.perf_counter() - start < hub.TIMEOUT_S + 2
