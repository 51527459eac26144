"""Reads lines of JSON, plain or gzipped; a problem is one line that names file and line.

for where, row in read_lines(Path("train.jsonl.gz")):
    where, row      # "train.jsonl.gz, line 1", {...}
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
            raise ConfigError(
                [f"{path}: not a whole gzip file, broken or cut off after line {number}; fetch it again"]
            ) from None
