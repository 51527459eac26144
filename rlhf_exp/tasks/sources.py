"""Reads rows of a file or of a data set on the hub, each with its place; a problem is one line with that place.

for where, row in read_lines(Path("train.jsonl.gz")): ...           # "train.jsonl.gz, line 1", {...}
for where, row in read_table(Path("train.csv")): ...        # also .csv.gz, .parquet and the above
for part, where, row in read_hub("openai/gsm8k", name="main"): ...  # "train", "openai/gsm8k, train, row 1", {...}
question, answer = read_texts(row, where, "question", "answer")
"""

import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks.texts import validate_characters

UNTYPED = (".csv", ".csv.gz")
SUFFIXES = (".jsonl", ".jsonl.gz", *UNTYPED, ".parquet")
"""Of the files that `read_table` reads; in those of UNTYPED all values are texts."""


class Unavailable(ConfigError):
    """Rows of the hub that cannot be loaded now."""


class Item(NamedTuple):
    """A row of a task: its id, the columns that graders and rewards read, what the task's functions make the prompt and
    the answers of, and the part of the data that it belongs to."""

    id: str
    columns: dict[str, Any]
    content: Any
    subset: str = "all"


class OddKind(NamedTuple):
    """A kind of odd row: its rule, whether it is kept, and how many there are in each part."""

    kind: str
    rule: str
    kept: bool
    counts: dict[str, int]


@dataclass(frozen=True)
class Source:
    """What a task has read.

    Attributes:
        splits: the rows of train, validation and test, in an order that depends on no seed.
        read: how many rows were read, by part of the source.
        what: the rows, in a word.
        facts: what was counted, for data.json in the run folder.
        notes: what a user of the rows' columns should know, one line each.
        repeated: ids of rows whose prompt an earlier row has: they are not sampled on.
        sampled: the rows on which completions to learn from are sampled, if not all of train.
        originals: rows as they stood in their file, by id, for the user's own grader.
    """

    splits: dict[str, list[Item]]
    read: dict[str, int]
    what: str = "rows"
    odd: tuple[OddKind, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    repeated: frozenset[str] = frozenset()
    sampled: list[Item] | None = None
    originals: dict[str, Any] = field(default_factory=dict)


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """The JSON values of a .jsonl or .jsonl.gz file, each with its place.

    Raises:
        ConfigError: not UTF-8, not JSON, or a broken or incomplete gzip file.
    """
    with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as lines:
        number = 0
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"{path}, line {number}", json.loads(line.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise ConfigError([f"{path}, line {number}: not UTF-8 (byte {error.start + 1} of the line)"]) from None
        except ValueError as error:
            raise ConfigError([f"{path}, line {number}: not JSON ({error})"]) from None
        except RecursionError:
            raise ConfigError([f"{path}, line {number}: nested too deep to be read"]) from None
        except (EOFError, zlib.error, gzip.BadGzipFile):
            cut = f"not a whole gzip file, broken or cut off after line {number}"
            raise ConfigError([f"{path}: {cut}; fetch it again"]) from None


def read_table(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a file with one of SUFFIXES as {column: value}, each with its place.

    Raises:
        ConfigError: another suffix, a broken file, or a row that is none.
    """
    suffix = next((suffix for suffix in SUFFIXES if path.name.endswith(suffix)), None)
    if suffix is None:
        raise ConfigError([f"{path}: must end with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"])
    if suffix == ".parquet":
        rows = _read_parquet(path)
    else:
        rows = _read_csv(path) if suffix.startswith(".csv") else read_lines(path)
    for where, row in rows:
        if not isinstance(row, dict):
            raise ConfigError([f'{where}: expected an object such as {{"question": "..."}}, got {str(row)[:40]}'])
        yield where, row


def _read_parquet(path: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            rows = (row for batch in file.iter_batches() for row in batch.to_pylist())
            for number, row in enumerate(rows, 1):
                yield f"{path}, row {number}", row
    except (OSError, pyarrow.ArrowException) as error:
        raise ConfigError([f"{path}: not a parquet file ({str(error).splitlines()[0]})"]) from None


def _read_csv(path: Path) -> Iterator[tuple[str, Any]]:
    """By the columns of the first line; all values are texts."""
    opened = gzip.open(path, "rt", encoding="utf-8-sig", newline="") if path.name.endswith(".gz") else None
    with opened or path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, strict=True)
        try:
            header = next(reader, None)
            if not header or len(set(header)) < len(header) or not all(header):
                raise ConfigError([f"{path}: its first line must name the columns, each once, got {header}"])
            for fields in reader:
                if not fields:
                    continue
                where = f"{path}, line {reader.line_num}"
                if len(fields) != len(header):
                    raise ConfigError([f"{where}: has {len(fields)} fields, and the first line {len(header)}"])
                yield where, dict(zip(header, fields, strict=True))
        except UnicodeDecodeError as error:
            raise ConfigError([f"{path}: not UTF-8 ({error.reason})"]) from None
        except csv.Error as error:
            raise ConfigError([f"{path}, line {reader.line_num}: not CSV ({error})"]) from None
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise ConfigError([f"{path}: not a whole gzip file, broken or cut off; fetch it again"]) from None


def read_hub(
    hub_id: str,
    name: str | None = None,
    data_dir: str | None = None,
    parts: tuple[str, ...] | None = None,
    remedy: str = "task.source=generated, or task.source=file task.path=FOLDER",
) -> Iterator[tuple[str, str, Any]]:
    """Every row of `parts` (None: of all parts), each with its part and its place.

    Args:
        hub_id, name, data_dir: the data set, its configuration and its folder, as datasets.load_dataset takes them.
        remedy: what to use instead, for the message.

    Raises:
        Unavailable: the rows cannot be loaded; the message names the local options.
        ConfigError: a part that is not there; the message names those that are.
    """
    from datasets import load_dataset

    try:
        dataset = load_dataset(hub_id, name=name, data_dir=data_dir)
    except Exception as error:  # the hub's errors have no common base class; each means that the rows are not available
        what = f"{data_dir} cannot" if data_dir else "cannot"
        instead = f"without a network use {remedy}"
        raise Unavailable([f"task.hub_id={hub_id}: {what} be loaded ({type(error).__name__}); {instead}"]) from None
    place = f"{hub_id}, {data_dir}" if data_dir else hub_id
    if missing := [part for part in parts or () if part not in dataset]:
        there = f"its splits are {', '.join(dataset)}{suggest(missing[0], dataset)}"
        raise ConfigError([f"task.hub_id={place}: has no split {missing[0]}; {there}"])
    for part in parts or dataset:
        for number, row in enumerate(dataset[part], 1):
            yield part, f"{place}, {part}, row {number}", row


def read_texts(row: Any, where: str, *keys: str) -> list[str]:
    """The texts of a row, one per key.

    Raises:
        ConfigError: it is not an object, or a key is missing or holds no text.
    """
    form = "expected {" + ", ".join(f'"{key}": text' for key in keys) + "}"
    if not isinstance(row, dict):
        raise ConfigError([f"{where}: {form}, got {str(row)[:40]}"])
    for key in keys:
        if key not in row:
            raise ConfigError([f'{where}: has no "{key}"; {form}'])
        if not isinstance(row[key], str):
            raise ConfigError([f'{where}: "{key}" is a {type(row[key]).__name__}; {form}'])
        validate_characters(row[key], f'{where}: "{key}"')
    return [row[key] for key in keys]
