"""python -m rlhf_exp samples RUN [--rows N] [--id ID]

Prints held-out prompts with the answers before and after training, as the run has saved them in samples.jsonl.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path

from rlhf_exp.analysis.report.samples import list_samples
from rlhf_exp.commands import parse_flags, run_command
from rlhf_exp.errors import ConfigError, tell
from rlhf_exp.runs.load import load_run
from rlhf_exp.runs.lock import find_latest

PARSER = ArgumentParser(prog="python -m rlhf_exp samples", description=__doc__.splitlines()[2], allow_abbrev=False)
PARSER.add_argument("run", type=Path, metavar="RUN", help="a run's folder; latest: the last one's")
PARSER.add_argument("--rows", type=int, default=3, metavar="N", help="the first N rows (3)")
PARSER.add_argument("--id", metavar="ID", help="only the row of this id")


def main(arguments: list[str] | None = None) -> int:
    """Print the samples that the command line asks for; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help(), "samples")


def _work(arguments: list[str]) -> None:
    args = parse_flags(PARSER, arguments)
    if args.rows < 1:
        raise ConfigError([f"--rows {args.rows}: must be at least 1"])
    path = find_latest(args.run)
    run = load_run(path)
    if not run.shows_texts:
        raise ConfigError([f"{path}: report.samples=false keeps its texts in its folder"])
    cards = list_samples(run)
    if not cards:
        raise ConfigError([f"{path}: holds no completions in samples.jsonl"])
    found = [card for card in cards if args.id in (None, card["id"])]
    if not found:
        raise ConfigError([f"--id {args.id}: no row of {path} has this id; the first one is {cards[0]['id']}"])
    for card in found[: args.rows]:
        tell(f"[{card['id']}]\n{card['prompt'].strip()}")
        for side in card["sides"]:
            tell(f"{side['caption']}\n  {side['text'].strip()}")
        tell("")


if __name__ == "__main__":
    sys.exit(main())
