"""python -m rlhf_exp describe task=NAME [KEY=VALUE ...]

A user's mistake is one line on stderr and exit status 2.
"""

import sys
from dataclasses import replace
from pathlib import Path

from rlhf_exp.commands import run_command
from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.config.schema import Config
from rlhf_exp.describe import describe
from rlhf_exp.errors import printable
from rlhf_exp.launch.arguments import compose_command
from rlhf_exp.runs.lock import claim

FOLDER = "outputs/describe/${task.name}/${now:%Y-%m-%d_%H-%M-%S}"
USAGE = """\
usage: python -m rlhf_exp describe task=NAME [KEY=VALUE ...] [--out FOLDER]

Says what is in a task's data: lengths in tokens, what a budget cuts off, whether the longer answer is preferred,
splits, repeats and odd rows. It writes describe.md, describe.html and describe.json, and no text of a row.
A folder of model.path, whose tokenizer counts, may hold a tokenizer alone; -cd FOLDER adds configs of your own.

  python -m rlhf_exp describe task=hh_rlhf task.source=file task.path=FOLDER model=gpt2
  python -m rlhf_exp describe task=gsm8k task.source=generated model=tiny_gpt2
"""


def main(arguments: list[str] | None = None) -> int:
    """Describe what the command line asks for; returns the exit status."""
    return run_command(_work, arguments, lambda: USAGE, "describe")


def _work(arguments: list[str]) -> None:
    cfg, is_new = _compose(arguments)
    print(f"what is in {cfg.task.name}: {cfg.output_dir}", flush=True)
    prepare_hub(cfg)
    with claim(cfg.output_dir, is_new) as folder:
        figures = describe(cfg, folder)
    from rlhf_exp.describe.page import terminal_table

    print(printable(terminal_table(figures)))
    print(f"written: {folder / 'describe.html'}, describe.md and describe.json")


def _compose(arguments: list[str]) -> tuple[Config, bool]:
    """The checked config, and whether its folder may get a number; of algo=none, since rows are described in all their
    forms."""
    folder = _find_tokenizer_folder(arguments)
    checked = [text for text in arguments if folder is None or not text.startswith("model.path=")]
    cfg, is_new = compose_command("describe", ["algo=none", f"output_dir={FOLDER}"], checked)
    return cfg if folder is None else replace(cfg, model=replace(cfg.model, path=folder)), is_new


def _find_tokenizer_folder(arguments: list[str]) -> str | None:
    """The folder of `model.path=` if it holds only a tokenizer: that is refused for a run, but suffices here."""
    typed = [text.partition("=")[2].strip("'\"") for text in arguments if text.startswith("model.path=")]
    folder = Path(typed[-1]).expanduser() if typed else Path("")
    has_tokenizer = any((folder / name).is_file() for name in ("tokenizer_config.json", "tokenizer.json"))
    return str(folder) if typed and has_tokenizer and not (folder / "config.json").is_file() else None


if __name__ == "__main__":
    sys.exit(main())
