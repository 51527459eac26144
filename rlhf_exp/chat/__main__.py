"""python -m rlhf_exp chat RUN [--beside-start] [--prompt TEXT] [--rows N]

Sends prompts to the model that a run has trained, with the run's template, system prompt, budget and sampling.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.errors import ConfigError, printable, show
from rlhf_exp.launch.subcommand import parse_flags, run_command
from rlhf_exp.runs.folder import read_record
from rlhf_exp.runs.load import Run, load_run, refusing_damage
from rlhf_exp.runs.lock import find_latest
from rlhf_exp.runs.manifest import explain_damage, remedy

if TYPE_CHECKING:
    from rlhf_exp.chat.session import Answer, Session

EPILOG = """\
Without --prompt and --rows, prompts are read line by line, from the terminal or from a pipe; \\n in one is a new line.
Each prompt stands alone: the model sees nothing of the earlier ones. What it is measured by is printed where the task
can grade the prompt. A prompt from the command line or a pipe has its answer on stdout, and the rest on stderr.

Examples:
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

QUIT = ("/quit", "/exit")


def main(arguments: list[str] | None = None) -> int:
    """Answer what the command line asks; returns the exit status."""
    return run_command(_work, arguments, PARSER.format_help, "chat")


def _work(arguments: list[str]) -> None:
    args = parse_flags(PARSER, arguments)
    for name, least in (("rows", 1), ("max_tokens", 1), ("temperature", 0)):
        value = getattr(args, name)
        if value is not None and not value >= least:  # also of NaN
            raise ConfigError([f"--{name.replace('_', '-')} {value}: must be at least {least}"])
    run = _find_run(find_latest(args.run))
    asks = bool(args.prompts) or args.rows is not None
    talks = not asks and sys.stdin.isatty()
    if talks:
        print("[load] imports torch, loads the model", flush=True)
    from rlhf_exp.chat.session import Session

    session = Session(run, args.beside_start, args.max_tokens, args.temperature, args.seed)
    for row in session.task.eval[: args.rows] if args.rows else ():
        prompt = row["prompt"] if isinstance(row["prompt"], str) else row["prompt"][-1]["content"]
        print(f"> {printable(prompt.strip())}")
        _show(session.ask_row(row), talks)
    for text in args.prompts if asks else _read_typed(session) if talks else sys.stdin:
        try:
            if text.strip():
                _show(session.ask(text.rstrip("\n")), talks)
        except ConfigError as error:
            if not talks:
                raise
            print(printable("\n".join(error.problems)))


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
    with refusing_damage(path):
        return load_run(path)


def _read_typed(session: "Session") -> Iterator[str]:
    """The prompts that are typed at the terminal, until it ends."""
    with suppress(ImportError):
        import readline  # noqa: F401 `input` then has a history
    info, sampling = session.run.info, session.sampling
    how = f"at most {sampling.max_new_tokens} tokens, temperature {sampling.temperature:g}"
    print(printable(f"{info.get('algo')} on {info.get('task')}, model {info.get('model')}: {how}"))
    if session.run.samples:
        print(printable(f"for example: {show(session.run.samples[0]['prompt'], 300)}"))
    print(f"each prompt stands alone; {QUIT[0]} or Ctrl-D ends")
    with suppress(EOFError):
        while (text := input("\n> ").strip()) not in QUIT:
            yield text


def _show(answers: "list[Answer]", talks: bool) -> None:
    """Print the answers; what is known about them goes to stderr if the answers are for another program."""
    for answer in answers:
        print(printable(f"{answer.which}: {answer.text}" if len(answers) > 1 else answer.text), flush=True)
        print(f"  ({', '.join(answer.facts)})", file=sys.stdout if talks else sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
