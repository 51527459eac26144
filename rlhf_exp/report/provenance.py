"""Where the start model and the rows of a run come from, and under which licence, as far as that is recorded.

find_model(run)   ->  Source("Qwen/Qwen2.5-3B", hub_id="Qwen/Qwen2.5-3B", licence={"license": "other", ...})
find_data(run)    ->  [Source("openai/gsm8k", ...)]

Licences are those that the README.md beside the weights, or of the hub's repository, states; nothing is guessed.
"""

from pathlib import Path
from typing import Any, NamedTuple

import yaml
from huggingface_hub import metadata_load

from rlhf_exp.config.hub import fetch, find_cached, is_hub_id
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.runs.load import Run

LICENCE = ("license", "license_name", "license_link")
GENERATED = {"license": "apache-2.0"}
"""Of rows that this package makes: its own licence."""


class Source(NamedTuple):
    """`hub_id` is None for what is not on the hub; `licence` holds the hub's keys, and is empty if it is unknown."""

    name: str
    hub_id: str | None = None
    licence: dict[str, Any] = {}


def find_model(run: Run) -> Source:
    """The model that the run started from."""
    model, inputs = run.config.get("model") or {}, run.info.get("inputs") or {}
    path, named = model.get("path"), (run.config.get("hub") or {}).get("base_model")
    if model.get("init") is not None:
        return Source(f"random weights (model={model.get('name')})")
    if path is None:
        shipped = _describe_folder(ASSETS / str(model.get("name")), named)
        return shipped._replace(name=f"{model.get('name')}, which ships with rlhf_exp")
    if "model.path" in inputs or not is_hub_id(path):
        return _describe_folder(Path(path).expanduser(), named)
    return find_on_hub(path)


def find_data(run: Run) -> list[Source]:
    """Where the rows come from: one place, and for a task with another's prompts that one's."""
    task, found = run.config.get("task") or {}, []
    for key, keys in {"task": task, "task.of": task.get("of") or {}}.items():
        match keys.get("source"):
            case "hub":
                found.append(find_on_hub(str(keys.get("hub_id")), "dataset"))
            case "file":
                digest = (run.info.get("inputs") or {}).get(f"{key}.path")
                found.append(Source(f"the file {keys.get('path')}, sha256 {digest}"))
            case "generated":
                found.append(Source(f"rows that rlhf_exp generates for task={keys.get('name')}", licence=GENERATED))
    return found


def find_on_hub(hub_id: str, kind: str = "model") -> Source:
    """What the card of a repository says: from the hub's cache, else from the hub if it answers."""
    licence = _read_licence(_read_metadata(find_cached(hub_id, "README.md", kind) or fetch(hub_id, "README.md", kind)))
    link = str(licence.get("license_link", ""))
    if link and "://" not in link:  # a file of that repository
        place = hub_id if kind == "model" else f"{kind}s/{hub_id}"
        licence["license_link"] = f"https://huggingface.co/{place}/blob/main/{link}"
    return Source(hub_id, hub_id, licence)


def _describe_folder(folder: Path, hub_id: str | None = None) -> Source:
    """A folder with weights, by its own card, which one of this package's runs has; else by the card of `hub_id`, which
    the user names."""
    metadata = _read_metadata(folder / "README.md")
    base = metadata.get("base_model")
    hub_id = hub_id or (base if isinstance(base, str) and "/" in base and not Path(base).exists() else None)
    licence = _read_licence(metadata) or (find_on_hub(hub_id).licence if hub_id else {})
    return Source(f"the folder {folder}", hub_id, licence)


def _read_licence(metadata: dict[str, Any]) -> dict[str, Any]:
    found = {name: metadata[name] for name in LICENCE if metadata.get(name)}
    return found if found.get("license") not in (None, "unknown") else {}


def _read_metadata(card: Path | None) -> dict[str, Any]:
    try:
        return (metadata_load(card) if card else None) or {}
    except (ValueError, OSError, yaml.YAMLError):  # OSError: there is no card
        return {}
