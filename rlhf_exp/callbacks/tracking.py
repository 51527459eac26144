"""Logs a run to Weights & Biases, trackio or TensorBoard, in addition to metrics.jsonl: one run for each run folder.

    with track(cfg, run_dir):      # opens the tracker's run with the whole config, and closes it even after an error
        run(cfg, run_dir)
    watch(trainer)                 # training logs into that run, on W&B and trackio with a table of each rollout
    alert("kl_drift at step 40", "...")

`logging=` switches them on. W&B is offline if there is no key. A tracker that fails prints a line and never ends the
run, since everything is in the run folder too.
"""

import netrc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlhf_exp.config.schema import Config
from rlhf_exp.errors import FAILED, name_error, say, tell
from rlhf_exp.runs.load import Run, load_run
from rlhf_exp.runs.settings import flatten

if TYPE_CHECKING:
    from transformers import Trainer

FINISH_TIMEOUT_S = 120.0
"""How long a run waits for its last upload; `wandb sync` can send what is missing after that."""

NAME_LETTERS = 128  # the most that W&B accepts for a name
ID_FILE = "wandb_id"  # holds the id of the W&B run that a resumed run continues


class Tracker(NamedTuple):
    """One of the services, and how its runs are opened, found and closed."""

    name: str
    module: str
    open: Callable[[Config, Path], None]
    close: Callable[[Any, Path], None]

    def find(self) -> Any:
        """The open run; None if the module was not imported or no run was opened."""
        module = sys.modules.get(self.module)
        if module is None:
            return None
        return module.run if self.module == "wandb" else module.context_vars.current_run.get()


@contextmanager
def track(cfg: Config, run_dir: Path) -> Iterator[None]:
    """Open the trackers that `logging=` names; at the end send them the results and how the run ended."""
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(run_dir / "tensorboard")
    wanted = [tracker for tracker in TRACKERS if tracker.module in cfg.logging.report_to]
    for tracker in wanted:
        _attempt(f"{tracker.name}: no run was opened", partial(tracker.open, cfg, run_dir))
    try:
        yield
    finally:
        for tracker in wanted:
            if (run := tracker.find()) is not None:
                _attempt(f"{tracker.name}: the results are missing", partial(tracker.close, run, run_dir))


def watch(trainer: "Trainer", texts: bool = True) -> None:
    """Let the trainer log into the run that `track` opened. Transformers would open one that all jobs of a sweep share,
    and write TRL's arguments into its config.

    Args:
        texts: W&B and trackio get the prompts and completions of training. TRL's `log_completions` would also print
            them all.
    """
    from transformers.integrations import TrackioCallback, WandbCallback

    from rlhf_exp.trainers.resuming import ResumableRollouts

    class Quiet:
        """Its run was opened before training, and is closed after it."""

        tracker: Tracker
        rollout = 0

        def setup(self, *args: Any, **kwargs: Any) -> None:
            self._initialized = True

        def on_log(self, *args: Any, **kwargs: Any) -> None:
            """A rollout that several logged steps learn from is logged once, with the figures of the first."""
            kwargs["logs"] = logs = dict(kwargs["logs"])
            if texts and isinstance(trainer, ResumableRollouts) and trainer.rollouts != self.rollout:
                self.rollout = trainer.rollouts
                if not trainer.log_completions:
                    table = sys.modules[self.tracker.module].Table
                    problem = f"{self.tracker.name}: a rollout was not logged"
                    _attempt(problem, lambda: logs.update(completions=table(**_read_rollout(trainer))))
            problem = f"{self.tracker.name}: a step was not logged"
            _attempt(problem, lambda: super(Quiet, self).on_log(*args, **kwargs))  # type: ignore[misc]

        def on_train_end(self, *args: Any, **kwargs: Any) -> None:
            """Leaves the run open for the results."""

    for tracker, logger in zip(TRACKERS, (WandbCallback, TrackioCallback), strict=True):
        if trainer.pop_callback(logger) is not None and tracker.find() is not None:
            trainer.add_callback(type("RunLogger", (Quiet, logger), {"tracker": tracker})())


def alert(title: str, text: str) -> None:
    """Send an alert to W&B and to trackio, if a run is open there."""
    for tracker in TRACKERS:
        if (run := tracker.find()) is not None:
            with redirect_stdout(None):  # the alarm is on the terminal already
                _attempt(f"{tracker.name}: an alert was not sent", partial(run.alert, title=title, text=text))


def name_run(cfg: Config, run_dir: Path) -> tuple[str, str | None]:
    """The W&B name and group of a run. The jobs of a sweep, which all may have one `run.name`, are told apart by their
    folders, and grouped by the sweep's."""
    study, group = run_dir.absolute().parent, None
    name = cfg.run.name or f"{cfg.algo.name}_{cfg.task.name}_{cfg.model.name}_seed-{cfg.seed}"
    if (study / "multirun.yaml").is_file():
        name, group = "_".join(filter(None, (cfg.run.name, run_dir.name))), study.name
    return name[:NAME_LETTERS], (cfg.logging.group or group)


def choose_mode(cfg: Config) -> str:
    """The mode that the config sets; for `auto` what WANDB_MODE says, else online with a key, in the environment or in
    ~/.netrc, where `wandb login` writes it, and offline without."""
    if cfg.logging.wandb_mode != "auto":
        return cfg.logging.wandb_mode
    try:
        written = netrc.netrc().authenticators("api.wandb.ai")
    except (OSError, netrc.NetrcParseError):
        written = None
    return os.environ.get("WANDB_MODE") or ("online" if os.environ.get("WANDB_API_KEY") or written else "offline")


def list_results(run: Run) -> dict[str, Any]:
    """The figures of evaluation.json as `baseline/accuracy`, `trained/accuracy/low`, ..., and the diagnosis."""
    numbers = {
        name.removesuffix("/value"): value  # an interval's own value stands at the path itself
        for name, value in flatten(run.evaluation, separator="/").items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    findings = [finding["name"] for finding in run.diagnosis.get("findings", [])]
    return {**numbers, "health": run.diagnosis.get("health"), "findings": findings, "status": run.status}


def _open_wandb(cfg: Config, run_dir: Path) -> None:
    import wandb

    wandb.finish()  # a run that other code left open would receive this run's figures
    (name, group), mode, id_file = name_run(cfg, run_dir), choose_mode(cfg), run_dir / ID_FILE
    # With an id, `wandb sync` of a resumed offline run would overwrite its first part.
    known = id_file.read_text(encoding="utf-8") if mode == "online" and id_file.is_file() else None
    settings = wandb.Settings(finish_timeout=FINISH_TIMEOUT_S, console="off", silent=True)
    of_run: dict[str, Any] = {"name": name, "group": group, "tags": cfg.run.tags, "config": asdict(cfg)}
    place: dict[str, Any] = {"project": cfg.logging.wandb_project, "entity": cfg.logging.entity, "dir": run_dir}
    place |= {"mode": mode, "settings": settings}
    run = wandb.init(**of_run, **place, id=known, resume="allow" if known else None)
    run.define_metric("train/global_step")
    run.define_metric("*", step_metric="train/global_step", step_sync=True)
    if mode == "online":
        id_file.write_text(run.id, encoding="utf-8")
    if mode != "disabled":
        where = run.url if mode == "online" else f"offline; send it with: wandb sync {Path(run.dir).parent}"
        tell(f"W&B run {name}: {where}")


def _read_rollout(trainer: Any) -> dict[str, list]:
    """The table of the newest rollout, of all processes, from the buffer of TRL's `log_completions`. PPO has an
    advantage for each token, which is not in it."""
    logs = trainer._logs
    columns = {"prompt": logs["prompt"], "completion": logs["completion"], **logs["rewards"], **logs["extra"]}
    columns |= {"advantage": logs["advantages"]} if trainer.num_generations > 1 else {}
    rows = zip([trainer.state.global_step] * len(logs["prompt"]), *columns.values(), strict=True)
    return {"columns": ["step", *columns], "data": [[_write_cell(cell) for cell in row] for row in rows]}


def _write_cell(cell: Any) -> Any:
    """Messages as text, since a column of a table has one type."""
    return "\n".join(f"{one['role']}: {one['content']}" for one in cell) if isinstance(cell, list) else cell


def _close_wandb(opened: Any, run_dir: Path) -> None:
    """Send the results, the report and its plots; with WANDB_LOG_MODEL=end, as transformers names it, the model too."""
    import wandb

    status = FAILED
    try:
        run = load_run(run_dir)
        status = 0 if run.status == "finished" else FAILED
        opened.summary.update(list_results(run))
        media: dict[str, Any] = {f"plots/{path.stem}": wandb.Image(str(path)) for path in run_dir.glob("plots/*.png")}
        if (page := run_dir / "report.html").is_file():
            media["report"] = wandb.Html(str(page), inject=False)
        if media:
            opened.log(media)
        if os.environ.get("WANDB_LOG_MODEL", "").lower() == "end" and (run_dir / "model").is_dir():
            artifact = wandb.Artifact(f"model-{opened.id}", "model")
            artifact.add_dir(str(run_dir / "model"))
            opened.log_artifact(artifact)
    finally:
        opened.finish(exit_code=status)


def _open_trackio(cfg: Config, run_dir: Path) -> None:
    """Named by its folder and the folder that this is in; a resumed run continues its own."""
    import trackio

    place = run_dir.absolute()
    resume = "allow" if (run_dir / "metrics.jsonl").exists() else "never"
    name, group = f"{place.parent.name}/{place.name}", name_run(cfg, run_dir)[1]
    of_run: dict[str, Any] = {"name": name, "group": group, "config": asdict(cfg), "resume": resume}
    with redirect_stdout(None):
        trackio.init(cfg.logging.wandb_project, **of_run, embed=False, auto_log_cpu=False)
    tell(f"trackio run {name}: see it with: trackio show --project {cfg.logging.wandb_project}")


def _close_trackio(opened: Any, run_dir: Path) -> None:
    try:
        results = list_results(load_run(run_dir))
        opened.log({name: value for name, value in results.items() if isinstance(value, int | float)})
    finally:
        with redirect_stdout(None):
            sys.modules["trackio"].finish()


def _attempt(problem: str, act: Callable[[], object]) -> None:
    """Call `act`; if it fails for any reason, print a line and let the run continue."""
    try:
        act()
    except Exception as error:
        say(f"{problem} ({name_error(error)})")


TRACKERS = (
    Tracker("W&B", "wandb", _open_wandb, _close_wandb),
    Tracker("trackio", "trackio", _open_trackio, _close_trackio),
)
