"""python -m rlhf_exp chat RUN [--beside-start] [--prompt TEXT] [--rows N]

Sends prompts to the model that a run has trained, with the run's template, system prompt, budget and sampling.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import TYPE_CHECKING

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.commands import parse_flags, run_command
from rlhf_exp.errors import REFUSED, ConfigError, printable, say, show, tell
from rlhf_exp.runs.folder import read_record
from rlhf_exp.runs.load import Run, load_run
from rlhf_exp.runs.lock import find_latest
from rlhf_exp.runs.manifest import explain_damage, remedy

if TYPE_CHECKING:
    from rlhf_exp.evaluation.completions import Completion

EPILOG = """\
Without --prompt and --rows, each line of the terminal or of a pipe is a prompt; \\n in one is a new line. Each prompt
stands alone: the model sees nothing of the earlier ones. Answers are on stdout, and what is known of them on stderr.

  python -m rlhf_exp chat latest --beside-start
  python -m rlhf_exp chat latest --prompt 'use 3 7 8 make 53 .'
  python -m rlhf_exp chat latest --rows 5 --temperature 0
"""
PARSER = ArgumentParser(prog="python -m rlhf_exp chat", description=__doc__.splitlines()[2], allow_abbrev=False,
                        epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter)  # fmt: skip
PARSER.add_argument("run", type=Path, metavar="RUN", help="a run's folder; latest: the last one's")
PARSER.add_argument("--beside-start", action="store_true", help="also ask the start model")
PARSER.add_argument("--prompt", action="append", default=[], metavar="TEXT", dest="prompts", help="ask this, and end")
PARSER.add_argument("--rows", type=int, metavar="N", help="ask the first N held-out rows of the run's task, and end")
PARSER.add_argument("--max-tokens", type=int, metavar="N", help="instead of the run's max_tokens")
PARSER.add_argument("--temperature", type=float, metavar="T", help="instead of eval.temperature; 0 is greedy")
PARSER.add_argument("--seed", type=int, default=0, metavar="N", help="of the random numbers (0)")


def main(arguments: list[str] | None = None) -> int:
    """Answer what the command line asks; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help, "chat")


def _work(arguments: list[str]) -> int:
    args = parse_flags(PARSER, arguments)
    for name, least in (("rows", 1), ("max_tokens", 1), ("temperature", 0)):
        value = getattr(args, name)
        if value is not None and not value >= least:  # also of NaN
            raise ConfigError([f"--{name.replace('_', '-')} {value}: must be at least {least}"])
    run = _find_run(find_latest(args.run))
    asks = bool(args.prompts) or args.rows is not None
    if not asks:
        example = f"; for example: {show(run.samples[0]['prompt'], 300)}" if run.samples else ""
        say(f"each line is a prompt, which stands alone, until Ctrl-D{example}", "chat")
    from rlhf_exp.chat.session import Session

    session, status = Session(run, args.beside_start, args.max_tokens, args.temperature, args.seed), 0
    for row in session.task.eval[: args.rows] if args.rows else ():
        prompt = row["prompt"] if isinstance(row["prompt"], str) else row["prompt"][-1]["content"]
        tell(f"> {printable(prompt.strip())}")
        _show(session.ask_row(row, session.task.grade))
    for text in filter(str.strip, args.prompts if asks else sys.stdin):
        try:
            _show(session.ask(text.rstrip("\n")))
        except ConfigError as error:  # the next prompt may be better
            status = REFUSED
            for problem in error.problems:
                say(problem, "chat")
    return status


def _find_run(path: Path) -> Run:
    """The run at `path`, which has saved a language model.

    Raises:
        ConfigError: it has not.
    """
    info = read_record(path)
    row = ALGORITHMS.get(info.get("algo", ""))
    saved = any((path / "model" / name).is_file() for name in ("config.json", "adapter_config.json"))
    if row is None or row.scores or not saved:
        found = f"algo={info['algo']}, {info.get('status')}" if "algo" in info else "no run.json in it"
        raise ConfigError([f"{path}: must be the folder of a run that has saved a language model ({found})"])
    if reason := explain_damage(path / "model"):
        raise ConfigError([f"{path}/model: {reason}; {remedy(path / 'model')}"])
    return load_run(path)


def _show(answers: "dict[str, Completion]") -> None:
    """Print the answers, and on stderr what is known about them."""
    for which, answer in answers.items():
        text = answer.text.strip()
        tell(f"{which}: {text}" if len(answers) > 1 else text)
        facts = [*([answer.grade["outcome"]] if answer.grade else []), f"{len(answer.ids)} tokens"]
        facts += ["cut off"] if answer.truncated else []
        print(f"  ({', '.join(facts)})", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
