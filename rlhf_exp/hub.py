"""Goes offline at once where the hub cannot be reached, so that what is cached loads and what is not is refused.

    prepare_hub(cfg)      # before huggingface_hub is imported: it reads its settings then

Left alone, the hub's client tries again for most of a minute, with a warning each time.
"""

import os
import socket
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rlhf_exp.files import is_hub_id

if TYPE_CHECKING:
    from rlhf_exp.schema import Config

TIMEOUT_S = 5.0
PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


def prepare_hub(cfg: "Config") -> None:
    """Set HF_HUB_OFFLINE where `cfg` names something on the hub and its server does not answer.

    A user's own setting stays, and behind a proxy nothing is tried: only the proxy knows.
    """
    if "HF_HUB_OFFLINE" in os.environ or any(name in os.environ for name in PROXIES) or not uses_hub(cfg):
        return
    address = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    if not _answers(address.hostname or "", address.port or 443):
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["HF_DATASETS_OFFLINE"] = "1"


def uses_hub(cfg: "Config") -> bool:
    """Whether a model, a reward model or the rows are named by a hub id."""
    paths = (cfg.model.path, cfg.model.base, cfg.reward.path)
    return cfg.task.source == "hub" or any(path is not None and is_hub_id(path) for path in paths)


def _answers(host: str, port: int) -> bool:
    """Whether a connection opens. In a thread of its own: looking up a name can hang longer than any timeout."""
    opened = []

    def connect() -> None:
        with suppress(OSError), socket.create_connection((host, port), timeout=TIMEOUT_S):
            opened.append(True)

    thread = Thread(target=connect, daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    return bool(opened)
