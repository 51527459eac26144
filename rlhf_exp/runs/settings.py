"""What a run does, as flat settings: everything in its config but where and how it happens.

list_settings(config)["eval.rows"]     # "512"
"""

from collections.abc import Mapping
from typing import Any

# What may differ between two runs of the same settings: where and how a run happens, not what it does.
CIRCUMSTANCES = ("output_dir", "resume", "dry_run", "skip_finished", "eval.cache_dir",
                 "algo.args.output_dir", "algo.args.report_to", "algo.args.disable_tqdm")  # fmt: skip

# Logging, and the rates of every algorithm: those that a run takes are in `algo` as well, and a later version of the
# package knows more algorithms.
UNREAD = ("logging.", "model.learning_rate.")


def list_settings(config: Any) -> dict[str, str]:
    """{"eval.rows": "512", ...}: what a run does, by dotted key, without where and how it happens."""
    flat = _flatten(config)
    return {name: flat[name] for name in flat if name not in CIRCUMSTANCES and not name.startswith(UNREAD)}


def _flatten(values: Any, prefix: str = "") -> dict[str, str]:
    if not isinstance(values, Mapping):
        return {prefix.removesuffix("."): str(values)}
    found: dict[str, str] = {}
    for name, value in values.items():
        found |= _flatten(value, f"{prefix}{name}.")
    return found
