"""Opens the W&B or trackio run that transformers' callbacks log into (`logging=`), and adds the results at the end.

    with track(cfg, run_dir, args):      # args: TRL's, in which the run gets its name and project
        run(cfg, run_dir, args)

One run for each run folder, closed after any error, so that jobs of a sweep in one process share none. A tracker that
fails at its end prints a line, since everything is in the run folder too.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.schema import Config
from rlhf_exp.errors import FAILED, name_error, say, tell, tolerating
from rlhf_exp.runs.load import Run, load_run
from rlhf_exp.runs.settings import flatten

if TYPE_CHECKING:
    from transformers import TrainingArguments

FINISH_TIMEOUT_S = 120.0
"""How long a run waits for W&B's last upload; `wandb sync` can send what is missing after that."""
NAME_LETTERS = 128  # the most that W&B accepts for a name


@contextmanager
def track(cfg: Config, run_dir: Path, args: "TrainingArguments") -> Iterator[None]:
    """Open the trackers that `logging=` names; at the end send them the results."""
    folder, wanted = run_dir.absolute(), cfg.logging.report_to
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(folder / "tensorboard")
    args.run_name, args.project = f"{folder.parent.name}_{folder.name}"[-NAME_LETTERS:], cfg.logging.wandb_project
    of_run = {"project": args.project, "name": args.run_name, "config": asdict(cfg)}
    of_run["group"] = cfg.logging.group or folder.parent.name
    if "wandb" in wanted:
        _open_wandb({**of_run, "tags": cfg.run.tags, "dir": folder})
    if "trackio" in wanted:
        _open_trackio(resume="allow" if cfg.resume else "never", **of_run)
    try:
        yield
    finally:
        for name in (name for name in ("wandb", "trackio") if name in wanted):
            with tolerating(f"{name}: the results are missing", Exception):
                if name == "trackio":  # transformers' callback has closed it
                    _open_trackio(resume="allow", **of_run)
                _send_results(name, load_run(folder))


def _open_wandb(of_run: dict[str, Any]) -> None:
    """Where W&B decides by its own settings; offline if that fails, such as without a key or a connection."""
    import wandb

    of_run["settings"] = wandb.Settings(finish_timeout=FINISH_TIMEOUT_S, console="off", silent=True)
    try:
        run = wandb.init(**of_run, resume="auto", reinit="finish_previous")
    except Exception as error:
        say(f"W&B: {name_error(error)}; the run is kept offline")
        run = wandb.init(**of_run, mode="offline", reinit="finish_previous")
    where = f"offline; send it with: wandb sync {Path(run.dir).parent}" if run.offline else run.url
    tell(f"W&B run {of_run['name']}: {where}")


def _open_trackio(**of_run: Any) -> None:
    with redirect_stdout(None):
        import_module("trackio").init(**of_run, embed=False)


def _send_results(name: str, run: Run) -> None:
    """Send the figures of evaluation.json as `baseline/accuracy`, `trained/accuracy/low`, ..., what the diagnosis says,
    the plots and the report, and close the tracker's run."""
    tracker: Any = import_module(name)
    try:
        results: dict[str, Any] = {
            key.removesuffix("/value"): value  # an interval's own value stands at the path itself
            for key, value in flatten(run.evaluation.model_dump(exclude_unset=True), separator="/").items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        results["health"] = run.diagnosis.health or "-"
        results["findings"] = ", ".join(found.name for found in run.diagnosis.findings)
        results |= {f"plots/{path.stem}": tracker.Image(str(path)) for path in run.path.glob("plots/*.png")}
        if (page := run.path / "report.html").is_file():
            results["report"] = tracker.Html(str(page), inject=False)
        tracker.log(results)
    finally:
        with redirect_stdout(None):
            tracker.finish(**({"exit_code": 0 if run.status == "finished" else FAILED} if name == "wandb" else {}))
