"""Logs a run to Weights & Biases or TensorBoard, in addition to metrics.jsonl: one W&B run for each run folder.

    with track(cfg, run_dir):      # opens the W&B run with the whole config, and closes it even after an error
        run(cfg, run_dir)
    watch(trainer)                 # training logs into that run

`logging=` switches them on. W&B is offline if there is no key. A tracker that fails prints a line and never ends the
run, since everything is in the run folder too.
"""

import netrc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.schema import Config
from rlhf_exp.errors import FAILED, SIGNALLED, name_error, say
from rlhf_exp.runs.load import Run, load_run
from rlhf_exp.runs.settings import flatten

if TYPE_CHECKING:
    from transformers import Trainer

WANDB_HOST = "api.wandb.ai"
FINISH_TIMEOUT_S = 120.0
"""How long a run waits for its last upload; `wandb sync` can send what is missing after that."""

NAME_LETTERS = 128  # the most that W&B accepts for a name
EXIT_STATUSES = {"finished": 0, "stopped": SIGNALLED + signal.SIGINT}
ID_FILE = "wandb_id"  # holds the id of the W&B run that a resumed run continues


@contextmanager
def track(cfg: Config, run_dir: Path) -> Iterator[None]:
    """Open the trackers that `logging=` names; at the end send them the results and how the run ended."""
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(run_dir / "tensorboard")
    if "wandb" in cfg.logging.report_to:
        _attempt("W&B: no run was opened", lambda: _open_wandb(cfg, run_dir))
    try:
        yield
    finally:
        if "tensorboard" in cfg.logging.report_to:
            _attempt("TensorBoard: the results are missing", lambda: _write_scalars(load_run(run_dir)))
        if "wandb" in cfg.logging.report_to and (opened := _find_run()) is not None:
            _attempt("W&B: the results are missing", lambda: _close_wandb(opened, run_dir))


def watch(trainer: "Trainer") -> None:
    """Let the trainer log into the run that `track` opened, not into the one that transformers would open. That one
    belongs to the process, so that all jobs of a sweep would share it, and holds only TRL's arguments."""
    from transformers.integrations import WandbCallback

    class RunLogger(WandbCallback):
        def setup(self, *args: Any, **kwargs: Any) -> None:
            self._initialized = True

        def on_log(self, *args: Any, **kwargs: Any) -> None:
            _attempt("W&B: a step was not logged", lambda: super(RunLogger, self).on_log(*args, **kwargs))

    if trainer.pop_callback(WandbCallback) is not None and _find_run() is not None:
        trainer.add_callback(RunLogger())


def name_run(cfg: Config, run_dir: Path) -> tuple[str, str | None]:
    """The W&B name and group of a run. The jobs of a sweep, which all may have one `run.name`, are told apart by their
    folders, and grouped by the sweep's."""
    study = run_dir.absolute().parent
    if (study / "multirun.yaml").is_file():
        name, group = "_".join(filter(None, (cfg.run.name, run_dir.name))), study.name
    else:
        name, group = cfg.run.name or f"{cfg.algo.name}_{cfg.task.name}_{cfg.model.name}_seed-{cfg.seed}", None
    return name[:NAME_LETTERS], (cfg.logging.group or group)


def choose_mode(cfg: Config) -> str:
    """The mode that the config sets; for `auto` what WANDB_MODE says, else online with a key and offline without."""
    if cfg.logging.wandb_mode != "auto":
        return cfg.logging.wandb_mode
    return os.environ.get("WANDB_MODE") or ("online" if has_wandb_key() else "offline")


def has_wandb_key() -> bool:
    """Whether a key is in the environment or in ~/.netrc, where `wandb login` writes it."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators(WANDB_HOST) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def list_results(run: Run) -> dict[str, Any]:
    """The figures of evaluation.json as `baseline/accuracy`, `trained/accuracy/low`, ..., and the diagnosis."""
    numbers = {
        name.removesuffix("/value"): value  # an interval's own value stands at the path itself
        for name, value in flatten(run.evaluation, separator="/").items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    findings = [finding["name"] for finding in run.diagnosis.get("findings", [])]
    health = {"health": run.diagnosis["health"], "findings": findings} if run.diagnosis else {}
    return {**numbers, **health, "status": run.status}


def _open_wandb(cfg: Config, run_dir: Path) -> None:
    import wandb

    wandb.finish()  # a run that other code left open would receive this run's figures
    name, group = name_run(cfg, run_dir)
    mode, id_file = choose_mode(cfg), run_dir / ID_FILE
    # With an id, `wandb sync` of a resumed offline run would overwrite its first part.
    resumed = mode == "online" and id_file.is_file()
    run = wandb.init(
        project=cfg.logging.wandb_project,
        entity=cfg.logging.entity,
        name=name,
        group=group,
        tags=cfg.run.tags,
        config=asdict(cfg),
        dir=run_dir,
        mode=mode,  # type: ignore[arg-type]  # of WANDB_MODE, which it checks
        id=id_file.read_text(encoding="utf-8") if resumed else None,
        resume="allow" if mode == "online" else None,
        settings=wandb.Settings(finish_timeout=FINISH_TIMEOUT_S, console="off", silent=True),
    )
    run.define_metric("train/global_step")
    run.define_metric("*", step_metric="train/global_step", step_sync=True)
    if mode == "online":
        id_file.write_text(run.id, encoding="utf-8")
    if mode != "disabled":
        where = run.url if mode == "online" else f"offline; send it with: wandb sync {Path(run.dir).parent}"
        print(f"W&B run {name}: {where}", flush=True)


def _close_wandb(opened: Any, run_dir: Path) -> None:
    exit_status = FAILED
    try:
        run = load_run(run_dir)
        exit_status = EXIT_STATUSES.get(run.status, FAILED)
        opened.summary.update(list_results(run))
    finally:
        opened.finish(exit_code=exit_status)


def _find_run() -> Any:
    """The open W&B run; None if W&B was not imported or the run was not opened."""
    wandb = sys.modules.get("wandb")
    return wandb.run if wandb is not None else None


def _write_scalars(run: Run) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(run.path / "tensorboard")) as writer:
        for name, value in list_results(run).items():
            if isinstance(value, int | float):
                writer.add_scalar(f"held_out/{name}", value, run.info.get("steps", 0))


def _attempt(problem: str, act: Any) -> None:
    """Call `act`; if it fails for any reason, print a line and let the run continue."""
    try:
        act()
    except Exception as error:
        say(f"{problem} ({name_error(error)})")
