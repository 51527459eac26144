"""python -m rlhf_exp describe task=NAME [KEY=VALUE ...]

    describe(cfg, Path("outputs/describe/hh_rlhf/x"))     # run.json, data.json and a report there

A user's mistake is one line on stderr and exit status 2.
"""

import sys
from pathlib import Path

from rlhf_exp.commands import run_command
from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import tell
from rlhf_exp.launch.arguments import compose_command
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.runs.lock import claim
from rlhf_exp.runs.records import read

FOLDER = "outputs/describe/${task.name}/${now:%Y-%m-%d_%H-%M-%S}"
USAGE = """\
usage: python -m rlhf_exp describe task=NAME [KEY=VALUE ...] [--out FOLDER]

Says what is in a task's data: lengths in tokens, turns, what a budget cuts off, whether the longer answer is preferred,
splits, repeats, and what was dropped. It writes data.json, as a run does of its rows, and a report. -cd FOLDER adds
configs of your own.

  python -m rlhf_exp describe task=hh_rlhf task.source=file task.path=FOLDER model=gpt2
  python -m rlhf_exp describe task=gsm8k task.source=generated model=tiny_gpt2
"""


def main(arguments: list[str] | None = None) -> int:
    """Describe what the command line asks for; returns the exit status."""
    return run_command(_work, arguments, USAGE, "describe")


def _work(arguments: list[str]) -> None:
    # Of algo=none, since rows are described in all their forms.
    cfg, is_new = compose_command("describe", ["algo=none", f"output_dir={FOLDER}"], arguments)
    tell(f"what is in {cfg.task.name}: {cfg.output_dir}")
    prepare_hub(cfg)
    with claim(cfg.output_dir, is_new) as folder:
        describe(cfg, folder)
    from rlhf_exp.analysis.report.data import describe_data
    from rlhf_exp.analysis.report.page import to_text

    tell(to_text(describe_data(read(folder / "data.json", dict))))
    tell(f"written: {folder / 'report.html'}, report.md and data.json")


def describe(cfg: Config, out: Path) -> None:
    """Measure the rows of `cfg.task` with the tokenizer of `cfg.model`, and write the figures and a report into `out`.

    Raises:
        ConfigError: rows or a tokenizer that cannot be read, or one that does not know these texts' words.
    """
    # After the command line was checked: transformers and torch take seconds.
    from rlhf_exp.analysis.report import write_report
    from rlhf_exp.describe.figures import write_data
    from rlhf_exp.describe.rows import load_tokenizer, read_rows

    tokenizer = load_tokenizer(cfg)
    facts, splits = read_rows(cfg, tokenizer)
    facts_of_run = {"algo": "none", "task": cfg.task.name, "model": str(cfg.model.path or cfg.model.name)}
    folder = RunFolder.create(out, facts_of_run)
    write_data(out, facts, splits, tokenizer, most=None)
    folder.finish("finished")
    write_report([out], out)


if __name__ == "__main__":
    sys.exit(main())
