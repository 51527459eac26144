"""What `python -m rlhf_exp` and the commands beside it share: overrides, exit statuses, and a line on stderr.

cfg = compose_command("describe", ["algo=sft", f"output_dir={FOLDER}"], ["task=hh_rlhf"])
return refuse(["task=hh: no such option; ..."], "describe")      # 2, after rlhf_exp.describe: task=hh: ...
"""

import errno
import os
import shutil
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from rlhf_exp.cli.explain import explain
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.rules.model import BY_SIZE
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import FAILED, REFUSED, ConfigError, say
from rlhf_exp.runs.lock import FolderTaken, claim_folder
from rlhf_exp.runs.plan import check_run_folder

STOPPED = 130
FULL_BYTES = 2**20  # with less than this free, an error is put down to the disk

# Nothing is trained here, so that what hangs on a model's size must not be asked for.
UNTRAINED = [f"algo.args.{name}=1" for name in BY_SIZE if name != "steps_per_generation"]


def compose_command(command: str, defaults: list[str], arguments: list[str]) -> Config:
    """The checked config of `python -m rlhf_exp.<command>`: the command's own defaults, then what was typed.

    Raises:
        ConfigError: a mistake in `arguments`; so are flags, and keys that only a run has.
    """
    keep_bars_out_of_logs()
    for text in arguments:
        if text.startswith("-"):
            raise ConfigError([f"{text}: no such flag; see --help"])
        if text.split("=")[0].lstrip("+") in ("resume", "dry_run"):
            raise ConfigError([f"{text}: not with rlhf_exp.{command}, only with rlhf_exp"])
    try:
        return compose_config([*UNTRAINED, *defaults, *arguments], [check_run_folder])
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError([explain(error, arguments)]) from None


@contextmanager
def claim_output(cfg: Config, arguments: list[str]) -> Iterator[Config]:
    """Keep every other process out of the command's folder; yields the config with its name, which is numbered where
    it was not typed and is taken.

    Raises:
        ConfigError: another process runs in it, or it cannot be written.
    """
    numbered = not any(text.startswith("output_dir=") for text in arguments)
    with claim(cfg.output_dir, numbered) as folder:
        yield replace(cfg, output_dir=str(folder))


@contextmanager
def claim(output_dir: str, numbered: bool) -> Iterator[Path]:
    """`claim_folder`, with a line of the user's for what it raises."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(claim_folder(Path(output_dir), numbered))
        except FolderTaken as error:
            raise ConfigError([f"output_dir={output_dir}: {error}"]) from None
        except OSError as error:
            raise ConfigError([f"output_dir={output_dir}: cannot be written, {error.strerror}"]) from None
        yield folder


def keep_bars_out_of_logs() -> None:
    """Draw progress bars on a terminal alone: a log would keep every redraw. tqdm and datasets read this as they are
    imported."""
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")


def refuse(problems: Iterable[str], command: str = "", where: str = "") -> int:
    """Say each problem in a line, `where` before it; returns the exit status."""
    for problem in problems:
        say(where + problem, command)
    return REFUSED


def fail(error: BaseException, folder: Path, command: str = "", where: str = "") -> int:
    """Keep the traceback of what is being handled in `folder`, and say the error in a line; returns the exit status."""
    log, trace = folder / "error.log", traceback.format_exc()
    reason = (str(error).splitlines() or [""])[0]
    if is_full(folder, error):
        reason += f"; the disk of {folder} is full"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        log.write_text(trace, encoding="utf-8")
        kept = f"traceback in {log}"
    except OSError as problem:
        kept = f"its traceback cannot be written to {log}, {problem.strerror}"
    say(f"{where}failed: {type(error).__name__}: {reason} ({kept})", command)
    return FAILED


def is_full(folder: Path, error: BaseException) -> bool:
    """Whether an error comes from a full disk or a spent quota; torch's own error does not say so."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    try:
        return shutil.disk_usage(folder).free < FULL_BYTES
    except OSError:
        return False


def flush(status: int) -> int:
    """The exit status, once all that was printed is out; a failure where stdout is a file on a full disk."""
    try:
        sys.stdout.flush()
    except OSError as error:
        say(f"what was printed cannot be written, {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python tries once more at its end
        return status or FAILED
    return status
