"""Reads rows of a file or of a data set on the hub, each with its place; a problem is one line with that place.

for where, row in read_lines(Path("train.jsonl.gz")): ...           # "train.jsonl.gz, line 1", {...}
for where, row in read_table(Path("train.csv")): ...        # any of READERS
for part, where, row in read_hub("openai/gsm8k", name="main"): ...  # "train", "openai/gsm8k, train, row 1", {...}
question, answer = read_texts(row, where, "question", "answer")
"""

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rlhf_exp.config.values import show, suggest
from rlhf_exp.errors import ConfigError, refusing
from rlhf_exp.tasks.texts import Row, validate_characters


class Unavailable(ConfigError):
    """Rows of the hub that cannot be loaded now."""


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """The JSON values of a .jsonl or .jsonl.gz file, each with its place.

    Raises:
        ConfigError: not UTF-8, not JSON, or a broken or incomplete gzip file.
    """
    for number, line in enumerate(_decode(path), 1):
        if line.strip():
            where = f"{path}, line {number}"
            with refusing(f"{where}: not JSON", ValueError, RecursionError):
                value = json.loads(line)
            yield where, value


def read_table(path: Path) -> Iterator[tuple[str, Row]]:
    """The rows of a file with a suffix of READERS as {column: value}, each with its place.

    Raises:
        ConfigError: another suffix, a broken file, or a row that is none.
    """
    read = next((read for suffix, read in READERS.items() if path.name.endswith(suffix)), None)
    if read is None:
        raise ConfigError([f"{path}: must end with one of {', '.join(READERS)}"])
    for where, row in read(path):
        if not isinstance(row, dict):
            raise ConfigError([f'{where}: expected an object such as {{"question": "..."}}, got {show(row, 40)}'])
        yield where, row


def _read_csv(path: Path) -> Iterator[tuple[str, Any]]:
    """By the columns of the first line; all values are texts."""
    csv.field_size_limit(2**31 - 1)  # Python's own limit is 131,072 characters, less than a long trace
    reader = csv.reader(_decode(path), strict=True)
    try:
        header = next(reader, [])
        if not all(header) or not 0 < len(set(header)) == len(header):
            raise ConfigError([f"{path}: its first line must name the columns, each once, got {header}"])
        for fields in filter(None, reader):
            where = f"{path}, line {reader.line_num}"
            if len(fields) != len(header):
                raise ConfigError([f"{where}: has {len(fields)} fields, and the first line {len(header)}"])
            yield where, dict(zip(header, fields, strict=True))
    except csv.Error as error:
        raise ConfigError([f"{path}, line {reader.line_num}: not CSV ({error})"]) from None


def _read_parquet(path: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow
    from pyarrow import parquet

    with refusing(f"{path}: not a parquet file", OSError, pyarrow.ArrowException), parquet.ParquetFile(path) as file:
        rows = (row for batch in file.iter_batches() for row in batch.to_pylist())
        for number, row in enumerate(rows, 1):
            yield f"{path}, row {number}", row


def _decode(path: Path) -> Iterator[str]:
    """The lines of a text, which may be compressed."""
    broken = refusing(f"{path}: not a whole gzip file", EOFError, zlib.error, gzip.BadGzipFile, hint="fetch it again")
    with refusing(f"{path}: cannot be read", OSError), broken:
        with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                with refusing(f"{path}, line {number}: not UTF-8", UnicodeDecodeError):
                    text = line.decode("utf-8-sig")
                yield text


Reader = Callable[[Path], Iterator[tuple[str, Any]]]
CSV: dict[str, Reader] = {".csv": _read_csv, ".csv.gz": _read_csv}
"""In these files all values are texts."""
READERS: dict[str, Reader] = {".jsonl": read_lines, ".jsonl.gz": read_lines, **CSV, ".parquet": _read_parquet}
"""By the suffix of a file."""


def read_hub(
    hub_id: str, name: str | None = None, data_dir: str | None = None, parts: tuple[str, ...] | None = None,
    place: str = "task",
) -> Iterator[tuple[str, str, Any]]:  # fmt: skip
    """Every row of `parts` (None: of all parts), each with its part and its place.

    Args:
        hub_id, name, data_dir: the data set, its configuration and its folder, as datasets.load_dataset takes them.
        place: the key that holds those of the task, for messages.

    Raises:
        Unavailable: the rows cannot be loaded; the message names the local options.
        ConfigError: a part that is not there; the message names those that are.
    """
    from datasets import load_dataset

    found, key = f"{hub_id}, {data_dir}" if data_dir else hub_id, f"{place}.source"
    instead = f"without a network use {key}=file with {place}.path, or {key}=generated if the task has it"
    # The hub's errors have no common base class; each means that the rows are not available.
    with refusing(f"{place}.hub_id={found}: cannot be loaded", Exception, hint=instead, kind=Unavailable):
        dataset = load_dataset(hub_id, name=name, data_dir=data_dir)
    if missing := [part for part in parts or () if part not in dataset]:
        there = f"its splits are {', '.join(dataset)}{suggest(missing[0], dataset)}"
        raise ConfigError([f"{place}.hub_id={found}: has no split {missing[0]}; {there}"])
    for part in parts or dataset:
        for number, row in enumerate(dataset[part], 1):
            yield part, f"{found}, {part}, row {number}", row


def read_texts(row: Any, where: str, *keys: str) -> list[str]:
    """The texts of a row, one per key.

    Raises:
        ConfigError: it is not an object, or a key is missing or holds no text.
    """
    if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in keys):
        form = ", ".join(f'"{key}": text' for key in keys)
        raise ConfigError([f"{where}: expected {{{form}}}, got {show(row, 60)}"])
    for key in keys:
        validate_characters(row[key], f'{where}: "{key}"')
    return [row[key] for key in keys]
