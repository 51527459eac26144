"""Lists the settings of a run as a flat mapping, and those in which two runs differ.

list_settings(config)["eval.rows"]            # "512"
list_differing(list_settings(one), list_settings(other))     # [Differing("seed", "0", "1")]
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

CIRCUMSTANCES = ("output_dir", "resume", "dry_run", "skip_finished", "eval.cache_dir", "reward.timeout_s",
                 "algo.args.output_dir", "algo.args.report_to", "algo.args.disable_tqdm",
                 "scale.name", "algo.args.ddp_find_unused_parameters", "algo.args.fsdp")  # fmt: skip
"""Keys that say where and how a run happens, not what it does: they are not settings."""

MAY_CHANGE = ("device.threads", "monitor.every_steps", "monitor.stop_on_nonfinite",
              "algo.args.save_steps", "algo.args.save_strategy", "algo.args.save_total_limit")  # fmt: skip
"""Settings that may change when a run is resumed: how it is watched and saved. Threads change only last digits."""

SEEDS = ("seed", "algo.args.seed", "reward.random.seed")
"""Settings in which runs of one group differ."""

UNREAD = ("logging.", "run.", "hub.", "hardware.", "model.learning_rate.", "eval.engine",
          "algo.args.fsdp_config.", "algo.args.deepspeed.")  # fmt: skip
"""Keys without effect on the results: logging, what the user calls the run, where the model is pushed, hardware,
engines (run.json's `eval_engine` says which one measured), and the table of learning rates. The rate of the run is
also in `algo`, and later versions of the package have more algorithms in the table."""

LATER = ("algo.trainer",)
"""Keys that runs of earlier versions do not have: null says the same."""


class Differing(NamedTuple):
    """A setting with different values in two runs; as text `seed=1, here 2`."""

    name: str
    there: str
    here: str

    def __str__(self) -> str:
        return f"{self.name}={self.there}, here {self.here}"


def list_settings(config: Mapping[str, Any]) -> dict[str, str]:
    """{"eval.rows": "512", ...}: the settings by dotted key, without those of where and how a run happens."""
    return {
        name: str(value)
        for name, value in flatten(config).items()
        if value != {}
        and name not in CIRCUMSTANCES
        and not name.startswith(UNREAD)
        and (value is not None or name not in LATER)
    }


def list_differing(there: dict[str, str], here: dict[str, str], same: Collection[str] = ()) -> list[Differing]:
    """Settings that differ, except the names in `same`."""
    names = dict.fromkeys([*here, *there])
    pairs = [Differing(name, there.get(name, "unset"), here.get(name, "unset")) for name in names if name not in same]
    return [pair for pair in pairs if pair.there != pair.here]


def flatten(values: Mapping[str, Any], prefix: str = "", separator: str = ".") -> dict[str, Any]:
    """Each value by the path to it. Lists are values, and so are empty mappings."""
    flat = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{name}{separator}", separator)
        else:
            flat[f"{prefix}{name}"] = value
    return flat
