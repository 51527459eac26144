"""The config and the folder of the commands that take overrides as `python -m rlhf_exp` does: describe and sample.

cfg = compose_command("describe", ["algo=sft", f"output_dir={FOLDER}"], ["task=hh_rlhf"])
with claim_output(cfg, ["task=hh_rlhf"]) as cfg:
    ...
"""

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.reading import name_key
from rlhf_exp.config.rules.experiment import BY_SIZE
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.launch.arguments import find_config_dir
from rlhf_exp.launch.explain import explaining, set_text
from rlhf_exp.launch.subcommand import claim, parse_flags
from rlhf_exp.runs.plan import check_run_folder

# Nothing is trained here, so no value that depends on the model's size may be asked for.
UNTRAINED = [f"algo.args.{name}=1" for name in BY_SIZE if name != "steps_per_generation"]
UNTRAINED.append("algo.args.per_device_train_batch_size=2")  # kto is refused with a single row


def compose_command(command: str, defaults: list[str], arguments: list[str]) -> Config:
    """The checked config of `python -m rlhf_exp COMMAND`: the command's own defaults, then what was typed.

    Raises:
        ConfigError: a mistake in `arguments`, such as a flag or a key that only a run has.
    """
    folder, arguments = _take_flag(arguments, "-cd", "--config-dir")
    for text in arguments:
        if text.startswith("-"):
            raise ConfigError([f"{text}: no such flag; see --help"])
        if name_key(text) in ("resume", "dry_run"):
            raise ConfigError([f"{text}: not with rlhf_exp {command}, only with rlhf_exp"])
    with explaining(arguments):
        overrides = [*defaults, *arguments]
        return compose_config([*_list_untrained(overrides), *overrides], [check_run_folder], find_config_dir(folder))


def take_out(arguments: Sequence[str]) -> list[str]:
    """The arguments with `output_dir=FOLDER` for `--out FOLDER`, as the commands that compare runs call it."""
    folder, others = _take_flag(list(arguments), "--out")
    return others if folder is None else [*others, set_text("output_dir", folder)]


def _take_flag(arguments: list[str], *names: str) -> tuple[str | None, list[str]]:
    """The value of a flag, and what else was typed."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(*names, dest="value")
    flags, others = parse_flags(parser, arguments, parser.parse_known_args)
    return flags.value, others


def _list_untrained(arguments: list[str]) -> list[str]:
    """UNTRAINED, which an algorithm that never trains anything has no use for."""
    typed = [text.partition("=")[2] for text in arguments if text.startswith("algo=")]
    row = ALGORITHMS.get(typed[-1]) if typed else None
    return UNTRAINED if row is None or row.trains else []


@contextmanager
def claim_output(cfg: Config, arguments: list[str]) -> Iterator[Config]:
    """`claim` the command's output folder; yields the config with the folder's name, which gets a number if it was not
    typed and exists."""
    numbered = not any(text.startswith("output_dir=") for text in arguments)
    with claim(cfg.output_dir, numbered) as folder:
        yield replace(cfg, output_dir=str(folder))
