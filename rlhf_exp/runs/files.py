"""Reads and writes the files of a run folder. Every file is complete at every moment.

write_json(folder / "data.json", {"rows": 3})
read_json(folder / "data.json")               # {"rows": 3}; {} if there is none
"""

import errno
import json
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from yaml import YAMLError

from rlhf_exp import processes
from rlhf_exp.errors import ConfigError

MOST_BYTES = {".yaml": 1_000_000, ".json": 100_000_000}
MOST_ROWS = 4_000_000_000
"""A file of a run is not read if it has more bytes, those of other endings than MOST_ROWS: a run writes far less."""


class NotARun(ConfigError):
    """A path from which no run can be read; the message is one line for the user."""

    def __init__(self, line: str) -> None:
        super().__init__([line])


def read_text(path: Path, errors: str = "strict") -> str | None:
    """The text of a file in a folder that may be another's; None if there is none.

    Raises:
        OSError: it cannot be read, is a folder or a pipe, or is larger than MOST_BYTES.
    """
    try:
        facts = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    if facts.st_size > (most := MOST_BYTES.get(path.suffix, MOST_ROWS)):
        raise OSError(errno.EFBIG, f"it has {facts.st_size:,} bytes; must have at most {most:,}", str(path))
    return path.read_text(encoding="utf-8", errors=errors)


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


def write_json(path: Path, value: Any, any_rank: bool = False) -> None:
    """Write JSON atomically. NaN and infinity, which JSON lacks, become null."""
    write_text(path, json.dumps(_finite(value), indent=2, ensure_ascii=False) + "\n", any_rank)


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object per line, atomically."""
    write_text(path, "".join(json.dumps(_finite(row), ensure_ascii=False) + "\n" for row in rows))


def read_json(path: Path) -> dict:
    """A JSON object; empty if the file is missing or empty.

    Raises:
        NotARun: it cannot be read, or is of another form.
    """
    return read_file(path, json.loads, dict)


def read_file(path: Path, parse: Callable[[str], Any], form: type) -> Any:
    """What is in a file, or an empty `form` if it is missing or empty.

    Raises:
        NotARun: it cannot be read, or is of another form.
    """
    try:
        text = read_text(path)
        found = parse(text) if text else None
    except OSError as error:
        raise NotARun(f"{path}: cannot be read ({error.strerror})") from error
    except (YAMLError, ValueError, RecursionError) as error:
        form_name = "YAML" if path.suffix in (".yaml", ".yml") else "JSON"
        raise NotARun(f"{path}: not valid {form_name} ({' '.join(str(error).split())})") from error
    if found is not None and not isinstance(found, form):
        raise NotARun(f"{path}: expected a {'mapping' if form is dict else 'list'}, found {type(found).__name__}")
    return found or form()


def _finite(value: Any) -> Any:
    """The value as JSON has it, with None for NaN and infinity."""
    return json.loads(json.dumps(value), parse_constant=lambda name: None)
