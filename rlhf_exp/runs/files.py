"""The text of files of a run folder: what is written is complete at every moment, what is read is bounded.

write_json(folder / "data.json", {"rows": 3})
parse_yaml(read_text(folder / ".hydra" / "config.yaml"))
"""

import json
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer, ComposerError
from yaml.events import AliasEvent

from rlhf_exp import processes
from rlhf_exp.errors import ConfigError, refusing

MOST_BYTES = {".yaml": 1_000_000, ".json": 100_000_000}
MOST_ROWS = 4_000_000_000
"""A file of a run is not read if it has more bytes, those of other endings than MOST_ROWS: a run writes far less."""


class NotARun(ConfigError):
    """A path from which no run can be read."""


class SafeLoader(Composer, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain values without aliases, a few lines of which can stand for billions of values. The loader in C, where
    PyYAML has it, takes a fifth of the time, but ends the process on a text that is nested deeper than its stack;
    Composer, in Python, raises RecursionError."""

    def __init__(self, text: str) -> None:
        super(Composer, self).__init__(text)
        Composer.__init__(self)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(AliasEvent):
            raise ComposerError(None, None, "found an alias; write its values out", self.peek_event().start_mark)
        return super().compose_node(parent, index)


def read_text(path: Path) -> str:
    """The text of a file in a folder that may be another's; empty if there is no such file.

    Raises:
        NotARun: it cannot be read, is a folder or a pipe, or is larger than MOST_BYTES.
    """
    absent = suppress(FileNotFoundError, NotADirectoryError)
    with refusing(f"{path}: cannot be read", OSError, kind=NotARun), absent:
        facts, most = path.stat(), MOST_BYTES.get(path.suffix, MOST_ROWS)
        if not stat.S_ISREG(facts.st_mode):
            raise NotARun([f"{path}: cannot be read (it is not a file)"])
        if facts.st_size > most:
            raise NotARun([f"{path}: cannot be read (it has {facts.st_size:,} bytes; must have at most {most:,})"])
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def parse_yaml(text: str) -> Any:
    """The plain values of a YAML text.

    Raises:
        YAMLError: it is no YAML, or has an alias.
        RecursionError: it is nested too deeply.
    """
    return yaml.load(text, Loader=SafeLoader)


def write_text(path: Path, text: str, any_rank: bool = False) -> None:
    """Write a file atomically: a reader sees the old one or the new one, never a part. With several processes only rank
    0 writes, here and below, unless `any_rank`."""
    if not (processes.is_main() or any_rank):
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # a full disk names none
        raise


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically. NaN and infinity, which JSON lacks, become null."""
    write_text(path, json.dumps(_finite(value), indent=2, ensure_ascii=False) + "\n")


def write_jsonl(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write one JSON object per line, atomically."""
    write_text(path, "".join(json.dumps(_finite(row), ensure_ascii=False) + "\n" for row in rows))


def _finite(value: Any) -> Any:
    """The value as JSON has it, with None for NaN and infinity."""
    return json.loads(json.dumps(value), parse_constant=lambda name: None)
