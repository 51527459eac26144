"""Writes the run folder, the interface between a run and its reports. Every file is complete at every moment.

folder = RunFolder.create(Path("outputs/x"), {"algo": "grpo", ...})
with folder.phase("train"):
    ...
folder.finish("finished")
"""

import copy
import errno
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from rlhf_exp import processes
from rlhf_exp.errors import ConfigError, say, tell
from rlhf_exp.runs.environment import list_versions, peak_memory_mb, read_command, read_commit, reset_peak_memory

STAGES = {
    "load": "tokenizer, rows, rewards",
    "sample": "draws completions of the start model to learn from",
    "baseline": "measures the start model on held-out rows",
    "baselines": "samples its weights in other ways, which training has to beat: task.baselines",
    "preflight": "checks the grader, the data and memory; preflight=off skips it",
    "train": "builds the trainer and trains; metrics.jsonl has every logged step",
    "evaluate": "measures the trained model on the same rows",
    "report": "draws the curves and writes the report",
    "push": "uploads the model to the hub",
}
"""What a phase does; printed when it begins."""

COUNTED = {"steps": 0, "prompt_tokens": 0, "completion_tokens": 0, "seconds": {},
           "peak_memory_mb": 0.0, "phase_memory_mb": {}, "best": None}  # fmt: skip
"""What a new run counts from; a resumed run counts on from its record."""


MOST_BYTES = {".yaml": 1_000_000, ".json": 100_000_000}
MOST_ROWS = 4_000_000_000
"""A file of a run is not read if it has more bytes, those of other endings than MOST_ROWS: a run writes far less."""


def read_text(path: Path, errors: str = "strict") -> str | None:
    """The text of a file in a folder that may be another's; None if there is none.

    Raises:
        OSError: it cannot be read, is a folder or a pipe, or is larger than MOST_BYTES.
    """
    try:
        facts = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    if facts.st_size > (most := MOST_BYTES.get(path.suffix, MOST_ROWS)):
        raise OSError(errno.EFBIG, f"it has {facts.st_size:,} bytes; must have at most {most:,}", str(path))
    return path.read_text(encoding="utf-8", errors=errors)


def write_text(path: Path, text: str, any_rank: bool = False) -> None:
    """Write a file atomically: a reader sees the old one or the new one, never a part. With several processes only rank
    0 writes, here and below, unless `any_rank`."""
    if not (processes.is_main() or any_rank):
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any, any_rank: bool = False) -> None:
    """Write JSON atomically. NaN and infinity, which JSON lacks, become null."""
    write_text(path, json.dumps(_finite(value), indent=2, ensure_ascii=False) + "\n", any_rank)


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object per line, atomically."""
    write_text(path, "".join(json.dumps(_finite(row), ensure_ascii=False) + "\n" for row in rows))


def append_jsonl(path: Path, row: dict[str, Any]) -> None:
    """Append one line; a crash can damage only the last one."""
    if not processes.is_main():
        return
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(_finite(row), ensure_ascii=False) + "\n")


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; [] if there is none. Lines that a crash or a full disk cut off are left out;
    how many is printed once.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        text = read_text(path, errors="replace") or ""
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read ({error.strerror})"]) from error
    # Not splitlines(): it also splits at marks that a completion may hold inside a JSON string, such as U+2028. A power
    # failure can leave zeros.
    lines = [line for line in text.split("\n") if line.strip("\0 \r")]
    rows = _parse(f"[{','.join(lines)}]") or []  # all at once, which is faster, unless a line is torn
    if len(rows) != len(lines) or not all(isinstance(row, dict) for row in rows):
        rows = [row for row in map(_parse, lines) if isinstance(row, dict)]
    if torn := len(lines) - len(rows):
        say_once(f"{path}: {torn} torn line{'s' if torn > 1 else ''} left out")
    return rows


def _parse(text: str) -> Any:
    """The value of a JSON text; None if it is torn."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def keep_rows(path: Path, step: int) -> list[dict[str, Any]]:
    """Leave the rows up to `step`, from which a run is resumed, in its metrics.jsonl, completions.jsonl or
    validation.jsonl; returns them."""
    rows = [row for row in read_jsonl(path) if row["step"] <= step] if step else []
    write_jsonl(path, rows)
    return rows


say_once = cache(say)  # a report reads the same file several times


def read_record(folder: Path) -> dict[str, Any]:
    """run.json; {} if there is none, and {"status": "broken"} if it is damaged."""
    try:
        if (text := read_text(folder / "run.json")) is None:
            return {}
        record = json.loads(text)
    except (OSError, ValueError, RecursionError):
        record = None
    return {"status": "broken"} | (record if isinstance(record, dict) else {})


class RunFolder:
    """Writes `run.json` of one run: status, facts, and the seconds of each phase."""

    def __init__(self, path: Path, record: dict[str, Any], before: dict[str, Any] | None = None) -> None:
        self.path = path
        self.record = record
        self.before = before or {}  # the record of the run that is resumed
        self._announced: set[str] = set()

    @classmethod
    def create(cls, path: Path, facts: dict[str, Any]) -> "RunFolder":
        """Open `path` with the status running. A resumed run keeps the seconds that it has already spent. Of several
        processes each has the record, and rank 0 writes it."""
        before = processes.on_main(lambda: read_record(path))
        if before.get("status") == "broken" and processes.is_main():
            say(f"{path}/run.json is torn; its seconds and counts begin anew")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record = {
            "status": "running",
            "error": None,
            "command": read_command(),
            **facts,
            **copy.deepcopy({name: before.get(name, start) for name, start in COUNTED.items()}),
            "versions": list_versions(),
            "git_commit": read_commit(),
            "processes": processes.count(),
            "started": before.get("started") or now,
            "finished": None,
            "baseline_cached": False,
            "memory_of": "run" if reset_peak_memory() else "process",
        }
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path, record, before)
        folder.save()
        return folder

    def save(self) -> None:
        """Write `run.json`, with the peak memory up to now."""
        self.record["peak_memory_mb"] = max(self.record["peak_memory_mb"], peak_memory_mb())
        write_json(self.path / "run.json", self.record)

    @contextmanager
    def phase(self, name: str, announced: bool = True) -> Iterator[None]:
        """Add the seconds spent inside to `seconds[name]`, and record the peak memory, on success and on failure. The
        beginning of a phase is printed once, unless not `announced`."""
        if announced and name not in self._announced:
            tell(f"[{name}] {STAGES[name]}")
            self._announced.add(name)
        start = time.perf_counter()
        reset_peak_memory()
        try:
            yield
        finally:
            seconds, memory = self.record["seconds"], self.record["phase_memory_mb"]
            seconds[name] = round(seconds.get(name, 0.0) + time.perf_counter() - start, 3)
            memory[name] = max(memory.get(name, 0.0), peak_memory_mb())
            self.save()

    def finish(self, status: str, error: str | None = None) -> None:
        """Close the record: status is finished, failed, stopped or refused. A full disk here hides no other error."""
        self.record.update(status=status, error=error, finished=datetime.now(UTC).isoformat(timespec="seconds"))
        try:
            self.save()
        except OSError as problem:
            say(f"{self.path}/run.json cannot be written, {problem.strerror}")

    def restore_record(self) -> None:
        """Write the record of the run that was to be resumed, as it was before."""
        self.record = self.before
        write_json(self.path / "run.json", self.record)


def _finite(value: Any) -> Any:
    """The value as JSON has it, with None for NaN and infinity."""
    return json.loads(json.dumps(value), parse_constant=lambda name: None)
