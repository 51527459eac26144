"""Raises alarms while a run trains: what the diagnosis would find in its series so far, each once, when it begins.

    alarms = Alarms(run_dir, find, cfg.monitor, signals)      # find(metrics) -> findings (diagnose.find_alarms)
    callbacks.insert(after_the_writer_of_metrics, alarms)

An alarm is a line on the terminal and a row of alarms.jsonl. `monitor.stop_on` names those that end the run, after its
next checkpoint. A loss that is not finite ends it at once, without a checkpoint of what it spoiled.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerState

from rlhf_exp import processes
from rlhf_exp.config.schema import Monitor
from rlhf_exp.errors import NonFiniteLoss, printable, tolerating
from rlhf_exp.findings import WATCHED
from rlhf_exp.runs.records import Finding, MetricRows, append, keep_lines, read_metrics
from rlhf_exp.runs.stopping import StopSignals

ROWS = "alarms.jsonl"
GROWTH = 1.05
"""The rules are asked again only once there are so many times more rows, so that a long run is not slowed down: they
read all of them."""

Find = Callable[[MetricRows], list[Finding]]


class Alarms(TrainerCallback):
    """Comes after the writer of the metrics. With several processes rank 0 looks, and tells all whether to stop."""

    def __init__(self, run_dir: Path, find: Find, monitor: Monitor, signals: StopSignals) -> None:
        self._run_dir, self._find, self._monitor, self._signals = run_dir, find, monitor, signals
        self._metrics: MetricRows = []
        self._raised: set[str] = set()
        self._looked_at = 0  # so many rows

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """A resumed run keeps the alarms up to the checkpoint's step, and raises them no second time."""
        self._raised = {row.name for row in keep_lines(self._run_dir / ROWS, state.global_step, Finding)}

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if "train_runtime" in logs:
            return
        step, every = state.global_step, self._monitor.every_steps
        if self._metrics:
            self._metrics.append({"step": step, **logs})
        else:
            self._metrics = read_metrics(self._run_dir / "metrics.jsonl")
        bad = next((name for name in WATCHED if not math.isfinite(logs.get(name) or 0.0)), None)
        is_due = step % every == 0 and len(self._metrics) >= GROWTH * self._looked_at or step == state.max_steps
        if bad or is_due:
            self._looked_at = len(self._metrics)
            began = processes.on_main(self._look, step)
            self._signals.alarm = next((name for name in began if name in self._monitor.stop_on), self._signals.alarm)
        if bad and self._monitor.stop_on_nonfinite:
            raise NonFiniteLoss(
                f"{bad} is {float(logs[bad])} at step {step}; try a lower algo.args.learning_rate"
                f" (now {args.learning_rate:g}) or algo.args.max_grad_norm (now {args.max_grad_norm:g})"
            )

    def _look(self, step: int) -> list[str]:
        """Raise the alarms that have begun; returns their names. A rule that fails costs a line, and not the run."""
        found: list[Finding] = []
        with tolerating(f"alarms: not looked for at step {step}", Exception):
            found = self._find(self._metrics)
        new = [finding for finding in found if finding.name not in self._raised]
        for finding in new:
            append(self._run_dir / ROWS, finding.model_copy(update={"step": step}))
            advice = f"; try {finding.remedy}" if finding.remedy else ""
            since = f", since step {finding.steps[0]}" if finding.steps else ""
            tqdm.write(printable(f"alarm        {finding.name} at step {step}: {finding.evidence}{since}{advice}"))
        names = [finding.name for finding in new]
        self._raised.update(names)
        return names
