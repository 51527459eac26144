"""Hashes the inputs of a run, so that it is never resumed with other rows, rewards or weights.

    hash_inputs(cfg)          # {"task.path": "9f86d081...", "reward.functions.short": "60303ae2...:short"}
    hash_rows(task.train)

run.json holds them as `inputs`. Modules that a reward's file imports are not included.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path

from rlhf_exp import processes
from rlhf_exp.config.hub import is_hub_id
from rlhf_exp.config.rules.files import list_local_models
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.forms import Row
from rlhf_exp.runs.folder import RunFolder

WEIGHTS = re.compile(r"\.(safetensors|json|txt|model|jinja)$")
MANIFEST, BEST = "manifest.json", "best.json"
"""What a run writes beside weights, which are the same without (manifest.py, best.py)."""
SHOWN = 8  # digits of a hash in a message


def hash_inputs(cfg: Config) -> dict[str, str]:
    """For each key that names a local file or folder, a hash of its present content."""
    found = {}
    for key, task in cfg.list_sources():
        if task.source == "file":
            found[f"{key}.path"] = hash_path(Path(task.path))
    samples = getattr(cfg.task, "samples", None)
    if samples not in (None, "self"):
        found["task.samples"] = hash_path(Path(samples) / "samples.jsonl")
    found |= {key: hash_weights(Path(path).expanduser()) for key, path in list_local_models(cfg)}
    for key, path in cfg.list_saved_models().items():
        if not is_hub_id(path):
            found[key] = _hash_saved_model(Path(path).expanduser(), key == "reward.path" and cfg.reward.normalize)
    if cfg.reward.judge.rubric is not None:
        found["reward.judge.rubric"] = hash_path(Path(cfg.reward.judge.rubric).expanduser())
    for key, where in cfg.list_functions().items():
        found[key] = f"{hash_path(_find_file(where))}:{where.rpartition(':')[2]}"
    return found


def list_changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Lines such as `task.path 9f86d081, here 60303ae2`, for inputs that both have."""
    return [
        f"{name} {before[name][:SHOWN]}, here {now[name][:SHOWN]}"
        for name in now
        if name in before and before[name] != now[name]
    ]


def check_inputs(cfg: Config, folder: RunFolder, inputs: dict[str, str]) -> None:
    """Record hashes of rows and weights in run.json. The hub, or another version of this package, may have others than
    a resumed run began with, and another machine others than this one.

    Raises:
        ConfigError: they differ from those of the resumed run, or between the processes of this one.
    """
    for other, found in enumerate(processes.gather(inputs)):
        if changed := list_changes(found, processes.broadcast(inputs)):
            line = f"process {other} reads others than process 0 ({', '.join(changed)})"
            raise ConfigError([f"{line}; all need the same files, such as on a file system that they share"])
    if cfg.resume and (changed := list_changes(folder.before.inputs, inputs)):
        line = f"resume={cfg.resume}: is a run of other inputs ({', '.join(changed)})"
        raise ConfigError([f"{line}; start a new run with another output_dir"])
    folder.record.inputs |= inputs
    folder.save()


def hash_rows(rows: Iterable[Row]) -> str:
    """A hash of rows and their order."""
    digest = sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=str).encode() + b"\n")
    return digest.hexdigest()


def hash_path(path: Path) -> str:
    """A hash of a file's content, or of the names and contents of all files below a folder."""
    if not path.is_dir():
        return _hash_file(path).hex()
    return _hash_files(path, [file for file in path.rglob("*") if file.is_file()])


def hash_weights(folder: Path) -> str:
    """A hash of the weights, config and tokenizer in a model's folder."""
    files = [file for file in folder.iterdir() if WEIGHTS.search(file.name)]
    return _hash_files(folder, [file for file in files if file.name not in (MANIFEST, BEST)])


def _find_file(where: str) -> Path:
    """The file of FILE.py:FUNCTION."""
    return Path(where.rpartition(":")[0]).expanduser()


def _hash_saved_model(folder: Path, normalize: bool) -> str:
    run = (folder / "model").is_dir()
    found = hash_weights(folder / "model" if run else folder)
    return f"{found}-{hash_path(folder / 'evaluation.json')}" if run and normalize else found


def _hash_files(folder: Path, files: list[Path]) -> str:
    digest = sha256()
    for file in sorted(files):
        digest.update(str(file.relative_to(folder)).encode())
        digest.update(_hash_file(file))
    return digest.hexdigest()


def _hash_file(path: Path) -> bytes:
    facts = path.stat()
    return _hash_unchanged(path.resolve(), facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=4096)
def _hash_unchanged(path: Path, size: int, mtime_ns: int) -> bytes:
    """The hash of a file, cached until it changes: the jobs of a sweep share a process, and read weights once."""
    with path.open("rb") as content:
        return file_digest(content, "sha256").digest()
