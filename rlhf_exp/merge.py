"""python -m rlhf_exp merge ADAPTER --out FOLDER [--base FOLDER] [--dtype DTYPE]

Adds an adapter to its base and writes one model of full weights, with its tokenizer.
"""

import shlex
import sys
from argparse import ArgumentParser
from pathlib import Path

from rlhf_exp.commands import parse_flags, run_command
from rlhf_exp.config.rules.files import explain_pickle
from rlhf_exp.errors import ConfigError, tell
from rlhf_exp.runs.lock import find_latest

PARSER = ArgumentParser(prog="python -m rlhf_exp merge", description=__doc__.splitlines()[2], allow_abbrev=False)
PARSER.add_argument("adapter", type=Path, metavar="ADAPTER", help="an adapter's folder, or a run's with peft=lora;"
                    " latest: the last run's")  # fmt: skip
PARSER.add_argument("place", type=Path, nargs="?", metavar="OUT", help="the same as --out")
PARSER.add_argument("--out", type=Path, metavar="FOLDER", help="where the model goes: a new or empty folder")
PARSER.add_argument("--base", metavar="FOLDER", help="the base, if it is not at the place that the adapter records")
PARSER.add_argument("--dtype", choices=("auto", "float32", "bfloat16", "float16"), default="float32")


def main(arguments: list[str] | None = None) -> int:
    """Merge what the command line names; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help, "merge")


def _work(arguments: list[str]) -> None:
    args = parse_flags(PARSER, arguments)
    if (out := args.out or args.place) is None:
        raise ConfigError(["say where the model goes, with --out FOLDER"])
    run = find_latest(args.adapter)
    adapter = run / "model" if (run / "run.json").is_file() else run
    if problem := _find_problem(adapter, out, args.base):
        raise ConfigError([problem])

    tell(f"adds {adapter} to its base: {out}")
    import transformers

    from rlhf_exp.models.loading import merge
    from rlhf_exp.models.source import ModelSource
    from rlhf_exp.report.card import write_merged_card

    transformers.utils.logging.set_verbosity_error()
    source = ModelSource(str(adapter), base=args.base, dtype=args.dtype)
    merge(source, out)
    write_merged_card(adapter, source.weights, out, shlex.join(["python", "-m", "rlhf_exp", "merge", *arguments]))
    tell(f"written: {out} ({adapter} on {source.weights}, {args.dtype})")


def _find_problem(adapter: Path, out: Path, base: str | None) -> str | None:
    if not (adapter / "adapter_config.json").is_file():
        return f"{adapter}: no adapter_config.json there; must be an adapter's folder, or a run's with peft=lora"
    for folder in (adapter, Path(base).expanduser()) if base else (adapter,):
        if problem := explain_pickle(folder):
            return f"{folder}: {problem}"
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        return f"{out}: is not empty; must be a new or empty folder"
    return None


if __name__ == "__main__":
    sys.exit(main())
