"""Reads the rows of a file, of a folder with a file for each split, or of a data set on the hub.

for found in read_rows(cfg.task): ...     # Found("validation", "rows/validation.csv, line 2", {...}, untyped=True)
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rlhf_exp.config.values import suggest
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks.file.schema import Keys
from rlhf_exp.tasks.sources import SUFFIXES, UNTYPED, read_hub, read_table


class Found(NamedTuple):
    """A row with its split, by the name that the folder or the data set has for it (None for a single file), its place,
    and whether all its values are texts since the file has no types."""

    part: str | None
    where: str
    row: dict[str, Any]
    untyped: bool = False


def read_rows(task: Keys) -> Iterator[Found]:
    """Every row of the splits that `task.splits` names, or of all.

    Raises:
        ConfigError: a split that is not there; the line names those that are.
    """
    divided = task.split_column is None
    if task.source == "hub":
        named = tuple(task.named_splits.values()) if divided and task.names_splits else None
        remedy = "task.source=file task.path=FILE.jsonl"
        yield from (Found(*row) for row in read_hub(task.hub_id, name=task.hub_config, parts=named, remedy=remedy))
        return
    path = Path(task.path)
    if path.is_dir():
        yield from _read_folder(task, path)
    elif divided and task.names_splits:
        raise ConfigError([f"task.splits: task.path={path} is one file; needs task.split_column, or a folder"])
    else:
        yield from _read_file(None, path)


def _read_file(part: str | None, path: Path) -> Iterator[Found]:
    return (Found(part, *row, untyped=path.name.endswith(UNTYPED)) for row in read_table(path))


def _read_folder(task: Keys, folder: Path) -> Iterator[Found]:
    for part, name in task.named_splits.items():
        files = [folder / f"{name}{suffix}" for suffix in SUFFIXES if (folder / f"{name}{suffix}").is_file()]
        if not files and (part == "train" or task.names_splits):
            there = sorted({file.name.removesuffix(end) for file in folder.iterdir() for end in SUFFIXES
                            if file.name.endswith(end)})  # fmt: skip
            line = f"task.path={folder}: holds no {name} file; must hold {name}.jsonl, .csv or .parquet"
            other = f", and holds {', '.join(there)}{suggest(name, there)}" if there else ""
            raise ConfigError([f"{line}{other}{'; see task.splits' if there and not task.names_splits else ''}"])
        for file in files:
            yield from _read_file(name, file)
