"""python -m rlhf_exp describe task=NAME [KEY=VALUE ...]

    page = describe(cfg, Path("outputs/describe/hh_rlhf/x"))     # describe.json, .md and .html there

The page shows the rows; report.samples=false keeps their texts out. A user's mistake is one line on stderr and exit
status 2.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlhf_exp.commands import run_command
from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import tell
from rlhf_exp.launch.arguments import compose_command
from rlhf_exp.runs.lock import claim

if TYPE_CHECKING:
    from rlhf_exp.analysis.report.page import Block

FOLDER = "outputs/describe/${task.name}/${now:%Y-%m-%d_%H-%M-%S}"
USAGE = """\
usage: python -m rlhf_exp describe task=NAME [KEY=VALUE ...] [--out FOLDER]

Says what is in a task's data: lengths in tokens, what a budget cuts off, whether the longer answer is preferred,
splits, repeats and odd rows. It writes describe.json with the figures, describe.html, which also shows the rows, and
describe.md, which shows a few. report.samples=false keeps rows out. -cd FOLDER adds configs of your own.

  python -m rlhf_exp describe task=hh_rlhf task.source=file task.path=FOLDER model=gpt2
  python -m rlhf_exp describe task=gsm8k task.source=generated model=tiny_gpt2
"""


def main(arguments: list[str] | None = None) -> int:
    """Describe what the command line asks for; returns the exit status."""
    return run_command(_work, arguments, lambda: USAGE, "describe")


def _work(arguments: list[str]) -> None:
    # Of algo=none, since rows are described in all their forms.
    cfg, is_new = compose_command("describe", ["algo=none", f"output_dir={FOLDER}"], arguments)
    tell(f"what is in {cfg.task.name}: {cfg.output_dir}")
    prepare_hub(cfg)
    with claim(cfg.output_dir, is_new) as folder:
        page = describe(cfg, folder)
    from rlhf_exp.analysis.report.page import to_text

    tell(to_text(page))
    tell(f"written: {folder / 'describe.html'}, describe.md and describe.json")


def describe(cfg: Config, out: Path) -> "list[Block]":
    """Measure the rows of `cfg.task` with the tokenizer of `cfg.model`, write figures, and a page of them and of rows,
    into `out`, and return that of the figures.

    Raises:
        ConfigError: rows or a tokenizer that cannot be read, or one that does not know these texts' words.
    """
    # After the command line was checked: transformers and torch take seconds.
    from rlhf_exp.analysis.report.page import write_page
    from rlhf_exp.describe.figures import measure
    from rlhf_exp.describe.page import describe_data, show_rows
    from rlhf_exp.describe.rows import count_tokens, load_tokenizer, read_examples
    from rlhf_exp.runs.folder import write_json

    tokenizer = load_tokenizer(cfg)
    data = read_examples(cfg, tokenizer)
    tokens = count_tokens(cfg, tokenizer, data.examples)
    figures = measure(data, tokens)
    figures |= {"task": cfg.task.name, "source": data.source, "tokenizer": str(cfg.model.path or cfg.model.name)}
    write_json(out / "describe.json", figures)
    page = describe_data(figures)
    write_page([*page, *show_rows(cfg, data, tokens)], out, "describe")
    return page


if __name__ == "__main__":
    sys.exit(main())
