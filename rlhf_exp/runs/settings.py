"""The settings of a run: how it was started, what its config says, and in what another config differs.

recall("outputs/x")                           # ({}, ["algo=dpo", "seed=1"])
read_typed(["algo=dpo", "+algo.args.x=1"])    # {"algo": "dpo", "algo.args.x": "1"}
list_settings(config)["eval.rows"]            # "512"
find_differences(Path("outputs/x"), cfg)      # {"seed": "seed=0, here 1"}
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlhf_exp.config.rules.arguments import OWNED
from rlhf_exp.config.schema import Config
from rlhf_exp.runs.files import parse_yaml
from rlhf_exp.runs.records import HydraRecord, read

MAY_DIFFER = (
    # Where a run happens, and what the user calls it.
    "output_dir", "resume", "dry_run", "verbose", "preflight", "skip_finished", "keep_checkpoints", "run.",
    "hub.", "logging.", "eval.cache_dir",
    "algo.args.output_dir", "algo.args.report_to", "algo.args.disable_tqdm",
    # On which hardware, and by which engines: run.json says which one measured. Threads change only last digits.
    "hardware.", "device.threads", "scale.name", "eval.engine", "algo.args.ddp_find_unused_parameters",
    "algo.args.fsdp",
    # How it is watched and saved.
    "monitor.every_steps", "monitor.stop_on", "monitor.ignore", "monitor.completions", "report.", "reward.timeout_s",
    "algo.args.save_steps", "algo.args.save_strategy", "algo.args.save_total_limit",
    # A table that grows with the package's algorithms; the run's own rate is in `algo` too.
    "model.learning_rate.",
)  # fmt: skip
"""Beginnings of the keys that may differ when a run is resumed: they have no effect on its results."""

COPIES = tuple(f"algo.args.{name}" for name in OWNED)
"""Runs of earlier versions recorded these arguments beside the keys that set them."""

SEEDS = ("seed", "algo.args.seed", "reward.random.seed")
"""Settings in which runs of one group differ."""

PlainConfig = dict[str, Any]
"""A config in plain values, every interpolation resolved, as a run's folder holds it."""


def read_config(folder: Path) -> PlainConfig:
    """The config of a run, every interpolation resolved; {} if it has none.

    Raises:
        NotARun: it cannot be read.
    """
    return read(folder / ".hydra" / "config.yaml", dict)


def read_key(config: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """The value of a dotted key of a config, such as `eval.every_rows`; the default if the config lacks it."""
    value: Any = config
    for name in key.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return default
        value = value[name]
    return value


def recall(folder: str, typed: Collection[str] = ()) -> tuple[dict[str, str], list[str]]:
    """How the run in `folder` was started: the `config_dir` and `config_name` of its study, if it is of one, and its
    overrides except those typed again.

    Raises:
        NotARun: a file in its `.hydra` is damaged; a missing one is as an empty one.
    """
    saved = Path(folder) / ".hydra"
    overrides, hydra = read(saved / "overrides.yaml", list[str]), read(saved / "hydra.yaml", HydraRecord)
    dropped = {*typed, "resume", "output_dir", "dry_run", "verbose"}
    # x=2 needs +x=1, but not +x=2; none of ours sets a key of Hydra's, and one of those can run code
    kept = [text for text in overrides if text.partition("=")[0] not in dropped]
    kept = [text for text in kept if not text.lstrip("+~").startswith("hydra")]
    studies = [source.path for source in hydra.runtime.config_sources if source.provider == "command-line"]
    if not overrides or not studies:
        return {}, kept
    return {"config_dir": studies[0], "config_name": hydra.job.config_name}, ["hydra.mode=RUN", *kept]


def read_typed(overrides: Iterable[str]) -> dict[str, str]:
    """The values as they were typed, by key, without those of MAY_DIFFER."""
    pairs = (text.lstrip("+").partition("=") for text in overrides)
    return {key: value for key, _, value in pairs if not f"{key}.".startswith(MAY_DIFFER)}


def list_settings(config: Mapping[str, Any]) -> dict[str, str]:
    """{"eval.rows": "512", ...}: the settings by dotted key, without MAY_DIFFER and rewards that have no weight."""
    kept = {name: value for name, value in flatten(config).items() if value != {} and not name.startswith(MAY_DIFFER)
            and (value is not None or not name.startswith("reward.weights."))}  # fmt: skip
    return {name: str(value) for name, value in kept.items()}


def find_differences(folder: Path, cfg: Config) -> dict[str, str]:
    """The settings of `cfg` that are not those of the run in `folder`, by key, each as `seed=1, here 2`.

    Raises:
        NotARun: its config cannot be read.
    """
    from omegaconf import OmegaConf

    as_saved = parse_yaml(OmegaConf.to_yaml(OmegaConf.create(asdict(cfg))))  # numbers as YAML has them
    there, here = list_settings(read_config(folder)), list_settings(as_saved)
    names = [name for name in {**here, **there} if not name.startswith(COPIES)]
    pairs = {name: (there.get(name, "unset"), here.get(name, "unset")) for name in names}
    return {name: f"{name}={old}, here {new}" for name, (old, new) in pairs.items() if old != new}


def flatten(values: Mapping[str, Any], prefix: str = "", separator: str = ".") -> dict[str, Any]:
    """Each value by the path to it. Lists are values, and so are empty mappings."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{name}{separator}", separator)
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def read_number(value: Any) -> float | None:
    """The number that a value is, or that a text holds; None if it is none."""
    with suppress(TypeError, ValueError):
        return None if isinstance(value, bool) else float(value)
    return None
