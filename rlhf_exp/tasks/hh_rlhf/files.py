"""Reads preference pairs from files, the hub or the package's generator, before pairs.py parses them.

    for raw in read_raw(cfg.task):
        raw.subset, raw.part, raw.chosen, raw.rejected     # "harmless-base", "test", "\\n\\nHuman: ...", ...

A file holds one JSON object per line, `{"chosen": text, "rejected": text}`, and may be gzipped. Its name or its
folder's gives its subset and its part (train or test): `harmless-base-test.jsonl.gz`, `harmless-base/test.jsonl.gz`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks.hh_rlhf.schema import SUBSETS, Keys
from rlhf_exp.tasks.hh_rlhf.synthetic import SYNTHETIC_SUBSETS, generate_pairs
from rlhf_exp.tasks.sources import read_hub, read_lines, read_texts

ENDINGS = (".jsonl", ".jsonl.gz")
PART = re.compile(r"(?<![a-z])(train|test)(?![a-z])")

SYNTHETIC_ROWS, SYNTHETIC_SEED = 8000, 0
"""How many pairs source=generated has. One fixed set: task.data_seed must not move what is held out."""


class RawPair(NamedTuple):
    """One row. `part` is the source's own split, train or test, or None; `where` is for error lines."""

    where: str
    subset: str
    part: str | None
    chosen: str
    rejected: str


def read_raw(task: Keys) -> Iterator[RawPair]:
    """Every pair of `task.subsets` that the source has.

    Raises:
        ConfigError: a file, a line or a subset that cannot be read.
    """
    if task.source == "generated":
        if not {*task.subsets} & {*SYNTHETIC_SUBSETS}:
            has = ", ".join(SYNTHETIC_SUBSETS)
            raise ConfigError([f"task.subsets={task.subsets}: task.source=generated has {has}"])
        for number, (subset, chosen, rejected) in enumerate(generate_pairs(SYNTHETIC_ROWS, SYNTHETIC_SEED), 1):
            if subset in task.subsets:
                yield RawPair(f"generated pair {number}", subset, None, chosen, rejected)
    elif task.source == "file":
        for path, subset, part in find_pair_files(Path(task.path), task.subsets):
            for where, row in read_lines(path):
                yield RawPair(where, subset, part, *read_texts(row, where, "chosen", "rejected"))
    else:
        for subset in task.subsets:
            for part, where, row in read_hub(task.hub_id, data_dir=subset):
                yield RawPair(where, subset, part, *read_texts(row, where, "chosen", "rejected"))


def find_pair_files(path: Path, subsets: list[str]) -> list[tuple[Path, str, str | None]]:
    """The files to read, each with its subset and its part. A lone file that names no subset is subset `file`.

    Raises:
        ConfigError: a subset that is asked for but missing.
    """
    if path.is_file():
        subset = _subset_of(path) or "file"
        if subset not in (*subsets, "file"):
            raise ConfigError([f"task.subsets={subsets}: {path} is {subset}; use task.subsets=[{subset}]"])
        return [(path, subset, _part_of(path))]
    files = sorted(file for file in path.rglob("*") if file.name.endswith(ENDINGS) and file.is_file())
    found = sorted({subset for file in files if (subset := _subset_of(file))})
    if missing := [subset for subset in subsets if subset not in found]:
        has = f"it holds {', '.join(found)}: use task.subsets=[{','.join(found)}]" if found else "it holds none of them"
        endings = " or ".join(ENDINGS)
        raise ConfigError([f"task.subsets: no {endings} file of {', '.join(missing)} in task.path={path}; {has}"])
    return [(file, subset, _part_of(file)) for file in files if (subset := _subset_of(file)) in subsets]


def _subset_of(file: Path) -> str | None:
    named = (subset for subset in SUBSETS if subset in file.name or subset == file.absolute().parent.name)
    return next(named, None)


def _part_of(file: Path) -> str | None:
    match = PART.search(file.name) or PART.fullmatch(file.absolute().parent.name)
    return match[1] if match else None
