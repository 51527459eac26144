"""Reads the rows of a data set on the hub, each with its part and its place.

for part, where, row in read_hub("openai/gsm8k", name="main", parts=("train", "test")):
    part, where, row      # "train", "openai/gsm8k, train, row 1", {...}
"""

from collections.abc import Iterator
from typing import Any

from rlhf_exp.errors import ConfigError


class Unavailable(ConfigError):
    """Rows of the hub that cannot be loaded now."""


def read_hub(
    hub_id: str,
    name: str | None = None,
    data_dir: str | None = None,
    parts: tuple[str, ...] | None = None,
    local: str = "FOLDER",
) -> Iterator[tuple[str, str, Any]]:
    """Every row of `parts` (None: of all parts).

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
        raise Unavailable(
            [
                f"task.hub_id={hub_id}: {what} be loaded ({type(error).__name__}); without a network use"
                f" task.source=generated, or task.source=file task.path={local}"
            ]
        ) from None
    place = f"{hub_id}, {data_dir}" if data_dir else hub_id
    for part, rows in of_parts.items():
        for number, row in enumerate(rows, 1):
            yield part, f"{place}, {part}, row {number}", row
