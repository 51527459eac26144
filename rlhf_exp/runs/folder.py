"""Writes run.json of a run, from its start to its end.

folder = RunFolder.create(Path("outputs/x"), {"algo": "grpo", ...})
with folder.phase("train"):
    ...
folder.finish("finished")
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rlhf_exp import processes
from rlhf_exp.errors import say, tell, tolerating
from rlhf_exp.runs.environment import list_versions, peak_memory_mb, read_command, read_commit, reset_peak_memory
from rlhf_exp.runs.records import RunRecord, read_record, write

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

COUNTED = ("steps", "prompt_tokens", "completion_tokens", "seconds", "peak_memory_mb", "phase_memory_mb", "best")
"""What a resumed run counts on from its record."""


class RunFolder:
    """Writes `run.json` of one run: status, facts, and the seconds of each phase."""

    def __init__(self, path: Path, record: RunRecord, before: RunRecord | None = None) -> None:
        self.path = path
        self.record = record
        self.before = before or RunRecord()  # that of the run that is resumed
        self._announced: set[str] = set()
        self._phase: tuple[str, float, float] | None = None  # the running one, its seconds before, and when it began

    @classmethod
    def create(cls, path: Path, facts: Mapping[str, Any]) -> "RunFolder":
        """Open `path` with the status running. A resumed run keeps the seconds that it has already spent. Of several
        processes each has the record, and rank 0 writes it."""
        before = processes.on_main(read_record, path)
        if before.status == "broken" and processes.is_main():
            say(f"{path}/run.json is torn; its seconds and counts begin anew")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record = RunRecord(
            status="running",
            error=None,
            command=read_command(),
            **facts,
            **{name: value for name, value in before.model_copy(deep=True) if name in COUNTED},
            versions=list_versions(),
            git_commit=read_commit(),
            processes=processes.count(),
            started=before.started or now,
            finished=None,
            baseline_cached=False,
        )
        reset_peak_memory()
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path, record, before)
        folder.save()
        return folder

    def save(self) -> None:
        """Write `run.json`, with the peak memory and the seconds of the running phase up to now: all that is left of a
        start that is killed."""
        if self._phase is not None:
            name, before, began = self._phase
            self.record.seconds[name] = round(before + time.perf_counter() - began, 3)
        self.record.peak_memory_mb = max(self.record.peak_memory_mb, peak_memory_mb())
        write(self.path / "run.json", self.record)

    @contextmanager
    def phase(self, name: str, announced: bool = True) -> Iterator[None]:
        """Add the seconds spent inside to `seconds[name]`, and record the peak memory, on success and on failure. The
        beginning of a phase is printed once, unless not `announced`."""
        if announced and name not in self._announced:
            tell(f"[{name}] {STAGES[name]}")
            self._announced.add(name)
        self._phase = name, self.record.seconds.get(name, 0.0), time.perf_counter()
        reset_peak_memory()
        try:
            yield
        finally:
            memory = self.record.phase_memory_mb
            memory[name] = max(memory.get(name, 0.0), peak_memory_mb())
            try:
                self.save()
            finally:
                self._phase = None

    def finish(self, status: Literal["finished", "failed", "stopped", "refused"], error: str | None = None) -> None:
        """Close the record: status is finished, failed, stopped or refused. A full disk here hides no other error."""
        self.record.status, self.record.error = status, error
        self.record.finished = datetime.now(UTC).isoformat(timespec="seconds")
        with tolerating(f"{self.path}/run.json cannot be written", OSError):
            self.save()

    def restore_record(self) -> None:
        """Write the record of the run that was to be resumed, as it was before."""
        self.record = self.before
        write(self.path / "run.json", self.record)
