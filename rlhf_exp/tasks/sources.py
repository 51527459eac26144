"""Reads rows of a JSONL file or of a data set on the hub, each with its place; a problem is one line with that place.

for where, row in read_lines(Path("train.jsonl.gz")): ...           # "train.jsonl.gz, line 1", {...}
for part, where, row in read_hub("openai/gsm8k", name="main"): ...  # "train", "openai/gsm8k, train, row 1", {...}
question, answer = read_texts(row, where, "question", "answer")
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlhf_exp.errors import ConfigError

HALF_CHARACTER = re.compile("[\ud800-\udfff]")  # JSON can hold it, but UTF-8, and so every tokenizer, cannot


class Unavailable(ConfigError):
    """Rows of the hub that cannot be loaded now."""


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
                    yield f"{path}, line {number}", json.loads(line.decode())
        except UnicodeDecodeError as error:
            raise ConfigError([f"{path}, line {number}: not UTF-8 (byte {error.start + 1} of the line)"]) from None
        except ValueError as error:
            raise ConfigError([f"{path}, line {number}: not JSON ({error})"]) from None
        except RecursionError:
            raise ConfigError([f"{path}, line {number}: nested too deep to be read"]) from None
        except (EOFError, zlib.error, gzip.BadGzipFile):
            cut = f"not a whole gzip file, broken or cut off after line {number}"
            raise ConfigError([f"{path}: {cut}; fetch it again"]) from None


def read_hub(
    hub_id: str,
    name: str | None = None,
    data_dir: str | None = None,
    parts: tuple[str, ...] | None = None,
    local: str = "FOLDER",
) -> Iterator[tuple[str, str, Any]]:
    """Every row of `parts` (None: of all parts), each with its part and its place.

    Args:
        hub_id, name, data_dir: the data set, its configuration and its folder, as datasets.load_dataset takes them.
        local: the name for a file to use instead, for the message.

    Raises:
        Unavailable: the rows cannot be loaded; the message names the local options.
    """
    from datasets import load_dataset

    try:
        dataset = load_dataset(hub_id, name=name, data_dir=data_dir)
        of_parts = {part: dataset[part] for part in parts or dataset}
    except Exception as error:  # the hub's errors have no common base class; each means that the rows are not available
        what = f"{data_dir} cannot" if data_dir else "cannot"
        remedy = f"without a network use task.source=generated, or task.source=file task.path={local}"
        raise Unavailable([f"task.hub_id={hub_id}: {what} be loaded ({type(error).__name__}); {remedy}"]) from None
    place = f"{hub_id}, {data_dir}" if data_dir else hub_id
    for part, rows in of_parts.items():
        for number, row in enumerate(rows, 1):
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
        refuse_half_characters(row[key], f'{where}: "{key}"')
    return [row[key] for key in keys]


def refuse_half_characters(text: str, place: str) -> None:
    """Refuse a text that no tokenizer can read."""
    if HALF_CHARACTER.search(text):
        raise ConfigError([f"{place} holds half a character (a lone surrogate), which is no text"])
