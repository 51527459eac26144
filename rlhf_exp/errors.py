"""Exit statuses, problems and errors that several layers raise or catch, lines on stderr, and texts that a terminal can
show.

    Problem("max_tokens", "range", 0, "a whole number >= 1")    # max_tokens=0: must be a whole number >= 1
    with refusing(f"{path}: not JSON", ValueError):             # rows.jsonl: not JSON (Expecting value: line 1 ...)
        json.loads(text)
"""

import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

FAILED, REFUSED, ALARMED = 1, 2, 3
SIGNALLED = 128
"""Plus the number of the signal that ended the process, by a shell's convention."""
NOTE = "rlhf_exp: "
"""Begins the note of an error that says in one line what failed."""

UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What makes a terminal do something, or a line read in another order: control characters but tab and newline, marks of
the direction of writing; and halves of characters, which cannot be written."""

COLOURS = {"green": 32, "yellow": 33, "red": 31}

HIDDEN = "(hidden)"
_COUNT = re.compile(r"(^|_)(max|min|num|train|new|eval)_token$", re.IGNORECASE)  # max_tokens with a letter missing
_SECRET = re.compile(r"(^|_)(token|secrets?|passwords?|passwd|api_?keys?|access_?keys?)$", re.IGNORECASE)
_NO_SECRETS = ("eos_token", "pad_token", "bos_token", "unk_token")  # plain texts for a tokenizer
_NO_SECRETS_IN = ("reward.functions", "reward.weights")  # names that the user gives to rewards

MISSING = ...
"""The value of a problem that shows none."""

WORDING = {
    "type": "{place}: must be {hint}",
    "range": "{place}: must be {hint}",
    "idle": "{place}: has no effect{hint}",
    "owned": "{place}: is set by another key{hint}",
}
"""How a kind of problem is worded; any other kind as `{place}: {hint}`. The place is `key=value`, or `key`."""


class Problem(str):
    """One mistake of a user: it is the line that says so, and keeps what that line is made of.

    Its kind is "unknown" (no such key), "type", "range", "idle" (a value that nothing reads), "owned" (an argument of
    TRL that a key of ours sets), "secret", "conflict" (between values), "missing" (a key, a file, a package, hardware).
    """

    key: str
    kind: str
    value: Any
    hint: str

    def __new__(cls, key: str, kind: str, value: Any = MISSING, hint: str = "") -> "Problem":
        place = key if value is MISSING else assign(key, value)
        problem = super().__new__(cls, WORDING.get(kind, "{place}: {hint}").format(place=place, hint=hint))
        problem.key, problem.kind, problem.value, problem.hint = key, kind, value, hint
        return problem

    def __reduce__(self) -> tuple:
        """Another process gets an equal one."""
        return Problem, (self.key, self.kind, self.value, self.hint)


class ConfigError(Exception):
    """A user's mistakes. `problems` holds one line for each, a `Problem` or a plain text; the command line shows these,
    and no traceback."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple:
        """Another process gets the same problems."""
        return type(self), (self.problems,)


class NonFiniteLoss(RuntimeError):
    """Training produced NaN or infinity: further steps would only destroy the weights."""


class FailedCheck(RuntimeError):
    """A check of the first steps failed: training does not do what the config says."""


class Stop(KeyboardInterrupt):
    """A signal asks the run to end. Being a KeyboardInterrupt, it passes every `except Exception`."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signal = signal.Signals(signum)

    @property
    def name(self) -> str:
        return self.signal.name

    @property
    def status(self) -> int:
        return SIGNALLED + self.signal

    @classmethod
    def of(cls, error: KeyboardInterrupt) -> "Stop":
        """The Stop for a KeyboardInterrupt, which Python itself raises on SIGINT if StopSignals is not active."""
        return error if isinstance(error, Stop) else cls(signal.SIGINT)


class AlarmStop(Stop):
    """An alarm of monitor.stop_on asks the run to end."""

    name, status = "", ALARMED

    def __init__(self, alarm: str) -> None:
        KeyboardInterrupt.__init__(self, alarm)
        self.name = alarm


def tell(text: str, end: str = "\n", is_printable: bool = False) -> None:
    """Print a text on stdout, at once. Nothing else in the package prints (tests/test_security.py): what comes from a
    file, a model or a name can then not act on the terminal.

    `is_printable`: the text was made printable before it was coloured.
    """
    _print(text if is_printable else printable(text), sys.stdout, end)


def discard_output(*descriptors: int) -> None:
    """Discard from now on what is written to these open files of the process."""
    with open(os.devnull, "wb") as nowhere:
        for opened in descriptors:
            os.dup2(nowhere.fileno(), opened)


def say(line: str, command: str = "", colour: str | None = None) -> None:
    """A line on stderr after the name of the command: `rlhf_exp: `, or `rlhf_exp describe: `."""
    _print(paint(f"rlhf_exp{' ' if command else ''}{command}: {printable(line)}", colour, sys.stderr), sys.stderr)


def _print(text: str, stream: TextIO, end: str = "\n") -> None:
    """Once the reader of the stream has gone, as `head` does after its lines, the command goes on, and all that it
    prints there is discarded."""
    try:
        print(text, file=stream, end=end, flush=True)
    except BrokenPipeError:
        discard_output(stream.fileno())


def paint(text: str, colour: str | None, stream: TextIO) -> str:
    """The text in one of COLOURS, if the stream is a terminal with colours, and NO_COLOR (https://no-color.org) is not
    set."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb" or not stream.isatty()
    return text if colour is None or is_plain else f"\x1b[{COLOURS[colour]}m{text}\x1b[0m"


def printable(text: str) -> str:
    """A text of rows, of models or of someone else's run as a terminal or a page may show it: each of UNPRINTABLE as
    its escape, such as \\u001b, which JSON reads back."""
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def read_message(error: BaseException) -> str:
    """The error's message; its own `__str__` may fail."""
    try:
        return str(error)
    except Exception as problem:
        return f"(its message cannot be read: {type(problem).__name__})"


def name_error(error: BaseException) -> str:
    """RuntimeError: boom, the first line of its message alone."""
    return f"{type(error).__name__}: {(read_message(error).splitlines() or [''])[0]}"


def give_reason(error: BaseException, line: str = "") -> str:
    """The error's message on one line, or its type if it has none. Of a file that the system cannot read or write
    `Permission denied: FILE`, without the file if `line`, which stands before it, names it."""
    said, file = getattr(error, "strerror", None), getattr(error, "filename", None)
    if said and file and str(file) not in line:
        said = f"{said}: {file}"
    return show(said or read_message(error) or type(error).__name__, 300)


@contextmanager
def refusing(line: str, *errors: type[Exception], hint: str = "", kind: type = ConfigError) -> Iterator[None]:
    """Inside the `with`, one of these errors is a mistake of the user, told as `line (reason)`, and `; hint`.

    >>> with refusing("temperature=cold: not a number", ValueError):
    ...     float("cold")
    Traceback (most recent call last):
    rlhf_exp.errors.ConfigError: temperature=cold: not a number (could not convert string to float: 'cold')
    """
    try:
        yield
    except errors as error:
        raise kind([f"{line} ({give_reason(error, line)}){hint and f'; {hint}'}"]) from None


@contextmanager
def within(place: str, is_key: bool = False) -> Iterator[None]:
    """Inside the `with`, each line of a ConfigError gets its place: `task=mine: no rows`. `is_key`: the place is a key,
    and a line that begins with it stays as it is."""
    try:
        yield
    except ConfigError as error:
        lines = [line if is_key and line.startswith(place) else f"{place}: {line}" for line in error.problems]
        raise type(error)(lines) from None


@contextmanager
def collecting(problems: list[str]) -> Iterator[None]:
    """Append the lines of a ConfigError inside the `with` to `problems`, and go on after it.

    >>> problems = []
    >>> with collecting(problems), within("task=mine"):
    ...     raise ConfigError(["no rows"])
    >>> problems
    ['task=mine: no rows']
    """
    try:
        yield
    except ConfigError as error:
        problems += error.problems


@contextmanager
def tolerating(line: str, *errors: type[Exception]) -> Iterator[None]:
    """Go on after one of these errors inside the `with`; the user is told `line (Type: message)`."""
    try:
        yield
    except errors as error:
        say(f"{line} ({name_error(error)})")


def show(value: Any, most: int = 80) -> str:
    """A value as the command line would take it, on one line and not too long; a secret in a mapping is hidden.

    >>> show({"path": None, "hub_token": "hf_x", "sizes": [1, 2.5]})
    '{path: null, hub_token: (hidden), sizes: [1, 2.5]}'
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        value = f"[{', '.join(show(item) for item in value)}]"
    if isinstance(value, dict):
        items = (f"{name}: {HIDDEN if is_secret(name) else show(item)}" for name, item in value.items())
        value = f"{{{', '.join(items)}}}"
    text = " ".join(str(value).split()) or "''"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def assign(key: str, value: Any) -> str:
    """`key=value` as it would be typed, a secret hidden."""
    return f"{key}={HIDDEN if is_secret(key) else show(value)}"


def is_secret(key: Any) -> bool:
    """Whether the name of a key, dotted or not, is that of a secret."""
    place, _, end = str(key).rpartition(".")
    named = _SECRET.search(end) and not _COUNT.search(end)
    return bool(named) and end not in _NO_SECRETS and place not in _NO_SECRETS_IN


def explain_secret(key: str) -> Problem:
    """The problem of a secret; it does not hold the value."""
    why = "a secret would be saved in the run's files; use the environment variable HF_TOKEN"
    return Problem(key, "secret", hint=why)
