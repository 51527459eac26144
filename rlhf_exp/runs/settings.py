"""What a run does, as flat settings, and which of them two runs may have differently.

list_settings(config)["eval.rows"]            # "512"
list_differing(list_settings(one), list_settings(other))     # [Differing("seed", "0", "1")]
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from rlhf_exp.config.flat import flatten

CIRCUMSTANCES = ("output_dir", "resume", "dry_run", "skip_finished", "eval.cache_dir",
                 "algo.args.output_dir", "algo.args.report_to", "algo.args.disable_tqdm")  # fmt: skip
"""Where and how a run happens, and not what it does: no settings."""

MAY_CHANGE = ("device.threads", "monitor.every_steps", "monitor.stop_on_nonfinite",
              "algo.args.save_steps", "algo.args.save_strategy", "algo.args.save_total_limit")  # fmt: skip
"""Settings that may change when a run is resumed: how it is watched and saved. Threads change only last digits."""

SEEDS = ("seed", "algo.args.seed", "reward.random.seed")
"""What runs of one group differ in."""

UNREAD = ("logging.", "model.learning_rate.")
"""What no run does: logging, and the rates of all algorithms. The rate that a run takes is in `algo` as well, and a
later version of the package knows more algorithms."""


class Differing(NamedTuple):
    """A setting that two runs have with two values; as text `seed=1, here 2`."""

    name: str
    there: str
    here: str

    def __str__(self) -> str:
        return f"{self.name}={self.there}, here {self.here}"


def list_settings(config: Mapping[str, Any]) -> dict[str, str]:
    """{"eval.rows": "512", ...}: what a run does, by dotted key, without where and how it happens."""
    return {
        name: str(value)
        for name, value in flatten(config).items()
        if value != {} and name not in CIRCUMSTANCES and not name.startswith(UNREAD)
    }


def list_differing(there: dict[str, str], here: dict[str, str], same: Collection[str] = ()) -> list[Differing]:
    """Settings that differ, but for the names in `same`."""
    names = dict.fromkeys([*here, *there])
    pairs = [Differing(name, there.get(name, "unset"), here.get(name, "unset")) for name in names if name not in same]
    return [pair for pair in pairs if pair.there != pair.here]
