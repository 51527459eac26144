"""Works offline if the hub cannot be reached: files in the cache load, and others are refused at once.

    prepare_hub(cfg)      # before huggingface_hub is imported, since it then reads its settings
    find_cached("org/name")      # a model's config.json in its cache, or None; no network
    fetch("org/name")            # downloaded, if the hub answers

The hub's own client would retry for most of a minute, with a warning each time.
"""

import os
import re
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from rlhf_exp.config.schema import Config

HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
TIMEOUT_S = 5.0
MADE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "rlhf_exp" / "models"
"""Where models are that a command such as `make smollm2` makes without the hub."""
PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


def is_hub_id(path: str) -> bool:
    """Whether it is `org/name` or `name`, and its first part is not a local folder, which would make it a path."""
    return bool(HUB_ID.fullmatch(path)) and not os.path.isdir(path.split("/")[0])


def is_repo(name: str) -> bool:
    """Whether it can be a repository of the hub, `org/name`."""
    return "/" in name and bool(HUB_ID.fullmatch(name))


def prepare_hub(cfg: Config) -> None:
    """Set HF_HUB_OFFLINE if a model or the rows are on the hub and its server does not answer."""
    paths = (cfg.model.path, cfg.model.base, *cfg.list_saved_models().values())
    reads_hub = any(keys.source == "hub" for _, keys in cfg.list_sources())
    if reads_hub or any(path is not None and is_hub_id(path) for path in paths):
        go_offline_without_answer()


def is_offline() -> bool:
    """Whether the hub is not used: by the user's setting, or because it did not answer."""
    return os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "ON", "YES", "TRUE")


def find_cached(hub_id: str) -> Path | None:
    """A model's config.json in the hub's cache, at the last known commit of its main branch; or None."""
    home = Path(os.environ.get("HF_HOME", Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"))
    cache = Path(os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or home / "hub")
    folder = cache.expanduser() / f"models--{hub_id.replace('/', '--')}"
    with suppress(OSError):
        commit = (folder / "refs" / "main").read_text(encoding="utf-8").strip()
        path = folder / "snapshots" / commit / "config.json"
        return path if path.is_file() else None
    return None


def find_made(name: str, hub_id: str) -> str:
    """The folder in MADE if it is there, else the hub's id."""
    return str(MADE / name) if (MADE / name).is_dir() else hub_id


@cache
def fetch(hub_id: str) -> Path | None:
    """A model's config.json, downloaded into the hub's cache; None if the hub does not answer or refuses it."""
    go_offline_without_answer()
    if is_offline() or not is_hub_id(hub_id):
        return None
    from huggingface_hub import hf_hub_download

    with suppress(Exception):  # the hub's errors have no common base class; each means that the file is not available
        return Path(hf_hub_download(hub_id, "config.json", etag_timeout=TIMEOUT_S))
    return None


def go_offline_without_answer() -> None:
    """Set HF_HUB_OFFLINE if the server does not answer. The user's own setting stays; behind a proxy nothing is tried,
    since a direct connection would fail anyway."""
    if "HF_HUB_OFFLINE" in os.environ or any(name in os.environ for name in PROXIES):
        return
    address = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    if not _answers(address.hostname or "", address.port or 443):
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["HF_DATASETS_OFFLINE"] = "1"


def _answers(host: str, port: int) -> bool:
    """Whether a connection opens."""
    with suppress(OSError), socket.create_connection((host, port), timeout=TIMEOUT_S):
        return True
    return False
