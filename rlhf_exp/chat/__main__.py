"""python -m rlhf_exp chat RUN [--beside-start] [--prompt TEXT] [--rows N]

Sends prompts to the model that a run has trained, with the run's template, system prompt, budget and sampling.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.errors import ConfigError, printable
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

ROW, QUIT = "/row", ("/quit", "/exit")


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
    talks = not args.prompts and args.rows is None and sys.stdin.isatty()
    if talks:
        print("[load] imports torch, loads the model", flush=True)
    from rlhf_exp.chat.session import Options, Session

    session = Session(run, Options(args.beside_start, args.max_tokens, args.temperature, args.seed))
    if talks:
        _talk(session)
        return
    for row in islice(session.rows(), args.rows or 0):
        print(f"> {printable(_read_prompt(row))}")
        _show(session.ask_row(row), talks)
    for text in sys.stdin if not args.prompts and args.rows is None else args.prompts:
        if text.strip():
            _show(session.ask(text.rstrip("\n")), talks)


def _find_run(path: Path) -> Run:
    """The run at `path`, which has saved a language model.

    Raises:
        ConfigError: it has not.
    """
    needs = "must be the folder of a run that has trained a language model"
    info = read_record(path)
    row, status = ALGORITHMS.get(info.get("algo", "")), info.get("status")
    saved = any((path / "model" / name).is_file() for name in ("config.json", "adapter_config.json"))
    trains = row is not None and row.trains
    reasons = {
        "not a folder" if path.exists() else "no such folder": not path.is_dir(),
        "no run.json in it": status is None,
        "its run.json is torn": status == "broken",
        "has trained a reward model, which scores answers and writes none": row is not None and row.scores,
        f"is {status}, and has saved no model" if trains else f"algo={info.get('algo')} trains no model": not saved,
    }
    if problem := next((reason for reason, holds in reasons.items() if holds), None):
        raise ConfigError([f"{path}: {problem}; {needs}"])
    if reason := explain_damage(path / "model"):
        raise ConfigError([f"{path}/model: {reason}; {remedy(path / 'model')}"])
    with refusing_damage(path):
        return load_run(path)


def _talk(session: "Session") -> None:
    """Read prompts from the terminal until it ends; a mistake is a line, and the next prompt is read."""
    with suppress(ImportError):
        import readline  # noqa: F401 `input` then has a history
    rows, info, sampling = session.rows(), session.run.info, session.sampling
    how = f"at most {sampling.max_new_tokens} tokens, temperature {sampling.temperature:g}"
    example = f"for example: {session.example}\n" if session.example else ""
    print(printable(f"{info.get('algo')} on {info.get('task')}, model {info.get('model')}: {how}; each prompt stands"
                    f" alone\n{example}{ROW} asks a held-out row of the task; {QUIT[0]} or Ctrl-D ends"))  # fmt: skip
    while True:
        try:
            text = input("\n> ").strip()
        except EOFError:
            print()
            return
        if text in QUIT:
            return
        try:
            if text == ROW:
                row = next(rows)
                print(printable(_read_prompt(row)))
                _show(session.ask_row(row), True)
            elif text:
                _show(session.ask(text), True)
        except ConfigError as error:
            print(printable("\n".join(error.problems)))
        except StopIteration:
            print("the task has no further row")


def _show(answers: "list[Answer]", talks: bool) -> None:
    """Print the answers; what is known about them goes to stderr if the answers are for another program."""
    for answer in answers:
        print(printable(f"{answer.which}: {answer.text}" if len(answers) > 1 else answer.text), flush=True)
        facts = [f"{answer.tokens} tokens", *(["cut off"] if answer.truncated else [])]
        facts = [answer.grade.outcome, *facts] if answer.grade else facts
        print(f"  ({', '.join(facts)})", file=sys.stdout if talks else sys.stderr, flush=True)


def _read_prompt(row: dict) -> str:
    """The text of a row's prompt; of messages, of the last one."""
    prompt = row["prompt"]
    return (prompt if isinstance(prompt, str) else prompt[-1]["content"]).strip()


if __name__ == "__main__":
    sys.exit(main())
